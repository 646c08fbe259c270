// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// In a shared backend the external name of a Workspace says where its state is. A tenant who could choose it would plan against
// the VPC of another namespace, and destroy that VPC with its own object.
func TestSafety01StateOfAnotherNamespaceIsNeverUsed(t *testing.T) {
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
			w := newWorld(t, terraform.ScopeNamespaced)
			w.apply(w.b, echo("template", ""), uses("theirs", w.b, "template", says("hello")))
			state := w.awaitReady(w.b, "theirs").Status.WorkspaceRef.ExternalName
			require.Equal(t, naming.ExternalName(types.NamespacedName{Namespace: w.b, Name: "theirs"}), state)

			w.apply(w.a, echo("template", row.template))
			thief := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: "thief"}, Spec: infrav1.WorkspaceTemplateApplySpec{
				TemplateRef: infrav1.WorkspaceTemplateReference{Name: "template"}, Variables: map[string]string{"word": "hello"},
			}}
			row.forge(thief, state)
			require.NoError(t, w.Create(t.Context(), thief))
			w.await(thief, w.a, "thief", func() string {
				w.requireOneUserOf(state)
				if ready := meta.FindStatusCondition(thief.Status.Conditions, infrav1.ReadyCondition); ready == nil {
					return "the controller has not looked at it"
				}
				return ""
			})
			w.requireOneUserOf(state)
			require.True(t, meta.IsStatusConditionTrue(thief.Status.Conditions, infrav1.WorkspaceConflictCondition), "%v", thief.Status.Conditions)
			require.Empty(t, w.workspacesOf("thief"))

			require.NoError(t, w.Delete(t.Context(), thief))
			w.awaitGone(thief, w.a, "thief")
			w.awaitReady(w.b, "theirs")
		})
	}
}

// requireOneUserOf checks that a state has the one Workspace that it was made for.
func (w *world) requireOneUserOf(state string) {
	w.Helper()
	var users []string
	for _, workspace := range w.workspaces() {
		if workspace.GetAnnotations()["crossplane.io/external-name"] == state {
			users = append(users, workspace.GetNamespace()+"/"+workspace.GetName())
		}
	}
	require.Len(w, users, 1, "Workspaces with state %s: %v", state, users)
}
