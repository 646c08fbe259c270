// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	// sharedTemplate is a template of the platform with a staged rollout, and olderTemplate is that of the adopted Workspaces.
	sharedTemplate, olderTemplate = "shared", "older"
	// mark is part of the content that was not approved.
	mark = "not-approved-7f3a"
)

// target is a Workspace of the other namespace.
type target struct {
	name, namespace, state string
	uid                    types.UID
	// template and variables are those that it was rendered from.
	template, variables map[string]any
}

// reference is what CAPT records of a Workspace that an object owns.
func (t *target) reference() map[string]any {
	ref := map[string]any{"apiVersion": "tf.upbound.io/v1beta1", "kind": "Workspace", "name": t.name, "uid": string(t.uid), "externalName": t.state}
	if t.namespace != "" {
		ref["apiVersion"], ref["namespace"] = "tf.m.upbound.io/v1beta1", t.namespace
	}
	return ref
}

// fleet is what the hostile user has beside its own namespace.
type fleet struct {
	*fixture.Environment
	// a is the namespace of the hostile user, b that of another tenant, and p has the templates of the platform.
	a, b, p string
	// approved is the revision of the shared template that all have, and unapproved the one that waits for an approval.
	approved, unapproved string
	targets              []*target
	// owners are objects that an owner reference may name.
	owners []*unstructured.Unstructured
	// What follows is what a hostile user is assumed to know.
	names, uids, states, revisions []string
	// hidden are UIDs of the other namespace that the user does not know: nothing may reveal them.
	hidden []string
}

func (f *fleet) in(namespace string) *fixture.Environment {
	there := *f.Environment
	there.Namespace = namespace
	return &there
}

func (f *fleet) sharedRef() map[string]any {
	return map[string]any{"name": sharedTemplate, "namespace": f.p}
}

func (f *fleet) templateRefs() []map[string]any {
	return []map[string]any{
		f.sharedRef(), f.sharedRef(), {"name": olderTemplate, "namespace": f.p}, {"name": "vpc"}, {"name": "eks"},
		{"name": "vpc", "namespace": f.b}, {"name": "absent"}, {"name": "shared"},
	}
}

// newFleet builds the namespaces, and waits until the other tenant's is at rest.
func newFleet(t *testing.T, prefix string) *fleet {
	t.Helper()
	env := &fixture.Environment{T: t, Client: shared.API, Server: shared, Scope: terraform.ScopeNamespaced}
	f := &fleet{Environment: env, a: prefix + "a", b: prefix + "b", p: prefix + "p"}
	for _, namespace := range []string{f.a, f.b, f.p} {
		require.NoError(t, env.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
		for _, scope := range terraform.Scopes() {
			there := f.in(namespace)
			there.Scope = scope
			there.User(there.ProviderConfig())
		}
	}
	f.platform()
	for _, name := range early() {
		object := fixture.Decode(t, f.a, fixture.WorkspaceTemplateApply("absent", name))
		object.SetFinalizers([]string{ownFinalizer})
		fixture.Apply(t, f.Client, object)
	}
	f.tenant(f.b)
	f.tenant(f.a)
	f.adopted("older")
	f.adopted("older-2")
	f.waiting("waiting")
	f.others()
	f.publishUnapproved()
	f.awaitQuiet()
	f.know()
	return f
}

// early are objects of the hostile user that are older than those of the other tenant, and have no name of a Workspace yet.
func early() []string { return []string{"early-1", "early-2", "early-3", "early-4"} }

// platform creates the shared templates. Both tenants may use them.
func (f *fleet) platform() {
	f.Helper()
	p := f.in(f.p)
	p.User(f.shared(fixture.VPCModule))
	p.User(strings.Replace(strings.Replace(p.Template(olderTemplate, fixture.VPCModule, "vpc_name"), "workspaceScope: "+string(terraform.ScopeNamespaced), "workspaceScope: Cluster", 1),
		"providerConfigRef: {kind: ClusterProviderConfig,", "providerConfigRef: {kind: ProviderConfig,", 1))
	allowed := fmt.Sprintf(`{"spec":{"allowedNamespaces":{"names":[%q,%q]}}}`, f.a, f.b)
	p.Edit(&infrav1.WorkspaceTemplate{}, olderTemplate, allowed)
}

// shared is the shared template with a module.
func (f *fleet) shared(module string) string {
	p := f.in(f.p)
	policy := fmt.Sprintf("\nspec:\n  allowedNamespaces: {names: [%s, %s]}\n  rollout: {strategy: Staged, approval: Always, onFailure: Continue, maxConcurrent: 100}\n", f.a, f.b)
	return strings.Replace(p.Template(sharedTemplate, module, "vpc_name"), "\nspec:\n", policy, 1)
}

// tenant creates a Cluster, and a user of the shared template.
func (f *fleet) tenant(namespace string) {
	f.Helper()
	there := f.in(namespace)
	there.User(there.Everything()...)
	there.User(f.user("user"))
	for _, name := range []string{"h0", "h1", "h2"} {
		if namespace == f.a {
			there.User(fixture.ClusterNamed(name))
		}
	}
	there.AwaitState(infrav1.StateReady, "")
	if template := f.template(); template.Annotations[naming.ApproveAnnotation] == "" {
		f.approved = rollout.HashOf(template)
		f.approve(f.approved)
	}
	there.Await(&infrav1.WorkspaceTemplateApply{}, "user", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
}

func (f *fleet) approve(revision string) {
	f.Helper()
	f.in(f.p).Edit(&infrav1.WorkspaceTemplate{}, sharedTemplate, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, naming.ApproveAnnotation, revision))
}

func (f *fleet) user(name string) string {
	return fixture.WorkspaceTemplateApply(sharedTemplate+", namespace: "+f.p, name, fmt.Sprintf("variables: {vpc_name: %s}", name))
}

func (f *fleet) template() *infrav1.WorkspaceTemplate {
	f.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.True(f, f.in(f.p).Exists(template, sharedTemplate))
	return template
}

// legacy creates a cluster-wide Workspace with the name that CAPT v0.3 gave, without a claim, and returns it with the manifest of its object.
func (f *fleet) legacy(name, workspaceName string) (*unstructured.Unstructured, *unstructured.Unstructured) {
	f.Helper()
	b := f.in(f.b)
	document := fixture.WorkspaceTemplateApply(olderTemplate+", namespace: "+f.p, name, fmt.Sprintf("variables: {vpc_name: %s}", name))
	b.User(document)
	made := fixture.WorkspaceOf(f, f, f.awaitReady(name))
	b.Remove(&infrav1.WorkspaceTemplateApply{}, name)
	b.AwaitGone(&infrav1.WorkspaceTemplateApply{}, name)

	workspace := fixture.NewWorkspace(terraform.ScopeCluster, types.NamespacedName{Name: workspaceName})
	workspace.Object["spec"] = made.Object["spec"]
	require.NoError(f, f.Create(f.Context(), workspace))
	f.Eventually(func() string {
		require.NoError(f, f.Get(f.Context(), client.ObjectKeyFromObject(workspace), workspace))
		outputs, _, _ := unstructured.NestedMap(workspace.Object, "status", "atProvider", "outputs")
		return fixture.Unless(len(outputs) > 0, "the Workspace of CAPT v0.3 has no outputs")
	})
	object := fixture.Decode(f, f.b, document)
	object.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": naming.MigrationPause})
	return workspace, object
}

func (f *fleet) awaitReady(name string) *infrav1.WorkspaceTemplateApply {
	f.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	f.in(f.b).Await(apply, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	return apply
}

// create creates an object that names its Workspace only in status, as CAPT v0.3 did, and ends its pause.
func (f *fleet) create(object *unstructured.Unstructured, workspace string) {
	f.Helper()
	fixture.Apply(f, f.Client, object)
	apply, b := &infrav1.WorkspaceTemplateApply{}, f.in(f.b)
	require.True(f, b.Exists(apply, object.GetName()))
	before := client.MergeFrom(apply.DeepCopy())
	apply.Status.WorkspaceName = workspace
	require.NoError(f, f.Status().Patch(f.Context(), apply, before))
	b.Edit(apply, object.GetName(), `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`)
}

// adopted creates a WorkspaceTemplateApply as captctl leaves it: its Workspace has no claim.
func (f *fleet) adopted(name string) {
	f.Helper()
	workspace, object := f.legacy(name, naming.LegacyWorkspace(f.b+"-"+name))
	require.NoError(f, unstructured.SetNestedField(object.Object, workspace.GetName(), "spec", "workspaceName"))
	f.create(object, workspace.GetName())
	apply := f.awaitReady(name)
	require.Equal(f, workspace.GetUID(), apply.Status.WorkspaceRef.UID)
	require.Empty(f, fixture.WorkspaceOf(f, f, apply).GetAnnotations()[naming.ClaimAnnotation], "an adoption writes no claim")
}

// waiting creates one that was not adopted.
func (f *fleet) waiting(name string) {
	f.Helper()
	workspace, object := f.legacy(name, naming.LegacyWorkspace(f.b+"-"+name))
	object.SetFinalizers([]string{infrav1.LegacyWorkspaceTemplateApplyFinalizer})
	f.create(object, workspace.GetName())
	f.in(f.b).Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.AdoptionRequiredCondition, metav1.ConditionTrue, "")
}

// leaving is an object in deletion, whose destruction hangs.
const leaving = "leaving"

// others creates a protected cluster, objects in deletion, and what the tenant keeps secret.
func (f *fleet) others() {
	f.Helper()
	b := f.in(f.b)
	b.User(fixture.ClusterNamed("protected"), strings.Replace(fixture.CAPTCluster("protected"), "\nspec:\n", "\nspec:\n  deletionProtection: Enabled\n", 1),
		fixture.CAPTControlPlane("protected", "deletionProtection: Enabled"))
	b.Await(&controlplanev1.CAPTControlPlane{}, "protected", infrav1.ReadyCondition, metav1.ConditionTrue, "")
	b.User(fixture.WorkspaceTemplateApply("vpc", leaving, "variables: {vpc_name: leaving}"))
	b.Await(&infrav1.WorkspaceTemplateApply{}, leaving, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	b.SetScript(leaving, scripted.Script{Destroy: scripted.Step{Hang: true}})
	b.Remove(&infrav1.WorkspaceTemplateApply{}, leaving)
	b.AwaitOperation(leaving, scripted.Destroy)
	for _, namespace := range []string{f.a, f.b} {
		f.in(namespace).User("{apiVersion: v1, kind: Secret, metadata: {name: canary}, stringData: {value: harmless}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: canary}, data: {value: harmless}}")
	}
}

// publishUnapproved edits the shared template. No user approves the edit.
func (f *fleet) publishUnapproved() {
	f.Helper()
	f.in(f.p).User(f.shared("\n# " + mark + fixture.VPCModule))
	revision := rollout.HashOf(f.template())
	require.NotEqual(f, f.approved, revision)
	f.Eventually(func() string {
		s := f.template().Status.Rollout
		return fixture.Unless(s.Revision == revision && s.Stage == infrav1.RolloutWaitingForApproval, "the rollout of %s is at stage %s", s.Revision, s.Stage)
	})
	f.unapproved, f.revisions = revision, []string{f.approved, "absent"}
	if !without("revisions") {
		f.revisions = append(f.revisions, revision, revision, revision, revision[:12])
	}
}
