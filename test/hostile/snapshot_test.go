// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// guarded are the kinds of which nothing may change in the namespaces of others.
func guarded() []schema.GroupVersionKind {
	kind := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	all := []schema.GroupVersionKind{
		kind(infrastructure, "v1beta2", "CAPTCluster"), kind(infrastructure, "v1beta2", "CAPTClusterTemplate"), kind(infrastructure, "v1beta2", "WorkspaceTemplate"),
		kind(infrastructure, "v1beta2", "WorkspaceTemplateApply"), kind(controlPlane, "v1beta2", "CAPTControlPlane"), kind(controlPlane, "v1beta2", "CAPTControlPlaneTemplate"),
		kind(infrastructure, "v1beta2", "CAPTMachinePool"), kind(infrastructure, "v1beta2", "CAPTMachinePoolTemplate"), kind("cluster.x-k8s.io", "v1beta2", "MachinePool"),
		kind("cluster.x-k8s.io", "v1beta2", "Cluster"), kind("", "v1", "Secret"), kind("", "v1", "ConfigMap"), kind("apps", "v1", "ControllerRevision"),
	}
	for _, scope := range terraform.Scopes() {
		all = append(all, scope.GroupVersionKind())
	}
	return all
}

// theirs reports whether an object is of the other tenant or of the platform.
func (f *fleet) theirs(object *unstructured.Unstructured) bool {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace == f.b || namespace == f.p
	}
	claim, _, _ := strings.Cut(object.GetAnnotations()[naming.ClaimAnnotation], "/")
	return claim == f.b || claim == f.p || strings.HasPrefix(object.GetName(), f.b+"-")
}

// snapshot reads all objects of others.
func (f *fleet) snapshot() (objects []unstructured.Unstructured) {
	f.Helper()
	for _, kind := range guarded() {
		for _, object := range fixture.List(f, f, kind) {
			if f.theirs(&object) {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// content is what must not change of an object. Only a few parts of status may: they have times, or what the hostile user's objects add to a template.
func content(object *unstructured.Unstructured) map[string]any {
	kept := object.DeepCopy()
	kept.SetManagedFields(nil)
	kept.SetResourceVersion("")
	switch kept.GetKind() {
	case "WorkspaceTemplate":
		unstructured.RemoveNestedField(kept.Object, "status")
	case "CAPTControlPlane":
		unstructured.RemoveNestedField(kept.Object, "status", "health")
	}
	return kept.Object
}

// awaitQuiet waits until no object of others has changed for a while.
func (f *fleet) awaitQuiet() {
	f.Helper()
	const silence = 5 * time.Second
	last, began := "", time.Now()
	f.Eventually(func() string {
		var now strings.Builder
		for _, object := range f.snapshot() {
			now.WriteString(string(object.GetUID()) + object.GetResourceVersion() + " ")
		}
		if now.String() != last {
			last, began = now.String(), time.Now()
		}
		return fixture.Unless(time.Since(began) >= silence, "the other namespaces change")
	})
}

// know collects what the hostile user is assumed to know: all names, and the UIDs of every other object.
func (f *fleet) know() {
	f.Helper()
	f.names = []string{"demo", "h0", "user", "absent", "older", "older-2", "leaving", f.b, f.a}
	var own []unstructured.Unstructured
	for _, kind := range guarded() {
		own = append(own, fixture.List(f, f, kind, client.InNamespace(fixture.ScopeNamespace(terraform.ScopeNamespaced, f.a)))...)
	}
	for i, object := range f.snapshot() {
		f.names = append(f.names, object.GetName())
		if object.GetKind() == "Workspace" {
			f.addTarget(&object)
		}
		if object.GetKind() != "Workspace" && i%2 == 0 {
			f.hidden = append(f.hidden, string(object.GetUID()))
			continue
		}
		f.uids = append(f.uids, string(object.GetUID()))
		f.owners = append(f.owners, object.DeepCopy())
	}
	for _, object := range own {
		if object.GetNamespace() == f.a {
			f.owners = append(f.owners, object.DeepCopy())
			f.names = append(f.names, object.GetName())
		}
	}
	slices.Sort(f.names)
	f.names = slices.Compact(f.names)
}

func (f *fleet) addTarget(workspace *unstructured.Unstructured) {
	state := workspace.GetAnnotations()["crossplane.io/external-name"]
	t := &target{
		name: workspace.GetName(), namespace: workspace.GetNamespace(), uid: workspace.GetUID(), state: state,
		template: map[string]any{"name": "vpc", "namespace": f.b}, variables: map[string]any{"vpc_name": "demo-vpc"},
	}
	for _, name := range []string{"older", "older-2", "waiting"} {
		if workspace.GetName() == naming.LegacyWorkspace(f.b+"-"+name) {
			t.template, t.variables = map[string]any{"name": olderTemplate, "namespace": f.p}, map[string]any{"vpc_name": name}
			f.targets = append(f.targets, t, t) // The worst ones: they have no claim.
		}
	}
	f.targets = append(f.targets, t)
	f.states = append(f.states, state)
}

// requireRollout requires that the other tenant gets the content once it is approved, whatever the objects of the hostile user are like.
func (f *fleet) requireRollout() {
	f.Helper()
	f.approve(f.unapproved)
	apply := &infrav1.WorkspaceTemplateApply{}
	f.Eventually(func() string {
		require.True(f, f.in(f.b).Exists(apply, "user"))
		return fixture.Unless(apply.Status.TemplateRevision == f.unapproved, "the other tenant has revision %s, and the rollout is %+v", apply.Status.TemplateRevision, f.template().Status.Rollout)
	})
}

// Manifests of the hostile user's own objects.

func (f *fleet) applies() []string {
	return []string{
		f.user("x"), f.user("x"),
		fixture.WorkspaceTemplateApply("vpc", "x", "variables: {vpc_name: x}"),
		fixture.WorkspaceTemplateApply("vpc", "x", "variables: {vpc_name: x}", "deletionPolicy: Retain"),
		fixture.WorkspaceTemplateApply(olderTemplate+", namespace: "+f.p, "x", "variables: {vpc_name: older}"),
		fixture.WorkspaceTemplateApply("vpc", "x", "variables: {vpc_name: x}", "waitForWorkspaces: [{name: "+naming.LegacyWorkspace(f.b+"-older")+", namespace: "+f.b+"}]"),
	}
}

func (f *fleet) captClusters() []string {
	return []string{
		fixture.CAPTCluster("x"), fixture.CAPTClusterWith("x", "{existingID: vpc-0123}"),
		fixture.CAPTClusterWith("x", "{template: {ref: {name: "+sharedTemplate+", namespace: "+f.p+"}}}"),
	}
}

func (f *fleet) controlPlanes() []string {
	return []string{fixture.CAPTControlPlane("x"), fixture.CAPTControlPlane("x", "kubeconfig: {source: Output}"), fixture.CAPTControlPlane("x", "deletionProtection: Enabled")}
}
