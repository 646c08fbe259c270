// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// noDeletions keeps clusterctl from deleting anything in a namespace, for as long as a test wants.
func noDeletions(namespace string) []string {
	return []string{fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules:
    - {apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [UPDATE], scope: Namespaced}
  validations:
  - expression: |-
      !has(object.metadata.annotations) || !('clusterctl.cluster.x-k8s.io/delete-for-move' in object.metadata.annotations)
`, namespace), fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, namespace)}
}

// awaitDeletions waits until clusterctl may delete, or may not any more.
func (env *environment) awaitDeletions(may bool) {
	env.Helper()
	fixture.EventuallyTrue(env, tick, func() bool {
		err := source.Patch(env.Context(), env.workspace(source, vpcWorkspace), mark, client.DryRunAll)
		return apierrors.IsInvalid(err) != may
	}, "clusterctl may delete: not %v", may)
}

// A move that is killed when everything is on both sides is started again.
func TestAMoveThatBrokeOffBeforeItDeletedIsStartedAgain(t *testing.T) {
	env := readyCluster(t)
	t.Parallel()
	for _, document := range noDeletions(env.namespace) {
		require.NoError(t, source.apply(t.Context(), "", document))
	}
	env.awaitDeletions(false)

	began := time.Now()
	move := env.startMove()
	fixture.EventuallyTrue(t, tick, func() bool {
		events := fixture.AuditEvents(t, source.Sandbox, audit.Filter{User: sandbox.AdminUser, Verbs: audit.Writes, Namespace: env.namespace, Since: began})
		return slices.ContainsFunc(events, func(event auditv1.Event) bool { return event.ResponseStatus.Code >= http.StatusBadRequest })
	}, "clusterctl deletes nothing")
	move.stop()
	env.kubectl(source, "delete", "validatingadmissionpolicybinding", env.namespace)
	env.awaitDeletions(true)
	require.Equal(t, env.names(source, workspaceKind), env.names(target, workspaceKind), "both are there, and both providers look")

	env.follow(takePauseAway, "NAME", "demo")
	env.awaitReady(source, "v1.34.0")
	env.awaitBlock(vpc, "until-paused")
	env.awaitBlock(eks, "until-paused")
	env.startMove().wait()
	env.awaitReady(target, "v1.34.0")
	env.requireMoved()
	env.requireUnnoticed(began)
}

// What clusterctl does to an object that it has moved, in its own words.
var (
	mark   = client.RawPatch(types.JSONPatchType, []byte(`[{"op": "add", "path":"/metadata/annotations", "value":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}]`))
	letGo  = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`))
	name   = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"crossplane.io/external-name":"other"}}}`))
	unmark = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":null}}}`))
	hold   = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["finalizer.managedresource.crossplane.io","example.com/another"]}}`))
)

// alonePaused makes a Workspace that is at rest, and keeps CAPT away from it.
func alonePaused(t *testing.T, scope terraform.Scope) (*environment, *unstructured.Unstructured) {
	t.Helper()
	env := newEnvironment(t)
	env.apply(source, documents(scope).VPCTemplate(fixture.VPCModule), alone())
	apply := &infrav1.WorkspaceTemplateApply{}
	env.awaitCondition(source, apply, "alone", infrav1.ReadyCondition, "")
	env.change(source, apply, "alone", func() { apply.Annotations["cluster.x-k8s.io/paused"] = "" })
	return env, fixture.WorkspaceOf(t, source, apply)
}

// refusals counts the writes to a Workspace that the API server refused to the provider since a moment.
func refusals(t *testing.T, workspace *unstructured.Unstructured, since time.Time) int {
	t.Helper()
	events := fixture.AuditEvents(t, source.Sandbox, audit.Filter{
		User: sandbox.ProviderUser, Verbs: audit.Writes, Resource: "workspaces", Since: since,
		Namespace: workspace.GetNamespace(), Name: workspace.GetName(),
	})
	return len(slices.DeleteFunc(events, func(event auditv1.Event) bool { return event.ResponseStatus.Code != http.StatusForbidden }))
}

// clusterctl takes the external name away, deletes, and takes the finalizers away. Here it stops after each step, and the provider
// does what it wants.
func TestAProviderThatStillRunsDoesNotDestroyWhatWasMoved(t *testing.T) {
	t.Parallel()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			env, workspace := alonePaused(t, scope)
			began := time.Now()
			require.NoError(t, source.Patch(t.Context(), workspace, mark))
			fixture.EventuallyTrue(t, tick, func() bool { return refusals(t, workspace, began) > 0 }, "the provider does not try to give the state another name")

			deleted := time.Now()
			require.NoError(t, source.Delete(t.Context(), workspace))
			fixture.EventuallyTrue(t, tick, func() bool { return refusals(t, workspace, deleted) > 1 }, "the provider does not try again")
			require.NoError(t, source.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace))
			require.Equal(t, map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}, workspace.GetAnnotations())

			require.NoError(t, source.Patch(t.Context(), workspace, letGo))
			require.True(t, apierrors.IsNotFound(source.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace)))
			entries, err := scripts.Journal()
			require.NoError(t, err)
			for _, entry := range entries {
				require.False(t, entry.UID == workspace.GetUID() && entry.Start.After(began), "Terraform ran: %+v", entry)
			}
			require.Empty(t, env.done(began))
			require.NotZero(t, env.cloud())
		})
	}
}

func TestABrokenMoveIsRevertedAtOnce(t *testing.T) {
	t.Parallel()
	env, workspace := alonePaused(t, terraform.ScopeNamespaced)
	state := workspace.GetAnnotations()["crossplane.io/external-name"]
	require.NoError(t, source.Patch(t.Context(), workspace, hold), "without the mark everything may be written")
	require.NoError(t, source.Patch(t.Context(), workspace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/another"]}}`))))
	require.NoError(t, source.Patch(t.Context(), workspace, mark))
	for what, patch := range map[string]client.Patch{"a name": name, "no mark": unmark, "a finalizer": hold} {
		err := source.Patch(t.Context(), workspace.DeepCopy(), patch)
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
		require.ErrorContains(t, err, "was moved to another management cluster", what)
	}
	env.follow(unmarkMoved, "NAME-OF-THE-STATE", state, "NAME", workspace.GetName())
	require.NoError(t, source.Patch(t.Context(), workspace, hold))
	require.Equal(t, state, workspace.GetAnnotations()["crossplane.io/external-name"])
	require.NotContains(t, workspace.GetAnnotations(), "clusterctl.cluster.x-k8s.io/delete-for-move")
}

// clusterctl lists a preview, and CAPT deletes it when the Cluster is paused: the move cannot continue, and nothing is deleted. It would time out after 160
// seconds, and is stopped before. The manual asks to wait for previews before a move.
func TestAMoveDuringAPreviewFailsAndIsStartedAgain(t *testing.T) {
	env := readyCluster(t)
	t.Parallel()
	const policy = "preview: Always, approval: OnChanges"
	env.apply(source, stagedTemplate(policy, fixture.VPCModule))
	env.awaitStage(source, infrav1.RolloutComplete)
	began := time.Now()
	preview := fixture.PreviewKey(t, source, terraform.ScopeNamespaced, env.key(vpc)).Name
	env.setScript(preview, scripted.Script{Plan: scripted.Step{Hang: true}})
	env.apply(source, stagedTemplate(policy, fixture.VPCModule+"# changed\n"))
	fixture.EventuallyTrue(t, tick, func() bool { return slices.Contains(env.names(source, workspaceKind), preview) }, "there is no preview")

	move := env.startMove()
	fixture.EventuallyTrue(t, tick, func() bool {
		events := fixture.AuditEvents(t, source.Sandbox, audit.Filter{
			User: sandbox.AdminUser, Verbs: []string{"get"}, Resource: "workspaces", Namespace: env.namespace, Name: preview, Since: began,
		})
		return len(slices.DeleteFunc(events, func(event auditv1.Event) bool { return event.ResponseStatus.Code != http.StatusNotFound })) > 2
	}, "clusterctl does not read the preview again and again")
	move.stop()
	require.NotContains(t, env.names(source, workspaceKind), preview)
	require.NotContains(t, env.names(target, workspaceKind), preview)
	require.Subset(t, env.names(source, workspaceKind), []string{vpcWorkspace, eksWorkspace})
	require.Empty(t, env.done(began))

	env.setScript(preview, scripted.Script{})
	env.apply(source, stagedTemplate(policy, fixture.VPCModule))
	env.follow(takePauseAway, "NAME", "demo")
	env.awaitReady(source, "v1.34.0")
	env.awaitBlock(vpc, "until-paused")
	env.awaitBlock(eks, "until-paused")
	env.startMove().wait()
	env.requireMoved()
	env.awaitReady(target, "v1.34.0")
	require.Empty(t, env.done(began), "Terraform changed nothing")
}
