// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/ssa"
)

const (
	// atRest is how long nothing must be written.
	atRest = 3 * time.Second
	// wipe drops managedFields, as kubernetes#136919 does.
	wipe = `{"metadata":{"managedFields":[{}]}}`
)

// merge patches an object as a user would.
func (w *world) merge(object client.Object, name, patch string) {
	w.Helper()
	object.SetNamespace(w.namespace)
	object.SetName(name)
	require.NoError(w, w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user")))
}

// stays requires that nothing is written to an object.
func (w *world) stays(object client.Object) {
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
func (w *world) wiped(object client.Object, name, manager string) {
	w.Helper()
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, object))
	require.True(w, appliedBy(object, manager))
	generation := object.GetGeneration()
	w.merge(object, name, wipe)
	require.Empty(w, object.GetManagedFields())
	w.await(patience, object, name, func() string {
		if !appliedBy(object, manager) || ssa.ManagedFieldsLost(object, manager) {
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
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")
	const apply = "demo-eks-controlplane-apply"
	w.merge(&controlplanev1.CAPTControlPlane{}, "demo", `{"spec":{"variables":{"ours":"x"}}}`)
	object := &infrav1.WorkspaceTemplateApply{}
	variable := func(name, value string) func() string {
		return func() string {
			if object.Spec.Variables[name] != value {
				return fmt.Sprintf("variable %s is %q", name, object.Spec.Variables[name])
			}
			return ""
		}
	}
	w.await(patience, object, apply, variable("ours", "x"))
	w.merge(object, apply, `{"spec":{"variables":{"theirs":"y"}}}`)
	w.awaitReady("demo")

	workspaces := w.workspaces()
	require.Len(t, workspaces, 2)
	for i := range workspaces {
		w.wiped(&workspaces[i], workspaces[i].GetName(), naming.WorkspaceTemplateApplyFieldManager)
	}
	w.wiped(&infrav1.WorkspaceTemplateApply{}, "demo-vpc", naming.CAPTClusterFieldManager)
	w.wiped(&corev1.Secret{}, "demo-kubeconfig", naming.CAPTControlPlaneFieldManager)
	w.wiped(object, apply, naming.CAPTControlPlaneFieldManager)
	require.Equal(t, "x", object.Spec.Variables["ours"])
	w.awaitReady("demo")

	w.merge(&controlplanev1.CAPTControlPlane{}, "demo", `{"spec":{"variables":{"ours":null}}}`)
	w.await(patience, object, apply, variable("ours", ""))
	require.Equal(t, "y", object.Spec.Variables["theirs"], "what others set is left alone")
	require.NotContains(t, object.Spec.Variables, "ours")
}

// CAPT did not create an adopted Workspace: any write would make Terraform plan, so there is nothing to restore.
func TestSafety27AnAdoptedWorkspaceIsNotWrittenWhenManagedFieldsAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), cluster("demo"), captCluster("demo"))
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	workspace := w.workspace("demo-vpc")
	w.merge(workspace, workspace.GetName(), `{"metadata":{"annotations":{"`+naming.ClaimAnnotation+`":null},"managedFields":[{}]}}`)
	require.Empty(t, workspace.GetManagedFields())
	// Ready is True from before. What is reconciled after this edit is reconciled without managedFields.
	object := &infrav1.WorkspaceTemplateApply{}
	w.merge(object, "demo-vpc", `{"spec":{"variables":{"theirs":"y"}}}`)
	generation := object.GetGeneration()
	w.await(patience, object, "demo-vpc", func() string {
		if object.Status.ObservedGeneration < generation {
			return fmt.Sprintf("generation %d is not reconciled, but %d", generation, object.Status.ObservedGeneration)
		}
		return ""
	})
	w.awaitCondition(patience, object, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
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
	w.apply(captCluster("demo"))
	captCluster := &infrav1.CAPTCluster{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, captCluster))
	facts, plan, ref := owner.Facts{}, owner.Plan{}, infrav1.WorkspaceTemplateApplyReference{Name: "merged"}
	write := func(keys ...string) {
		var err error
		plan, err = facts.Plan(owner.Intent{
			Owner: owner.Owner{
				Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &ref, FieldManager: "capt-test",
			},
			Want: &owner.Want{
				Expectation: adoption.Expectation{SchemeName: "merged"}, ClusterName: "demo", Template: infrav1.WorkspaceTemplateReference{Name: "none"},
				Intent:         adoption.Intent{Variables: map[string]string{"ours": "x"}},
				WaitForSecrets: []infrav1.SecretDependency{{Name: "connection", Namespace: w.namespace, Keys: keys}},
				DeletionPolicy: infrav1.DeletionPolicyDelete,
			},
		})
		require.NoError(t, err)
		require.NoError(t, plan.Write(t.Context(), w.Client))
		require.False(t, plan.Differs())
	}
	write("a", "b")

	theirs := `{"metadata":{"labels":{"theirs":"y"}},"spec":{"variables":{"theirs":"y"},"waitForSecrets":[{"name":"connection","keys":["theirs"]},{"name":"theirs"}]}}`
	added := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(theirs), &added.Object))
	added.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	added.SetNamespace(w.namespace)
	added.SetName("merged")
	require.NoError(t, w.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(added), client.FieldOwner("user")))

	key := client.ObjectKey{Namespace: w.namespace, Name: "merged"}
	require.NoError(t, w.Get(t.Context(), key, facts.Apply))
	require.Contains(t, facts.Apply.Spec.WaitForSecrets[0].Keys, "theirs")
	require.False(t, plan.Differs())
	require.False(t, ssa.ManagedFieldsLost(facts.Apply, "capt-test"))

	write("a")
	require.ElementsMatch(t, []string{"a", "theirs"}, facts.Apply.Spec.WaitForSecrets[0].Keys, "ours goes, theirs stays")
	require.Len(t, facts.Apply.Spec.WaitForSecrets, 2)
	require.Equal(t, map[string]string{"ours": "x", "theirs": "y"}, facts.Apply.Spec.Variables)
}
