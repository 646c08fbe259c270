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
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/managedfields"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/fixture"
)

const (
	// atRest is how long nothing must be written.
	atRest = 3 * time.Second
	// wipe drops managedFields, as kubernetes#136919 does.
	wipe = `{"metadata":{"managedFields":[{}]}}`
)

// stays requires that nothing is written to an object.
func (env environment) stays(object client.Object) {
	env.Helper()
	version := object.GetResourceVersion()
	require.Never(env, func() bool {
		err := env.Get(env.Context(), client.ObjectKeyFromObject(object), object)
		return err == nil && object.GetResourceVersion() != version
	}, atRest, 100*time.Millisecond, "%T %s was written", object, object.GetName())
}

func appliedBy(object client.Object, manager string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// wiped drops the managedFields of an object, and waits until the manager restored its own.
func (env environment) wiped(object client.Object, name, manager string) {
	env.Helper()
	require.True(env, env.Exists(object, name))
	require.True(env, appliedBy(object, manager))
	generation := object.GetGeneration()
	env.Edit(object, name, wipe)
	require.Empty(env, object.GetManagedFields())
	env.Eventually(func() string {
		if !env.Exists(object, name) || !appliedBy(object, manager) || managedfields.Lost(object, manager) {
			return "managedFields are not restored"
		}
		return ""
	})
	env.stays(object)
	require.Equal(env, generation, object.GetGeneration())
}

// Lost managedFields cost one repair, and no field stays that CAPT no longer wants.
func TestLostManagedFieldsAreRestored(t *testing.T) {
	t.Parallel()
	env := ready(t)
	const apply = fixture.ControlPlane
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"variables":{"ours":"x"}}}`)
	object := &infrav1.WorkspaceTemplateApply{}
	awaitOurs := func(value string) {
		env.Eventually(func() string {
			if !env.Exists(object, apply) || object.Spec.Variables.Text("ours") != value {
				return fmt.Sprintf("variable ours is %q", object.Spec.Variables.Text("ours"))
			}
			return ""
		})
	}
	awaitOurs("x")
	env.Edit(object, apply, `{"spec":{"variables":{"theirs":"y"}}}`)
	env.awaitReady()

	for _, name := range []string{fixture.VPC, apply} {
		workspace := env.Workspace(name)
		env.wiped(workspace, workspace.GetName(), naming.WorkspaceTemplateApplyFieldManager)
	}
	env.wiped(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, naming.CAPTClusterFieldManager)
	env.wiped(&corev1.Secret{}, "demo-kubeconfig", naming.CAPTControlPlaneFieldManager)
	env.wiped(object, apply, naming.CAPTControlPlaneFieldManager)
	require.Equal(t, "x", object.Spec.Variables.Text("ours"))
	env.awaitReady()

	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"variables":{"ours":null}}}`)
	awaitOurs("")
	require.Equal(t, "y", object.Spec.Variables.Text("theirs"), "what others set is left alone")
	require.NotContains(t, object.Spec.Variables, "ours")
}

// CAPT did not create an adopted Workspace: any write would make Terraform plan, so there is nothing to restore.
func TestAnAdoptedWorkspaceIsNotWrittenWhenManagedFieldsAreLost(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(env.VPCTemplate(fixture.VPCModule), fixture.ClusterWithoutControlPlane(fixture.Demo), fixture.CAPTCluster(fixture.Demo))
	env.AwaitVPC()
	workspace := env.Workspace(fixture.VPC)
	// No policy lets a claim be removed, but for clusterctl move, which an administrator may abort.
	env.Edit(workspace, workspace.GetName(), `{"metadata":{"annotations":{"`+naming.ClaimAnnotation+`":null,"`+clusterctlv1.DeleteForMoveAnnotation+`":""}}}`)
	env.Edit(workspace, workspace.GetName(), `{"metadata":{"annotations":{"`+clusterctlv1.DeleteForMoveAnnotation+`":null},"managedFields":[{}]}}`)
	require.Empty(t, workspace.GetManagedFields())
	// Ready is True from before. What is reconciled after this edit is reconciled without managedFields.
	object := &infrav1.WorkspaceTemplateApply{}
	env.Edit(object, fixture.VPC, `{"spec":{"variables":{"theirs":"y"}}}`)
	generation := object.GetGeneration()
	env.Eventually(func() string {
		if !env.Exists(object, fixture.VPC) || object.Status.ObservedGeneration < generation {
			return fmt.Sprintf("generation %d is not reconciled, but %d", generation, object.Status.ObservedGeneration)
		}
		return ""
	})
	env.awaitUpToDate(fixture.VPC)
	require.Never(t, func() bool {
		err := env.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace)
		return err == nil && len(workspace.GetManagedFields()) > 0
	}, atRest, 100*time.Millisecond, "an apply records managedFields")
	require.False(t, appliedBy(workspace, naming.WorkspaceTemplateApplyFieldManager))
}

// What others add to merged maps and lists is theirs: CAPT neither writes because of it nor removes it.
func TestFieldsOfOtherManagersAreNotADifference(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(fixture.CAPTCluster(fixture.Demo))
	captCluster := &infrav1.CAPTCluster{}
	require.True(t, env.Exists(captCluster, fixture.Demo))
	facts, plan, ref := owner.Facts{}, owner.Plan{}, infrav1.WorkspaceTemplateApplyReference{Name: "merged"}
	write := func(keys ...string) {
		var err error
		plan, err = facts.Plan(owner.PlanInput{
			Owner: owner.Owner{
				Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &ref, FieldManager: "capt-test",
			},
			Want: &desired.Want{
				Expectation: claim.Expectation{SchemeName: "merged"}, ClusterName: fixture.Demo, Template: infrav1.WorkspaceTemplateReference{Name: "none"},
				Intent:         desired.Intent{Variables: infrav1.TextVariables(map[string]string{"ours": "x"})},
				WaitForSecrets: []infrav1.SecretDependency{{Name: "connection", Namespace: env.Namespace, Keys: keys}},
				DeletionPolicy: infrav1.DeletionPolicyDelete,
			},
		})
		require.NoError(t, err)
		require.NoError(t, plan.Write(t.Context(), env.Client, env.Client))
		require.False(t, plan.Differs)
	}
	write("a", "b")

	env.User(document("WorkspaceTemplateApply", "merged", `{variables: {theirs: "y"}, waitForSecrets: [{name: connection, keys: [theirs]}, {name: theirs}]}`))

	key := client.ObjectKey{Namespace: env.Namespace, Name: "merged"}
	require.NoError(t, env.Get(t.Context(), key, facts.Live))
	require.Contains(t, facts.Live.Spec.WaitForSecrets[0].Keys, "theirs")
	require.False(t, plan.Differs)
	require.False(t, managedfields.Lost(facts.Live, "capt-test"))

	write("a")
	require.ElementsMatch(t, []string{"a", "theirs"}, facts.Live.Spec.WaitForSecrets[0].Keys, "ours goes, theirs stays")
	require.Len(t, facts.Live.Spec.WaitForSecrets, 2)
	require.Equal(t, map[string]string{"ours": "x", "theirs": "y"}, facts.Live.Spec.Variables.Texts())
}
