// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// CAPT v0.3 took the cluster-wide Workspace of the first of two objects of equal names for that of the second, and wrote the same status for both.
func TestAnObjectWhoseWorkspaceWasAdoptedForAnotherOneOfEqualNameCanBeBuilt(t *testing.T) {
	shared := builder.Workspace("twin-vpc", builder.AtRest, builder.InClusterScope())
	asOfV03 := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Finalizers = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
		apply.Status = infrav1.WorkspaceTemplateApplyStatus{WorkspaceName: "twin-vpc", Applied: metav1.ConditionTrue}
	})
	first := builder.WorkspaceTemplateApply("twin-vpc", builder.WithNamespace("ns-x"), builder.WithUID("first"), asOfV03)
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)),
		first, builder.WorkspaceTemplateApply("twin-vpc", asOfV03), shared)
	env.mustReconcile("twin-vpc")
	adoptionRequired := func() string { return conditions.GetMessage(env.get("twin-vpc"), infrav1.AdoptionRequiredCondition) }
	assert.Contains(t, adoptionRequired(), "Workspace twin-vpc was created by CAPT v0.3 for this object and has not been adopted")

	// captctl migrate adopts the first.
	require.NoError(t, env.Get(t.Context(), client.ObjectKeyFromObject(first), first))
	first.Spec.WorkspaceName = "twin-vpc"
	env.update(first)
	builder.WithRecordedWorkspace(shared)(first)
	require.NoError(t, env.Status().Update(t.Context(), first))
	assert.Contains(t, env.reconciler.relatedApplies(t.Context(), first), request("twin-vpc"), "the second is reconciled")

	env.mustReconcile("twin-vpc")
	message := adoptionRequired()
	assert.Contains(t, message, "Workspace twin-vpc belongs to an object of another namespace, for which it was adopted")
	assert.NotContains(t, message, "ns-x")
	assert.NotContains(t, message, string(shared.GetUID()))

	// The command of the message.
	command := regexp.MustCompile(`run: kubectl -n default patch workspacetemplateapply twin-vpc --type=merge -p '(.*)'`).FindStringSubmatch(message)
	require.Len(t, command, 2, message)
	apply := env.get("twin-vpc")
	require.NoError(t, env.Patch(t.Context(), apply, client.RawPatch(types.MergePatchType, []byte(command[1]))))
	for range 3 {
		_, err := env.reconcile("twin-vpc")
		require.NoError(t, err)
	}
	built := env.get("twin-vpc").Status.WorkspaceRef
	require.NotNil(t, built, env.ready("twin-vpc"))
	assert.True(t, strings.HasPrefix(built.Name, "default-twin-vpc-"), built.Name)
	assert.NotEqual(t, shared.GetUID(), built.UID)
}
