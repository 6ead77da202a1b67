package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

type paths []string

func (p *paths) String() string         { return strings.Join(*p, ",") }
func (p *paths) Set(value string) error { *p = append(*p, value); return nil }

var unstable = regexp.MustCompile(`v[0-9]+(alpha|beta)[0-9]+$`)

// judge knows every kind that may be rendered: by Go type, by published schema, or by both.
type judge struct {
	decoder  runtime.Decoder
	schemas  map[string]published
	triggers triggers
	report   *report
}

// checkManifests decodes every document of the files strictly. A kind that neither a type nor a schema tells is refused.
func checkManifests(arguments []string, r *report) error {
	var crds paths
	flags := flag.NewFlagSet("manifests", flag.ContinueOnError)
	flags.Var(&crds, "crd", "a file of CustomResourceDefinitions")
	triggersFile := flags.String("triggers", "", "KEDA's schema/generated/scalers-schema.json")
	externalKeys := flags.String("external-keys", "", "what an external scaler's trigger may say besides KEDA's own keys")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, keda.AddToScheme, monitoring.AddToScheme} {
		if err := add(types); err != nil {
			return err
		}
	}
	j := judge{
		decoder: serializer.NewSerializerWithOptions(
			serializer.DefaultMetaFactory, types, types, serializer.SerializerOptions{Yaml: true, Strict: true}),
		schemas: map[string]published{},
		report:  r,
	}
	for _, path := range crds {
		if err := readSchemas(path, j.schemas); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	var err error
	if j.triggers, err = readTriggers(*triggersFile, strings.Split(*externalKeys, ",")); err != nil {
		return err
	}
	for _, path := range flags.Args() {
		if err := j.file(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (j *judge) file(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := yaml.NewYAMLReader(bufio.NewReader(file))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text := strings.TrimSpace(string(document)); text == "" || text == "---" {
			continue
		}
		j.document(fmt.Sprintf("%s, document %d", path, number), document)
	}
}

func (j *judge) document(where string, document []byte) {
	raw, err := yaml.ToJSON(document)
	if err != nil {
		j.report.found(where, "is no YAML: %v", err)
		return
	}
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		j.report.found(where, "is no object: %v", err)
		return
	}
	where = fmt.Sprintf("%s, %s %s", where, object.GetKind(), object.GetName())
	j.report.Checked[object.GetKind()]++
	typed, _, err := j.decoder.Decode(bytes.TrimSpace(document), nil, nil)
	schema, hasSchema := j.schemas[object.GetAPIVersion()+" "+object.GetKind()]
	switch {
	case runtime.IsNotRegisteredError(err) && !hasSchema:
		j.report.found(where, "is of a kind and version that nothing here knows: %s", object.GetAPIVersion())
	case err != nil && !runtime.IsNotRegisteredError(err):
		j.report.found(where, "%v", err)
	case !hasSchema && unstable.MatchString(object.GetAPIVersion()):
		// The types of versions that are long gone are kept to read what was once stored.
		j.report.found(where, "is of a version that clusters serve no longer, or not unasked: %s", object.GetAPIVersion())
	}
	if hasSchema {
		for _, problem := range schema.problems(object.Object) {
			j.report.found(where, "%s", problem)
		}
	}
	if scaled, ok := typed.(*keda.ScaledObject); ok && err == nil {
		j.scaledObject(where, scaled)
	}
}
