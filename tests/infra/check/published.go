package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// published is the schema of one version of a custom resource, as the API server would use it.
type published struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
}

// problems says what validation refuses, and which fields the API server would drop without a word.
func (p published) problems(object map[string]any) []string {
	var problems []string
	for _, err := range validation.ValidateCustomResource(nil, object, p.validator) {
		problems = append(problems, err.Error())
	}
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(runtime.DeepCopyJSON(object), p.structural, true, options) {
		problems = append(problems, fmt.Sprintf("unknown field %q", path))
	}
	return problems
}

// readSchemas adds every served version in a file of CustomResourceDefinitions, by "group/version Kind".
func readSchemas(path string, into map[string]published) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var definition v1.CustomResourceDefinition
		if err := sigsyaml.Unmarshal(document, &definition); err != nil {
			return err
		}
		for _, version := range definition.Spec.Versions {
			if version.Schema == nil || !version.Served {
				continue
			}
			compiled, err := compile(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return err
			}
			into[definition.Spec.Group+"/"+version.Name+" "+definition.Spec.Names.Kind] = compiled
		}
	}
}

func compile(properties *v1.JSONSchemaProps) (published, error) {
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(properties, &internal, nil); err != nil {
		return published{}, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return published{}, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	return published{structural, validator}, err
}
