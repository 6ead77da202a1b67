package main

import (
	"flag"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// renderChart puts into the report what `helm template` would print, by file. A template that asks for a
// value that is not there is a finding.
func renderChart(arguments []string, r *report) error {
	var files paths
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	flags.Var(&files, "values", "a file of values that go before the chart's own")
	namespace := flags.String("namespace", "kiln", "of the release")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	folder := flags.Arg(0)
	chart, err := loader.Load(folder)
	if err != nil {
		r.found(folder, "%v", err)
		return nil
	}
	given := chartutil.Values{}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			r.found(file, "%v", err)
			return nil
		}
		given = chartutil.CoalesceTables(values, given)
	}
	release := chartutil.ReleaseOptions{Name: "kiln", Namespace: *namespace, IsInstall: true, Revision: 1}
	values, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		r.found(folder, "%v", err)
		return nil
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, values)
	if err != nil {
		r.found(folder, "%v", err)
		return nil
	}
	r.Files = map[string]string{}
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" && path.Base(name) != "NOTES.txt" {
			r.Files[name] = text
		}
	}
	r.Checked["template"] = len(rendered)
	return nil
}
