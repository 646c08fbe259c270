// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

const clusterScope = "workspaceScope: Cluster"

func TestAClusterWideWorkspaceOfAnotherNamespaceIsNotTaken(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeCluster)
	env.apply(env.b, echo("template", clusterScope), uses("theirs", env.b, "template", says("hello")))
	theirs := fixture.WorkspaceOf(env, env, env.awaitReady(env.b, "theirs"))

	env.apply(env.a, echo("template", clusterScope), uses("thief", env.a, "template", says("hello")+"\n  workspaceName: "+theirs.GetName()))
	env.requireConflict("thief", theirs)
}

// What CAPT v0.3 made has no claim on it. A tenant that copies the values of another one gets nothing by that: its
// outputs, and its end, belong to the namespace that its references lead to.
func TestAWorkspaceThatV03CreatedForAnotherNamespaceIsNotTaken(t *testing.T) {
	for name, row := range map[string]struct{ theirs, tenants string }{
		"it reads a Secret of that namespace": {
			"varFiles: [{source: SecretKey, format: HCL, secretKeyRef: {namespace: OTHER, name: words, key: tfvars}}]", "vars: []",
		},
		"its outputs go to that namespace": {"vars: [{key: word, value: demo}]", "vars: [{key: word, value: demo}]"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeCluster)
			env.apply(env.b, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: words}, stringData: {tfvars: 'word = "%s"'}}`, env.canary))
			theirs := env.olderWorkspace(strings.ReplaceAll(row.theirs, "OTHER", env.b))
			env.apply(env.a, echoOf("template", clusterScope, row.tenants), uses("thief", env.a, "template", "workspaceName: "+theirs.GetName()))
			env.requireConflict("thief", theirs)
		})
	}
}

// olderWorkspace is a Workspace as CAPT v0.3 made it for the other namespace, once Terraform is done with it.
func (env *environment) olderWorkspace(inputs string) *unstructured.Unstructured {
	env.Helper()
	workspace := fixture.Decode(env, "", fmt.Sprintf(`
apiVersion: tf.upbound.io/v1beta1
kind: Workspace
metadata: {name: %[1]s-older}
spec:
      providerConfigRef: {name: sandbox}
      writeConnectionSecretToRef: {name: older-connection, namespace: %[1]s}
      forProvider:
        source: Inline
        module: |%[2]s
        %[3]s
`, env.b, echoModule, inputs))
	require.NoError(env, env.Create(env.Context(), workspace))
	env.await(workspace, "", workspace.GetName(), func() string {
		outputs, found, _ := unstructured.NestedMap(workspace.Object, "status", "atProvider", "outputs")
		return fixture.Unless(found && len(outputs) > 0, "there are no outputs yet")
	})
	return workspace
}

// requireConflict checks that a WorkspaceTemplateApply of the tenant has nothing of a Workspace, and cannot destroy it.
func (env *environment) requireConflict(name string, theirs *unstructured.Unstructured) {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, env.a, name, func() string {
		return fixture.Unless(apply.Status.WorkspaceRef != nil || meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.WorkspaceConflictCondition),
			"it has neither taken the Workspace nor left it")
	})
	require.Empty(env, apply.Status.Outputs, "outputs of another namespace")
	require.Nil(env, apply.Status.WorkspaceRef, "the Workspace of another namespace")

	require.NoError(env, env.Delete(env.Context(), apply))
	env.awaitGone(apply, env.a, name)
	require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Nil(env, theirs.GetDeletionTimestamp(), "the tenant destroys what belongs to another namespace")
}

// The annotation is how v1beta1 keeps what only v1beta2 has. Neither admission nor a policy looks at it here.
func TestTheRecordOfAWorkspaceIsNotTakenFromAnAnnotation(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeCluster)
	theirs := env.olderWorkspace("vars: [{key: word, value: demo}]")
	thief := fixture.Decode(env, env.a, uses("thief", env.a, "absent", ""))
	thief.SetFinalizers([]string{"tenant.example.com/hold"})
	require.NoError(env, env.Create(env.Context(), thief))
	require.NoError(env, env.Delete(env.Context(), thief.DeepCopy()))

	data := fmt.Sprintf(`{"fields":[{"path":"/status/workspaceRef","is":{"apiVersion":"tf.upbound.io/v1beta1","kind":"Workspace","name":%[1]q,"uid":%[2]q}},
		{"path":"/status/workspaceName","is":%[1]q},{"path":"/spec/workspaceName","is":%[1]q}]}`, theirs.GetName(), theirs.GetUID())
	older := thief.DeepCopy()
	older.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"cluster.x-k8s.io/conversion-data": data}}})
	require.NoError(env, err)
	require.NoError(env, env.Patch(env.Context(), older, client.RawPatch(types.MergePatchType, patch)))

	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(thief), apply))
	require.Equal(env, theirs.GetName(), apply.Spec.WorkspaceName, "the annotation was read")
	require.Nil(env, apply.Status.WorkspaceRef)
	env.await(apply, env.a, "thief", func() string {
		ready := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
		return fixture.Unless(ready != nil && ready.ObservedGeneration == apply.Generation, "the manager has not seen it: %+v", ready)
	})
	require.NoError(env, env.Patch(env.Context(), apply, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	env.awaitGone(apply, env.a, "thief")
	require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Nil(env, theirs.GetDeletionTimestamp())
}

// Names in the cluster scope can be guessed. A tenant without a template creates no Workspace, and so cannot take a name.
func TestANameIsNotHeldByAnObjectOfAnotherNamespaceThatMakesNothing(t *testing.T) {
	env := newEnvironment(t, terraform.ScopeCluster)
	theirs := types.NamespacedName{Namespace: env.b, Name: "theirs"}
	env.apply(env.a, uses("squatter", env.a, "absent", "workspaceName: "+naming.Workspace(terraform.ScopeCluster, theirs)))
	env.awaitRefused("squatter", infrav1.RenderedCondition, infrav1.TemplateNotFoundReason)
	squatter := &infrav1.WorkspaceTemplateApply{}
	env.await(squatter, env.a, "squatter", func() string {
		// Of two that are as old, the name decides.
		return fixture.Unless(time.Since(squatter.CreationTimestamp.Time) >= 2*time.Second, "it is not older by a whole second yet")
	})
	env.apply(env.b, echo("template", clusterScope), uses("theirs", env.b, "template", says("hello")))
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, env.b, "theirs", func() string {
		return fixture.Unless(len(apply.Status.Conditions) > 0, "the controller has not looked at it")
	})
	require.False(t, meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.WorkspaceConflictCondition), "%v", apply.Status.Conditions)
	env.awaitReady(env.b, "theirs")
}

// In a shared backend the external name of a Workspace says where its state is. A tenant who could choose it would plan against
// the VPC of another namespace, and destroy that VPC with its own object.
func TestStateOfAnotherNamespaceIsNeverUsed(t *testing.T) {
	for name, row := range map[string]struct {
		template string
		forge    func(apply *infrav1.WorkspaceTemplateApply, state string)
	}{
		"workspaceName, namespaced": {"", func(apply *infrav1.WorkspaceTemplateApply, state string) {
			apply.Spec.WorkspaceName = state
		}},
		"annotation": {"", func(apply *infrav1.WorkspaceTemplateApply, state string) {
			apply.Annotations = map[string]string{naming.ExternalNameAnnotation: state, naming.ExternalNameUIDAnnotation: "another"}
		}},
		"all of it, cluster scope": {clusterScope, func(apply *infrav1.WorkspaceTemplateApply, state string) {
			apply.Spec.WorkspaceName = state
			apply.Annotations = map[string]string{naming.ExternalNameAnnotation: state, naming.ExternalNameUIDAnnotation: "another"}
			apply.Status.WorkspaceName = state // Dropped at creation.
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: state, UID: "1", ExternalName: state}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.ScopeNamespaced)
			env.apply(env.b, echo("template", ""), uses("theirs", env.b, "template", says("hello")))
			state := env.awaitReady(env.b, "theirs").Status.WorkspaceRef.ExternalName
			require.Equal(t, naming.ExternalName("", types.NamespacedName{Namespace: env.b, Name: "theirs"}), state)

			env.apply(env.a, echo("template", row.template))
			thief := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.a, Name: "thief"}, Spec: infrav1.WorkspaceTemplateApplySpec{
				TemplateRef: infrav1.WorkspaceTemplateReference{Name: "template"}, Variables: infrav1.TextVariables(map[string]string{"word": "hello"}),
			}}
			row.forge(thief, state)
			require.NoError(t, env.Create(t.Context(), thief))
			env.await(thief, env.a, "thief", func() string {
				env.requireOneUserOf(state)
				ready := meta.FindStatusCondition(thief.Status.Conditions, infrav1.ReadyCondition)
				return fixture.Unless(ready != nil, "the controller has not looked at it")
			})
			env.requireOneUserOf(state)
			require.True(t, meta.IsStatusConditionTrue(thief.Status.Conditions, infrav1.WorkspaceConflictCondition), "%v", thief.Status.Conditions)
			require.Empty(t, env.workspacesOf("thief"))

			require.NoError(t, env.Delete(t.Context(), thief))
			env.awaitGone(thief, env.a, "thief")
			env.awaitReady(env.b, "theirs")
		})
	}
}

// requireOneUserOf checks that a state has the one Workspace that it was made for.
func (env *environment) requireOneUserOf(state string) {
	env.Helper()
	var users []string
	for _, workspace := range fixture.Workspaces(env, env, "") {
		if workspace.GetAnnotations()["crossplane.io/external-name"] == state {
			users = append(users, workspace.GetNamespace()+"/"+workspace.GetName())
		}
	}
	require.Len(env, users, 1, "Workspaces with state %s: %v", state, users)
}
