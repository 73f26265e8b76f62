package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxProblems is the largest number of violations in one error.
const maxProblems = 20

// argumentSchema checks the arguments of one tool. A nil one allows anything.
type argumentSchema struct {
	schema *jsonschema.Schema
	names  []string // of all properties in it
}

// noDocuments keeps a schema from reading files or the network.
type noDocuments struct{}

func (noDocuments) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema", url)
}

func mustCompile(tool, text string) *argumentSchema {
	if text == "" {
		return nil
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		panic(fmt.Sprintf("agent: the schema of tool %s: %v", tool, err))
	}
	const here = "mem:///schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noDocuments{})
	compiler.AssertFormat()
	if err := compiler.AddResource(here, document); err != nil {
		panic(fmt.Sprintf("agent: the schema of tool %s: %v", tool, err))
	}
	schema, err := compiler.Compile(here)
	if err != nil {
		panic(fmt.Sprintf("agent: the schema of tool %s: %v", tool, err))
	}
	return &argumentSchema{schema, propertyNames(document)}
}

// problems describe what is wrong with arguments. They leave out the values, which may be secrets: problems are stored and shown.
func (s *argumentSchema) problems(text string) []string {
	if s == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return []string{"they are no JSON"}
	}
	found := s.misspelt(value, nil)
	if err := s.schema.Validate(value); err != nil {
		if violation, ok := err.(*jsonschema.ValidationError); ok {
			found = append(found, violations(violation)...)
		} else {
			found = append(found, "they cannot be checked")
		}
	}
	return found[:min(len(found), maxProblems)]
}

// misspelt finds names that differ from those of the schema in case only. encoding/json takes them for the same, and the schema does not:
// a value could pass it under another name.
func (s *argumentSchema) misspelt(value any, at []string) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			folded := func(known string) bool { return known != name && strings.EqualFold(known, name) }
			if !slices.Contains(s.names, name) && slices.ContainsFunc(s.names, folded) {
				found = append(found, path(at, name)+": is not permitted")
			}
			found = append(found, s.misspelt(inner, append(slices.Clip(at), name))...)
		}
	case []any:
		for i, inner := range value {
			found = append(found, s.misspelt(inner, append(slices.Clip(at), strconv.Itoa(i)))...)
		}
	}
	return found
}

// propertyNames are the names of properties anywhere in a schema.
func propertyNames(schema any) []string {
	var names []string
	switch schema := schema.(type) {
	case map[string]any:
		for key, inner := range schema {
			if properties, ok := inner.(map[string]any); ok && key == "properties" {
				for name := range properties {
					names = append(names, name)
				}
			}
			names = append(names, propertyNames(inner)...)
		}
	case []any:
		for _, inner := range schema {
			names = append(names, propertyNames(inner)...)
		}
	}
	return names
}

// violations are the lowest ones that say something by themselves.
func violations(e *jsonschema.ValidationError) []string {
	switch why := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		var found []string
		for _, cause := range e.Causes {
			found = append(found, violations(cause)...)
		}
		return found
	case *kind.Required:
		var found []string
		for _, name := range why.Missing {
			found = append(found, path(e.InstanceLocation, name)+": is required")
		}
		return found
	case *kind.AdditionalProperties:
		var found []string
		for _, name := range why.Properties {
			found = append(found, path(e.InstanceLocation, name)+": is not permitted")
		}
		return found
	case *kind.Type:
		return []string{said(e, "must be "+strings.Join(why.Want, " or "))}
	default:
		return []string{said(e, "must satisfy "+strings.Join(why.KeywordPath(), "."))}
	}
}

func said(e *jsonschema.ValidationError, what string) string {
	if where := path(e.InstanceLocation); where != "" {
		return where + ": " + what
	}
	return what
}

func path(at []string, name ...string) string {
	return strings.Join(append(slices.Clip(at), name...), ".")
}
