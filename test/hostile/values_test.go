// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// maxDepth ends the descent into schemas.
const maxDepth = 6

// mutation sets one field; without a value, it removes the field.
type mutation struct {
	path  []string
	value any
}

// field chooses a field below spec or status, and a value for it.
func (g *generator) field(k *kind, version, root string) mutation {
	s, ok := k.schemas[version]
	if !ok {
		return mutation{[]string{root, "data"}, g.text("data")}
	}
	at, path := s.Properties[root], []string{root}
	for len(at.Properties) > 0 && (len(path) == 1 || len(path) < maxDepth && chance(g.rand, 60)) {
		name := pick(g.rand, slices.Sorted(maps.Keys(at.Properties)))
		path, at = append(path, name), at.Properties[name]
	}
	if chance(g.rand, 12) {
		return mutation{path: path}
	}
	return mutation{path, g.value(path[len(path)-1], &at, len(path))}
}

// value makes a value of a schema. Its worst values depend on the name of the field.
func (g *generator) value(name string, s *apiextensionsv1.JSONSchemaProps, depth int) any {
	if made, ok := g.special(name); ok && s.Type == "object" {
		return made
	}
	switch {
	case len(s.Enum) > 0 && !chance(g.rand, 5):
		var value any
		if err := yaml.Unmarshal(pick(g.rand, s.Enum).Raw, &value); err != nil {
			panic(err) // The API server accepted the schema.
		}
		return value
	case s.Type == "object":
		return g.object(s, depth)
	case s.Type == "array":
		list := []any{}
		for range g.rand.IntN(3) {
			list = append(list, g.value(name, s.Items.Schema, depth+1))
		}
		return list
	case s.Type == "boolean":
		return chance(g.rand, 50)
	case s.Type == "integer":
		return int64(pick(g.rand, []int{0, 1, 2, 10, 60, 900, -1, 1 << 30}))
	case s.Format == "date-time":
		return pick(g.rand, []string{"2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2026-07-01T12:00:00Z"})
	}
	return g.text(name)
}

func (g *generator) object(s *apiextensionsv1.JSONSchemaProps, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if slices.Contains(s.Required, name) || depth < maxDepth && chance(g.rand, 40) {
			object[name] = g.value(name, &property, depth+1)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		for range 1 + g.rand.IntN(2) {
			key := pick(g.rand, []string{"vpc_name", "cluster_name", "tags", "vpc_id", "region", "kubernetes_version", "size", "any"})
			object[key] = g.value(key, s.AdditionalProperties.Schema, depth+1)
		}
	}
	return object
}

// special makes objects whose fields must agree: a reference to one existing object.
func (g *generator) special(name string) (map[string]any, bool) {
	if !chance(g.rand, 70) {
		return nil, false
	}
	switch name {
	case "workspaceRef":
		return pick(g.rand, g.fleet.targets).reference(), true
	case "templateRef", "ref", "workspaceTemplateRef":
		return pick(g.rand, g.fleet.templateRefs()), true
	case "workspaceTemplateApplyRef":
		return map[string]any{"name": pick(g.rand, g.fleet.names)}, true
	case "controlPlaneEndpoint":
		return map[string]any{"host": pick(g.rand, []string{"127.0.0.1", "169.254.169.254", "example.com"}), "port": int64(pick(g.rand, []int{1, 443, 6443}))}, true
	}
	return nil, false
}

// worst are values for fields and keys whose names have a part.
type worst struct {
	part   string
	values []string
}

func (f *fleet) worst() []worst {
	var workspaces []string
	for _, t := range f.targets {
		workspaces = append(workspaces, t.name)
	}
	versions := []string{"v1.35.0", "1.34", "v1.36.1"}
	return []worst{
		{"revision", f.revisions}, {"approve", f.revisions}, {"resume", f.revisions}, {"externalname", f.states}, {"external-name", f.states},
		{"uid", f.uids}, {"adopt", f.uids}, {"workspacename", workspaces}, {"namespace", []string{f.a, f.b, f.p, "kube-system"}},
		{"region", []string{"eu-central-1", "us-east-1"}}, {"version", versions}, {"name", f.names}, {"host", f.names},
	}
}

// text makes a text for a field, the value of an annotation or a label.
func (g *generator) text(name string) string {
	if chance(g.rand, 75) {
		for _, w := range g.fleet.worst() {
			if strings.Contains(strings.ToLower(name), w.part) {
				return pick(g.rand, w.values)
			}
		}
	}
	return g.anyText()
}

func (g *generator) anyText() string {
	f := g.fleet
	return pick(g.rand, []func(r *rand.Rand) string{
		func(*rand.Rand) string { return "true" },
		func(*rand.Rand) string { return "" },
		func(r *rand.Rand) string { return pick(r, f.names) },
		func(r *rand.Rand) string { return pick(r, f.uids) },
		func(r *rand.Rand) string { return pick(r, f.states) },
		func(r *rand.Rand) string { return pick(r, f.revisions) },
		func(r *rand.Rand) string { return f.b + "/" + pick(r, f.names) },
		func(r *rand.Rand) string { return pick(r, f.targets).name },
		func(*rand.Rand) string { return f.b },
		func(*rand.Rand) string { return "2026-07-01T12:00:00Z" },
		func(*rand.Rand) string { return "Enabled" },
		func(*rand.Rand) string { return "Retain" },
		func(*rand.Rand) string { return "RecreateWorkspace" },
		func(r *rand.Rand) string {
			return pick(r, []string{"captctl-migrate", "fargate-profiles", "0", "-1", "{}", "null"})
		},
		func(*rand.Rand) string { return `${file("/etc/passwd")}` },
		func(*rand.Rand) string { return "x\"\n}\nresource \"terraform_data\" \"evil\" {}\n" },
		func(r *rand.Rand) string { return strings.Repeat("x", pick(r, []int{64, 300, 5000, 60000})) },
	})(g.rand)
}
