// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"math/rand/v2"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// generator makes the requests of a seed. It reads the object that a request changes, so answers of the API server influence what follows.
type generator struct {
	rand *rand.Rand
	vocabulary
	fleet *fleet
	kinds []*kind
	// stored returns an object of the hostile user's namespace in the stored version; nil if it does not exist.
	stored func(k *kind, name string) *unstructured.Unstructured

	scheme   *runtime.Scheme
	registry conversion.Registry
	// places and turn are the fields of each version, and the one that is forged next.
	places map[schema.GroupVersionKind][]place
	turn   map[schema.GroupVersionKind]int
	// queue has requests that belong together.
	queue []func() *request
	// tried counts the accepted requests per kind, verb and version.
	tried map[combination]int
}

// combination is what must be accepted at least once.
type combination struct {
	kind, version string
	verb          verb
}

// read returns an object of the hostile user's namespace in a version; nil if it does not exist.
func (g *generator) read(k *kind, version, name string) *unstructured.Unstructured {
	object := g.stored(k, name)
	if object == nil || version == k.hub() {
		return object
	}
	converted, err := g.convert(object, version)
	if err != nil {
		panic(err) // Conversion is total.
	}
	return converted
}

// request makes the next one.
func (g *generator) request() *request {
	for len(g.queue) > 0 {
		next := g.queue[0]
		g.queue = g.queue[1:]
		if r := next(); r != nil {
			return r
		}
	}
	for {
		if chance(g.rand, 25) {
			if r := weighted(g.rand, attacks())(g); r != nil {
				return r
			}
		}
		if least := g.least(); g.tried[least] == 0 && chance(g.rand, 15) {
			if r := g.of(g.kindNamed(least.kind), least.verb, least.version); r != nil {
				return r
			}
		}
		if r := g.random(); r != nil {
			return r
		}
	}
}

// least is the combination that was accepted least.
func (g *generator) least() (least combination) {
	for _, k := range g.kinds {
		for _, v := range verbs() {
			for _, version := range k.versions {
				key := combination{k.Kind, version, v}
				if k.permitted && (least.kind == "" || g.tried[key] < g.tried[least]) {
					least = key
				}
			}
		}
	}
	return least
}

func (g *generator) kindNamed(name string) *kind {
	return g.kinds[slices.IndexFunc(g.kinds, func(k *kind) bool { return k.Kind == name })]
}

// random is a request of a kind, a verb and a version by chance; nil if there is no object for it.
func (g *generator) random() *request {
	var choices []choice[*kind]
	for _, k := range g.kinds {
		choices = append(choices, choice[*kind]{k.weight, k})
	}
	k := weighted(g.rand, choices)
	return g.of(k, weighted(g.rand, []choice[verb]{
		{14, create}, {14, update}, {12, jsonPatch}, {24, mergePatch}, {18, apply}, {14, remove}, {1, removeCollection},
	}), pick(g.rand, k.versions))
}

// of is a request of a kind, a verb and a version.
func (g *generator) of(k *kind, v verb, version string) *request {
	r := &request{verb: v, kind: k, version: version, name: pick(g.rand, k.names), manager: pick(g.rand, g.managers)}
	if chance(g.rand, 30) {
		r.manager = ""
	}
	if chance(g.rand, 4) && v != removeCollection {
		r.subresource = pick(g.rand, []string{"status", "status", "finalizers", "scale"})
	}
	switch v {
	case create:
		for range 5 { // One of the names may be free.
			if g.read(k, version, r.name) == nil {
				break
			}
			r.name = pick(g.rand, k.names)
		}
		r.body = g.changed(k, version, g.manifest(k, version, r.name), g.changes(3))
	case apply:
		r.force = chance(g.rand, 80)
		object := g.manifest(k, version, r.name)
		object.SetGroupVersionKind(k.kindIn(version))
		r.body = g.changed(k, version, object, g.changes(3))
	case remove:
		r.propagation = g.propagation()
	case removeCollection:
		r.name, r.propagation = "", g.propagation()
		r.selector = pick(g.rand, []string{"", "!cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-name=demo"}) // A policy keeps what an owner has.
	default:
		return g.existing(r)
	}
	return r
}

// existing completes a request that changes an object; nil if there is none.
func (g *generator) existing(r *request) *request {
	object := g.read(r.kind, r.version, r.name)
	if object == nil {
		if r.kind.permitted {
			return nil
		}
		object = g.manifest(r.kind, r.version, r.name)
	}
	if r.verb == update && chance(g.rand, 50) {
		object.SetResourceVersion("")
	}
	return g.patched(r, object, g.mutations(r.kind, r.version, object, g.changes(4)))
}

// patched completes a patch or an update with mutations of an object.
func (g *generator) patched(r *request, object *unstructured.Unstructured, mutations []mutation) *request {
	merged, operations := map[string]any{}, []any{}
	object = object.DeepCopy()
	for _, m := range mutations {
		_ = unstructured.SetNestedField(merged, runtime.DeepCopyJSONValue(m.value), m.path...) // Not below another mutation.
		if operation := operationOf(object.Object, m); operation != nil {
			operations = append(operations, operation)
		}
		setField(object.Object, m)
	}
	switch r.verb {
	case update:
		r.body, r.changes = object.Object, merged
	case mergePatch:
		r.body = merged
	default:
		r.body = operations
	}
	return r
}

// operationOf is a mutation as an operation of a JSON patch, with the parents that an object does not have; nil if it has no effect.
func operationOf(object map[string]any, m mutation) map[string]any {
	for i := range m.path {
		_, found, err := unstructured.NestedFieldNoCopy(object, m.path[:i+1]...)
		if err != nil {
			return nil
		}
		if found {
			continue
		}
		if m.value == nil {
			return nil
		}
		value := m.value
		if rest := m.path[i+1:]; len(rest) > 0 {
			value = nested(rest, value)
		}
		return map[string]any{"op": "add", "path": pointer(m.path[:i+1]), "value": value}
	}
	if m.value == nil {
		return map[string]any{"op": "remove", "path": pointer(m.path)}
	}
	return map[string]any{"op": "replace", "path": pointer(m.path), "value": m.value}
}

func setField(object map[string]any, m mutation) {
	if m.value == nil {
		unstructured.RemoveNestedField(object, m.path...)
		return
	}
	_ = unstructured.SetNestedField(object, runtime.DeepCopyJSONValue(m.value), m.path...) // Not below a value that is no object.
}

// changes is how many fields a request changes besides.
func (g *generator) changes(most int) int {
	if chance(g.rand, 30) {
		return 0
	}
	return 1 + g.rand.IntN(most)
}

// changed is an object with mutations.
func (g *generator) changed(k *kind, version string, object *unstructured.Unstructured, n int) map[string]any {
	for _, m := range g.mutations(k, version, object, n) {
		setField(object.Object, m)
	}
	return object.Object
}

// mutations are changes of an object, at least one. Most are of its metadata, because schemas reject most values of fields.
func (g *generator) mutations(k *kind, version string, object *unstructured.Unstructured, n int) (all []mutation) {
	for range max(1, n) {
		all = append(all, weighted(g.rand, []choice[func() mutation]{
			{30, func() mutation { return g.annotation(k, version, object) }},
			{10, func() mutation { return mutation{[]string{"metadata", "labels", g.key()}, g.label()} }},
			{8, g.finalizers},
			{6, g.owners},
			{14, func() mutation { return g.field(k, version, "spec") }},
			{8, func() mutation { return g.field(k, version, "status") }},
			{6, g.metadata},
			{8, func() mutation {
				return mutation{[]string{"metadata", "annotations", "cluster.x-k8s.io/paused"}, g.pause()}
			}},
		})())
	}
	return all
}

func (g *generator) key() string { return pick(g.rand, g.keys) }

func (g *generator) annotation(k *kind, version string, object *unstructured.Unstructured) mutation {
	key := g.key()
	if chance(g.rand, 15) {
		key = conversionData
	}
	path := []string{"metadata", "annotations", key}
	switch {
	case key == conversionData && len(k.versions) > 1 && len(k.schemas) > 0:
		return mutation{path, g.forge(k, object, version)}
	case chance(g.rand, 15):
		return mutation{path: path}
	}
	return mutation{path, g.text(key)}
}

// label is a value that labels may have.
func (g *generator) label() any {
	if text := g.anyText(); len(text) <= 63 && !slices.ContainsFunc([]rune(text), func(c rune) bool { return c == '/' || c == '{' || c == '"' }) {
		return text
	}
	return nil
}

func (g *generator) pause() any { return pick(g.rand, []any{nil, nil, "true", "captctl-migrate"}) }

func (g *generator) finalizers() mutation {
	list := []any{}
	for range g.rand.IntN(3) {
		list = append(list, pick(g.rand, []string{ownFinalizer, ownFinalizer, g.key()}))
	}
	return mutation{[]string{"metadata", "finalizers"}, list}
}

func (g *generator) owners() mutation {
	list := []any{}
	for range g.rand.IntN(3) {
		owner := pick(g.rand, g.fleet.owners)
		list = append(list, map[string]any{
			"apiVersion": owner.GetAPIVersion(), "kind": owner.GetKind(), "name": owner.GetName(), "uid": string(owner.GetUID()),
			"controller": chance(g.rand, 50), "blockOwnerDeletion": chance(g.rand, 20),
		})
	}
	return mutation{[]string{"metadata", "ownerReferences"}, list}
}

// metadata is a field that the API server sets.
func (g *generator) metadata() mutation {
	switch g.rand.IntN(7) {
	case 0, 1:
		return mutation{[]string{"metadata", "deletionTimestamp"}, "2026-07-01T12:00:00Z"}
	case 2:
		return mutation{[]string{"metadata", "uid"}, pick(g.rand, g.fleet.uids)}
	case 3:
		return mutation{[]string{"metadata", "managedFields"}, []any{map[string]any{}}}
	case 4:
		return mutation{[]string{"metadata", "generation"}, int64(g.rand.IntN(9))}
	case 5:
		return mutation{[]string{"metadata", "creationTimestamp"}, "2019-01-01T00:00:00Z"}
	}
	return mutation{[]string{"metadata", "deletionGracePeriodSeconds"}, int64(0)}
}

func (g *generator) propagation() metav1.DeletionPropagation {
	return pick(g.rand, []metav1.DeletionPropagation{"", "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan})
}
