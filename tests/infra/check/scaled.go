package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
)

// parameter is one key of a trigger's metadata, as KEDA publishes it. A key that KEDA does not know it ignores silently.
type parameter struct {
	Name          string
	Optional      bool
	Default       string
	AllowedValue  []string
	FromMetadata  bool `json:"metadataVariableReadable"`
	FromEnv       bool `json:"envVariableReadable"`
	FromReference bool `json:"triggerAuthenticationVariableReadable"`
}

type triggers struct {
	parameters map[string][]parameter
	external   []string // what an external scaler is told besides
}

func readTriggers(path string, external []string) (triggers, error) {
	if path == "" {
		return triggers{}, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return triggers{}, err
	}
	var listed struct {
		Scalers []struct {
			Type       string
			Parameters []parameter
		}
	}
	if err := json.Unmarshal(content, &listed); err != nil {
		return triggers{}, fmt.Errorf("%s: %w", path, err)
	}
	known := triggers{map[string][]parameter{}, external}
	for _, scaler := range listed.Scalers {
		known.parameters[scaler.Type] = scaler.Parameters
	}
	if len(known.parameters) == 0 {
		return triggers{}, fmt.Errorf("%s lists no scalers", path)
	}
	return known, nil
}

// scaledObject asks the questions of KEDA's admission webhook that need no cluster, and then for each trigger's keys.
func (j *judge) scaledObject(where string, scaled *keda.ScaledObject) {
	questions := []error{
		keda.ValidateTriggers(scaled.Spec.Triggers),
		keda.CheckReplicaCountBoundsAreValid(scaled),
		keda.CheckFallbackValid(scaled),
	}
	if scaled.IsUsingModifiers() {
		_, err := keda.ValidateAndCompileScalingModifiers(scaled)
		questions = append(questions, err)
	}
	for _, err := range questions {
		if err != nil {
			j.report.found(where, "%s", strings.ReplaceAll(err.Error(), "\n", ": "))
		}
	}
	if j.triggers.parameters == nil {
		return
	}
	for number, trigger := range scaled.Spec.Triggers {
		at := fmt.Sprintf("%s, trigger %d (%s %s)", where, number, trigger.Type, trigger.Name)
		j.trigger(at, trigger)
		j.report.Checked["trigger"]++
	}
}

func (j *judge) trigger(where string, trigger keda.ScaleTriggers) {
	parameters, known := j.triggers.parameters[trigger.Type]
	if !known {
		j.report.found(where, "KEDA has no such type")
		return
	}
	allowed := map[string]parameter{}
	for _, p := range parameters {
		if p.FromMetadata {
			allowed[p.Name] = p
		}
		if p.FromEnv {
			allowed[p.Name+"FromEnv"] = parameter{}
		}
		_, said := trigger.Metadata[p.Name]
		_, elsewhere := trigger.Metadata[p.Name+"FromEnv"]
		referred := p.FromReference && trigger.AuthenticationRef != nil
		if !p.Optional && p.Default == "" && !said && !elsewhere && !referred {
			j.report.found(where, "metadata lacks %q", p.Name)
		}
	}
	keys := make([]string, 0, len(trigger.Metadata))
	for key := range trigger.Metadata {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		p, ok := allowed[key]
		ours := strings.HasPrefix(trigger.Type, "external") && slices.Contains(j.triggers.external, key)
		value := trigger.Metadata[key]
		switch {
		case !ok && !ours:
			j.report.found(where, "unknown metadata key %q", key)
		case value == "":
			j.report.found(where, "metadata key %q is empty", key)
		case len(p.AllowedValue) > 0 && !slices.Contains(p.AllowedValue, value):
			j.report.found(where, "metadata key %q is %q, and may be %s", key, value, strings.Join(p.AllowedValue, ", "))
		}
	}
}
