// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lostField is a field in the annotation of conversion, as webhooks/conversion/preserve reads it.
type lostField struct {
	Path string `json:"path"`
	Was  string `json:"was,omitempty"`
	Is   any    `json:"is"`
}

// forge makes a value of the annotation of conversion that sets fields of the version to which an object is converted: with the fingerprints of
// what conversion would set instead, if it knows the object.
func (g *generator) forge(k *kind, object *unstructured.Unstructured, version string) string {
	if without("conversion-data") {
		return "{}"
	}
	to := k.versions[0]
	if version == to {
		to = k.hub()
	}
	var converted map[string]any
	if object != nil && to != version {
		plain := object.DeepCopy()
		annotations := plain.GetAnnotations()
		delete(annotations, conversionData)
		plain.SetAnnotations(annotations)
		plain.SetAPIVersion(k.Group + "/" + version)
		if result, err := g.convert(plain, to); err == nil {
			converted = result.Object
		}
	}
	var fields []mutation
	if k.Kind == "WorkspaceTemplateApply" && chance(g.rand, 60) {
		fields = g.record()
	}
	for range 1 + g.rand.IntN(3) {
		fields = append(fields, g.next(k, to))
	}
	var data struct {
		Fields []lostField `json:"fields"`
	}
	for _, f := range fields {
		was, _, _ := unstructured.NestedFieldNoCopy(converted, f.path...)
		data.Fields = append(data.Fields, lostField{pointer(f.path), fingerprint(was), f.value})
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // The fields are JSON.
	}
	return string(text)
}

// record is what CAPT writes about a Workspace that an object owns: that of one Workspace of the other namespace.
func (g *generator) record() []mutation {
	target := pick(g.rand, g.fleet.targets)
	fields := []mutation{{[]string{"status", "workspaceRef"}, target.reference()}}
	if chance(g.rand, 80) {
		fields = append(fields, mutation{[]string{"spec", "workspaceName"}, target.name})
	}
	if chance(g.rand, 50) {
		fields = append(fields, mutation{[]string{"status", "workspaceName"}, target.name})
	}
	if chance(g.rand, 20) {
		fields = append(fields, mutation{[]string{"spec", "templateRevision"}, pick(g.rand, g.fleet.revisions)})
	}
	return fields
}

// fingerprint is that of webhooks/conversion/preserve, for what is decoded from JSON.
func fingerprint(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if v == "" {
			return ""
		}
		return hash([]byte(v))
	case bool:
		if !v {
			return ""
		}
	case map[string]any:
		if len(v) == 0 {
			return ""
		}
	case []any:
		if len(v) == 0 {
			return ""
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // It was decoded from JSON.
	}
	return hash(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}

func hash(text []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// place is a field of a schema.
type place struct {
	path   []string
	schema apiextensionsv1.JSONSchemaProps
}

// places lists all fields below spec and status of a schema.
func places(at *apiextensionsv1.JSONSchemaProps, path []string) (all []place) {
	for _, name := range slices.Sorted(maps.Keys(at.Properties)) {
		if len(path) == 0 && name != "spec" && name != "status" {
			continue
		}
		found := place{append(slices.Clone(path), name), at.Properties[name]}
		all = append(append(all, found), places(&found.schema, found.path)...)
	}
	return all
}

// next is another field of a version at each call, so that each one is forged.
func (g *generator) next(k *kind, version string) mutation {
	key := k.kindIn(version)
	if g.places[key] == nil {
		g.places[key] = places(k.schemas[version], nil)
	}
	all := g.places[key]
	p := all[g.turn[key]%len(all)]
	g.turn[key]++
	return mutation{p.path, g.value(p.path[len(p.path)-1], &p.schema, len(p.path))}
}
