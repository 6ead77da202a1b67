// The part of infra-check that needs the Go code of Kubernetes, KEDA, Helm and Compose. It prints one JSON report and
// ends with status 0 whatever was found; another status says that it could not look.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

const usage = `usage: check manifests [-crd FILE]... [-triggers FILE] [-external-keys KEY,...] FILE...
       check chart [-values FILE]... FOLDER
       check compose FILE...`

type finding struct {
	Where   string `json:"where"`
	Problem string `json:"problem"`
}

type report struct {
	Checked  map[string]int    `json:"checked"`
	Findings []finding         `json:"findings"`
	Files    map[string]string `json:"files,omitempty"`
}

func (r *report) found(where, format string, values ...any) {
	r.Findings = append(r.Findings, finding{where, fmt.Sprintf(format, values...)})
}

func main() {
	commands := map[string]func([]string, *report) error{
		"manifests": checkManifests,
		"chart":     renderChart,
		"compose":   checkCompose,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	r := &report{Checked: map[string]int{}, Findings: []finding{}}
	if err := commands[os.Args[1]](os.Args[2:], r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
