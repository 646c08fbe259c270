// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func firstApplyFailed(s *subject) {
	s.fail(apply)
	s.create()
	failed := s.untilConditions(creating, failure)
	const summary = "cannot apply Terraform configuration: Terraform encountered an error. Summary: local-exec provisioner error"
	// What failed may be in the state. Then the create is followed by updates, and Ready is still that of the create.
	require.Contains(s, []string{"create failed: " + summary, "update failed: " + summary}, readable(failed.message))
	s.history.untilShown(externalName + " " + createPending + " " + finalizer + " " + creating + " " + failure + " create failed")

	s.free(apply)
	s.untilRest("1")
}

func providerConfigMissing(s *subject) {
	require.NoError(s, unstructured.SetNestedField(s.Object, "missing", "spec", "providerConfigRef", "name"))
	s.create()
	failed := s.until("that it can not connect", func(v shown) bool { return v.synced == failure })
	require.Empty(s, failed.ready)
	require.Equal(s, []string{externalName}, failed.marks)
	require.Equal(s, "-", failed.secret)
	require.Regexp(s, `^connect failed: failed to resolve provider config: .*"missing" not found$`, failed.message)

	s.patch(`{"spec":{"providerConfigRef":{"name":"sandbox"}}}`)
	s.untilRest("1")
}

func onlyObserving(s *subject) {
	require.NoError(s, unstructured.SetNestedStringSlice(s.Object, []string{"Observe"}, "spec", "managementPolicies"))
	s.create()
	failed := s.until("that there is nothing", func(v shown) bool { return v.synced == failure })
	require.Equal(s, "observe failed: external resource does not exist", failed.message)
	require.Equal(s, []string{externalName}, failed.marks, "it would not hold up a deletion")
}

// Who is deleted without his resources leaves them to the next one that has his external name.
func stateIsAdopted(s *subject) {
	s.create()
	before := s.untilRest("1")
	if s.GetNamespace() == "" {
		s.patch(`{"spec":{"deletionPolicy":"Orphan"}}`)
	} else {
		s.patch(`{"spec":{"managementPolicies":["Observe","Create","Update","LateInitialize"]}}`)
	}
	s.delete()
	s.untilGone()
	require.True(s, s.hasState(), "the state is left")

	heir := s.stage.subject(s.T, s.GroupVersionKind().Group)
	heir.SetAnnotations(map[string]string{"crossplane.io/external-name": s.GetName()})
	spec := heir.Object["spec"].(map[string]any)            //nolint:forcetypeassert // made by subject
	spec["forProvider"].(map[string]any)["vars"] = s.vars() //nolint:forcetypeassert // made by subject
	heir.create()
	adopted := heir.untilRest("1")
	require.Equal(s, []string{externalName, finalizer}, adopted.marks, "there was no create")
	require.Equal(s, before.outputs, adopted.outputs)

	heir.delete()
	heir.untilGone()
	require.False(s, s.hasState())
}

func (s *subject) vars() []any {
	s.Helper()
	vars, _, err := unstructured.NestedSlice(s.Object, "spec", "forProvider", "vars")
	require.NoError(s, err)
	return vars
}
