// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// attack is a request, or several that belong together, with an idea behind it. Chance alone would rarely combine what it needs.
type attack func(g *generator) *request

func attacks() []choice[attack] {
	return []choice[attack]{
		{20, forgeRecord},
		{20, assignRevision},
		{16, forgeWhileDeleted},
		{10, bornDeleted},
		{10, takeWorkspace},
		{8, approve},
		{8, takeName},
		{8, takeState},
		{6, proveAdoption},
		{2, fillObject},
		{6, deleteForGood},
		{6, releaseFinalizers},
		{6, becomeOwned},
	}
}

func (g *generator) applies() *kind { return g.kindNamed("WorkspaceTemplateApply") }

// found is a name of an object that exists; empty if there is none.
func (g *generator) found(k *kind, suits func(*unstructured.Unstructured) bool) string {
	names := slices.Clone(k.names)
	g.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		if object := g.read(k, k.hub(), name); object != nil && suits(object) {
			return name
		}
	}
	return ""
}

func whatever(*unstructured.Unstructured) bool { return true }

func deleted(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }

// patch is a patch of an existing object in one of the forms; nil if the object does not exist.
func (g *generator) patch(k *kind, version, name string, mutations ...mutation) *request {
	if name == "" {
		return nil
	}
	object := g.read(k, version, name)
	if object == nil {
		return nil
	}
	r := &request{verb: pick(g.rand, []verb{mergePatch, jsonPatch, update}), kind: k, version: version, name: name, manager: pick(g.rand, g.managers)}
	return g.patched(r, object, mutations)
}

// convertible is a kind with two versions that the user may write.
func (g *generator) convertible() *kind {
	return weighted(g.rand, []choice[*kind]{{4, g.applies()}, {2, g.kindNamed("CAPTCluster")}, {2, g.kindNamed("CAPTControlPlane")}, {1, g.kindNamed("CAPTControlPlaneTemplate")}})
}

// forgeRecord writes an existing object through the older version, with what only the newer one has.
func forgeRecord(g *generator) *request { return g.forged(whatever) }

// forgeWhileDeleted does so with an object that is being deleted, for which no webhook is called.
func forgeWhileDeleted(g *generator) *request {
	if r := g.forged(deleted); r != nil && chance(g.rand, 70) {
		return r
	}
	k := g.convertible()
	name := g.found(k, func(object *unstructured.Unstructured) bool { return !deleted(object) })
	first := g.patch(k, k.hub(), name, mutation{[]string{"metadata", "finalizers"}, []any{ownFinalizer}})
	if first == nil {
		return nil
	}
	g.queue = append(g.queue,
		func() *request { return &request{verb: remove, kind: k, version: pick(g.rand, k.versions), name: name} },
		func() *request { return g.forgedOf(k, name) })
	return first
}

func (g *generator) forged(suits func(*unstructured.Unstructured) bool) *request {
	k := g.convertible()
	return g.forgedOf(k, g.found(k, suits))
}

func (g *generator) forgedOf(k *kind, name string) *request {
	if name == "" {
		return nil
	}
	object := g.read(k, k.versions[0], name)
	if object == nil {
		return nil
	}
	path := []string{"metadata", "annotations", conversionData}
	return g.patch(k, k.versions[0], name, mutation{path, g.forge(k, object, k.versions[0])})
}

// assignRevision chooses a revision of a template by itself.
func assignRevision(g *generator) *request {
	k := g.applies()
	path := []string{"spec", "templateRevision"}
	if chance(g.rand, 25) {
		r := g.of(k, pick(g.rand, []verb{create, apply}), k.hub())
		if body, ok := r.body.(map[string]any); ok {
			setField(body, mutation{[]string{"spec", "templateRef"}, g.fleet.sharedRef()})
			setField(body, mutation{path, pick(g.rand, g.fleet.revisions)})
		}
		return r
	}
	name := g.found(k, func(object *unstructured.Unstructured) bool {
		template, _, _ := unstructured.NestedString(object.Object, "spec", "templateRef", "name")
		return template == sharedTemplate
	})
	return g.patch(k, k.hub(), name, mutation{path, pick(g.rand, g.fleet.revisions)})
}

// bornDeleted creates an object with a time of deletion and finalizers, by server-side apply.
func bornDeleted(g *generator) *request {
	k := g.convertible()
	r := g.of(k, apply, pick(g.rand, k.versions))
	object := r.object()
	setField(object.Object, mutation{[]string{"metadata", "deletionTimestamp"}, "2026-07-01T12:00:00Z"})
	setField(object.Object, mutation{[]string{"metadata", "finalizers"}, []any{ownFinalizer}})
	if chance(g.rand, 60) && r.version == k.versions[0] {
		setField(object.Object, mutation{[]string{"metadata", "annotations", conversionData}, g.forge(k, object, r.version)})
	}
	r.subresource = ""
	return r
}

// takeWorkspace creates an object of the template of another's Workspace, under its name, and confirms the adoption.
func takeWorkspace(g *generator) *request {
	k, target := g.applies(), pick(g.rand, g.fleet.targets)
	r := g.of(k, pick(g.rand, []verb{create, apply}), k.hub())
	r.subresource = ""
	object := r.object()
	object.Object["spec"] = map[string]any{"templateRef": target.template, "variables": target.variables, "workspaceName": target.name}
	object.SetAnnotations(map[string]string{
		"capt.cluster.x-k8s.io/adopt-workspace": string(target.uid), "capt.cluster.x-k8s.io/external-name": target.state,
		"capt.cluster.x-k8s.io/external-name-noted-by": pick(g.rand, g.fleet.uids),
	})
	object.SetFinalizers([]string{ownFinalizer})
	return r
}

// takeName lets an object that has no name of a Workspace yet name the one of another, also while it is deleted.
func takeName(g *generator) *request {
	k := g.applies()
	name := g.found(k, func(object *unstructured.Unstructured) bool {
		taken, _, _ := unstructured.NestedString(object.Object, "spec", "workspaceName")
		return taken == ""
	})
	patch := func() *request {
		return g.patch(k, k.hub(), name, mutation{[]string{"spec", "workspaceName"}, pick(g.rand, g.fleet.targets).name})
	}
	if name == "" || chance(g.rand, 50) {
		return patch()
	}
	g.queue = append(g.queue, func() *request { return &request{verb: remove, kind: k, version: k.hub(), name: name} }, patch)
	return g.patch(k, k.hub(), name, mutation{[]string{"metadata", "finalizers"}, []any{ownFinalizer}})
}

// takeState names another's Terraform state, which only a user with the verb migrate may: in a new object, in one that exists, or in one that has no Workspace.
func takeState(g *generator) *request {
	k, target := g.applies(), pick(g.rand, g.fleet.targets)
	config := pick(g.rand, []string{"ClusterProviderConfig/", "ProviderConfig/", ""}) + pick(g.rand, []string{g.fleet.a, g.fleet.b, g.fleet.p})
	state := map[string]any{"name": target.state, "providerConfig": config}
	if chance(g.rand, 50) {
		return g.patch(k, pick(g.rand, k.versions), g.found(k, whatever), mutation{[]string{"spec", "terraformState"}, state})
	}
	r := g.of(k, pick(g.rand, []verb{create, apply}), pick(g.rand, k.versions))
	r.subresource = ""
	object := r.object()
	object.Object["spec"] = map[string]any{"templateRef": target.template, "variables": target.variables, "terraformState": state}
	object.SetAnnotations(map[string]string{"capt.cluster.x-k8s.io/prove-adoption": "x"})
	return r
}

// proveAdoption asks for a plan of another's state.
func proveAdoption(g *generator) *request {
	r := takeWorkspace(g)
	annotations := r.object().GetAnnotations()
	annotations["capt.cluster.x-k8s.io/prove-adoption"] = "x"
	r.object().SetAnnotations(annotations)
	return r
}

// fillObject creates a user of the shared template that is nearly as large as etcd allows, so that every write of it may be too large.
func fillObject(g *generator) *request {
	const name = "big" // No other request changes it, because each would take long.
	k := g.applies()
	if g.stored(k, name) != nil {
		return nil
	}
	object := g.manifest(k, k.hub(), name)
	const limit = 1572500
	rest := len(textOfJSON(object.Object)) + g.rand.IntN(3000)
	object.Object["spec"] = map[string]any{"templateRef": g.fleet.sharedRef(), "variables": map[string]any{"vpc_name": name, "pad": strings.Repeat("x", limit-rest)}}
	return &request{verb: create, kind: k, version: k.hub(), name: name, body: object.Object}
}

// approve confirms a held change or an unapproved revision.
func approve(g *generator) *request {
	k := g.applies()
	annotations := []string{"metadata", "annotations"}
	return g.patch(k, k.hub(), g.found(k, whatever),
		mutation{append(slices.Clone(annotations), "capt.cluster.x-k8s.io/approve"), pick(g.rand, g.fleet.revisions)},
		mutation{append(slices.Clone(annotations), "capt.cluster.x-k8s.io/approved-by"), "sandbox-admin"},
		mutation{append(slices.Clone(annotations), "capt.cluster.x-k8s.io/approved-at"), "2026-07-01T12:00:00Z"})
}

// deleteForGood removes what protects an object, and deletes it.
func deleteForGood(g *generator) *request {
	k := g.convertible()
	name := g.found(k, whatever)
	first := g.patch(k, k.hub(), name, mutation{[]string{"metadata", "annotations", pick(g.rand, []string{deleteForMove, "capt.cluster.x-k8s.io/allow-delete"})}, "true"})
	if first != nil {
		g.queue = append(g.queue, func() *request {
			return &request{verb: remove, kind: k, version: pick(g.rand, k.versions), name: name, propagation: g.propagation()}
		})
	}
	return first
}

// releaseFinalizers lets an object go, so that its name becomes free.
func releaseFinalizers(g *generator) *request {
	k := weighted(g.rand, []choice[*kind]{{3, g.applies()}, {1, g.convertible()}})
	return g.patch(k, k.hub(), g.found(k, deleted), mutation{[]string{"metadata", "finalizers"}, []any{}})
}

// becomeOwned makes an object belong to another one.
func becomeOwned(g *generator) *request {
	k := g.convertible()
	return g.patch(k, pick(g.rand, k.versions), g.found(k, whatever), g.owners())
}
