// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/ssa"
	"github.com/capt-provider/capt/test/fixture"
)

const (
	// atRest is how long nothing must be written.
	atRest = 3 * time.Second
	// wipe drops managedFields, as kubernetes#136919 does.
	wipe = `{"metadata":{"managedFields":[{}]}}`
)

// stays requires that nothing is written to an object.
func (w world) stays(object client.Object) {
	w.Helper()
	version := object.GetResourceVersion()
	require.Never(w, func() bool {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object)
		return err == nil && object.GetResourceVersion() != version
	}, atRest, 100*time.Millisecond, "%T %s was written", object, object.GetName())
}

func appliedBy(object client.Object, manager string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// wiped drops the managedFields of an object, and waits until the manager restored its own.
func (w world) wiped(object client.Object, name, manager string) {
	w.Helper()
	require.True(w, w.Exists(object, name))
	require.True(w, appliedBy(object, manager))
	generation := object.GetGeneration()
	w.Edit(object, name, wipe)
	require.Empty(w, object.GetManagedFields())
	w.Insist(func() string {
		if !w.Exists(object, name) || !appliedBy(object, manager) || ssa.ManagedFieldsLost(object, manager) {
			return "managedFields are not restored"
		}
		return ""
	})
	w.stays(object)
	require.Equal(w, generation, object.GetGeneration())
}

// Lost managedFields cost one repair, and no field stays that CAPT no longer wants.
func TestSafety27LostManagedFieldsAreRestored(t *testing.T) {
	t.Parallel()
	w := ready(t)
	const apply = fixture.ControlPlane
	w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"variables":{"ours":"x"}}}`)
	object := &infrav1.WorkspaceTemplateApply{}
	awaitOurs := func(value string) {
		w.Insist(func() string {
			if !w.Exists(object, apply) || object.Spec.Variables["ours"] != value {
				return fmt.Sprintf("variable ours is %q", object.Spec.Variables["ours"])
			}
			return ""
		})
	}
	awaitOurs("x")
	w.Edit(object, apply, `{"spec":{"variables":{"theirs":"y"}}}`)
	w.awaitReady()

	for _, name := range []string{fixture.VPC, apply} {
		workspace := w.Workspace(name)
		w.wiped(workspace, workspace.GetName(), naming.WorkspaceTemplateApplyFieldManager)
	}
	w.wiped(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, naming.CAPTClusterFieldManager)
	w.wiped(&corev1.Secret{}, "demo-kubeconfig", naming.CAPTControlPlaneFieldManager)
	w.wiped(object, apply, naming.CAPTControlPlaneFieldManager)
	require.Equal(t, "x", object.Spec.Variables["ours"])
	w.awaitReady()

	w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"variables":{"ours":null}}}`)
	awaitOurs("")
	require.Equal(t, "y", object.Spec.Variables["theirs"], "what others set is left alone")
	require.NotContains(t, object.Spec.Variables, "ours")
}

// CAPT did not create an adopted Workspace: any write would make Terraform plan, so there is nothing to restore.
func TestSafety27AnAdoptedWorkspaceIsNotWrittenWhenManagedFieldsAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(w.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))
	w.AwaitVPC()
	workspace := w.Workspace(fixture.VPC)
	w.Edit(workspace, workspace.GetName(), `{"metadata":{"annotations":{"`+naming.ClaimAnnotation+`":null},"managedFields":[{}]}}`)
	require.Empty(t, workspace.GetManagedFields())
	// Ready is True from before. What is reconciled after this edit is reconciled without managedFields.
	object := &infrav1.WorkspaceTemplateApply{}
	w.Edit(object, fixture.VPC, `{"spec":{"variables":{"theirs":"y"}}}`)
	generation := object.GetGeneration()
	w.Insist(func() string {
		if !w.Exists(object, fixture.VPC) || object.Status.ObservedGeneration < generation {
			return fmt.Sprintf("generation %d is not reconciled, but %d", generation, object.Status.ObservedGeneration)
		}
		return ""
	})
	w.awaitUpToDate(fixture.VPC)
	require.Never(t, func() bool {
		err := w.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace)
		return err == nil && len(workspace.GetManagedFields()) > 0
	}, atRest, 100*time.Millisecond, "an apply records managedFields")
	require.False(t, appliedBy(workspace, naming.WorkspaceTemplateApplyFieldManager))
}

// What others add to merged maps and lists is theirs: CAPT neither writes because of it nor removes it.
func TestSafety24FieldsOfOtherManagersAreNotADifference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(fixture.CAPTCluster(fixture.Demo))
	captCluster := &infrav1.CAPTCluster{}
	require.True(t, w.Exists(captCluster, fixture.Demo))
	facts, plan, ref := owner.Facts{}, owner.Plan{}, infrav1.WorkspaceTemplateApplyReference{Name: "merged"}
	write := func(keys ...string) {
		var err error
		plan, err = facts.Plan(owner.Intent{
			Owner: owner.Owner{
				Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &ref, FieldManager: "capt-test",
			},
			Want: &owner.Want{
				Expectation: adoption.Expectation{SchemeName: "merged"}, ClusterName: fixture.Demo, Template: infrav1.WorkspaceTemplateReference{Name: "none"},
				Intent:         adoption.Intent{Variables: map[string]string{"ours": "x"}},
				WaitForSecrets: []infrav1.SecretDependency{{Name: "connection", Namespace: w.Namespace, Keys: keys}},
				DeletionPolicy: infrav1.DeletionPolicyDelete,
			},
		})
		require.NoError(t, err)
		require.NoError(t, plan.Write(t.Context(), w.Client))
		require.False(t, plan.Differs)
	}
	write("a", "b")

	w.User(document("WorkspaceTemplateApply", "merged", `{variables: {theirs: "y"}, waitForSecrets: [{name: connection, keys: [theirs]}, {name: theirs}]}`))

	key := client.ObjectKey{Namespace: w.Namespace, Name: "merged"}
	require.NoError(t, w.Get(t.Context(), key, facts.Apply))
	require.Contains(t, facts.Apply.Spec.WaitForSecrets[0].Keys, "theirs")
	require.False(t, plan.Differs)
	require.False(t, ssa.ManagedFieldsLost(facts.Apply, "capt-test"))

	write("a")
	require.ElementsMatch(t, []string{"a", "theirs"}, facts.Apply.Spec.WaitForSecrets[0].Keys, "ours goes, theirs stays")
	require.Len(t, facts.Apply.Spec.WaitForSecrets, 2)
	require.Equal(t, map[string]string{"ours": "x", "theirs": "y"}, facts.Apply.Spec.Variables)
}
