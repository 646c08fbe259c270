// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
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
	failed := s.until("that it cannot connect", func(v shown) bool { return v.synced == failure })
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

// Only an empty plan shows Ready, and only after a second look.
func previewing(s *subject) {
	s.create()
	rest := s.untilRest("1")
	before := s.settled()
	empty := s.preview(s.vars())
	require.False(s, empty.look().checksum, "the provider loses what it has observed when it adds its finalizer")
	empty.patch(`{"metadata":{"annotations":{"look":"again"}}}`)
	seen := empty.until("a second look", func(v shown) bool { return v.checksum })
	require.Equal(s, available, seen.ready)
	require.Equal(s, rest.outputs, seen.outputs)
	empty.requireUnknown(planlog.NoEntry)

	differs := s.preview(s.varsOf("2"))
	differs.patch(`{"metadata":{"annotations":{"look":"again"}}}`)
	seen = differs.until("a second look", func(v shown) bool { return v.checksum })
	require.Empty(s, seen.ready)
	require.Equal(s, rest.outputs, seen.outputs, "those of the state")
	differs.requireReplaced()

	fails := s.previewOf(s.vars())
	fails.Object["spec"].(map[string]any)["forProvider"].(map[string]any)["varmap"] = map[string]any{"settings": "no object"} //nolint:forcetypeassert // made by subject
	fails.create()
	failed := fails.until("that the plan fails", func(v shown) bool { return v.synced == failure })
	require.Equal(s, "observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: ", readable(failed.message))
	require.Empty(s, unpacked(s, failed.message), "with -json, Terraform writes its errors where the provider does not keep them")
	fails.requireUnknown(planlog.PlanFailed)
	fails.delete()

	for _, p := range []*subject{empty, differs} {
		require.Equal(s, "-", p.look().secret, "it writes no Secret")
		p.delete()
		p.untilGone()
	}
	require.True(s, s.hasState(), "nothing is destroyed")
	require.Equal(s, before, conditions(s.Unstructured), "and the Workspace was not affected")
}

// requireReplaced requires that the provider has logged the plan of a preview with another generation, at each look, without its namespace.
func (s *subject) requireReplaced() {
	s.Helper()
	changes, err := s.logged()
	require.NoError(s, err)
	if changes == nil {
		return
	}
	require.Equal(s, planlog.Counts{Replace: 1}, changes.Counts)
	require.Equal(s, []planlog.Resource{{Address: "terraform_data.made", Type: "terraform_data", Action: planlog.Replace, Reason: "cannot_update"}}, changes.Resources)
	require.Equal(s, []planlog.Output{{Name: "generation", Action: planlog.Update}}, changes.Outputs)
	require.GreaterOrEqual(s, strings.Count(s.sandbox.Logs(sandbox.Provider, logLines), fmt.Sprintf("{\"name\":%q}", s.GetName())), 2)
}

func (s *subject) requireUnknown(reason planlog.Reason) {
	s.Helper()
	changes, err := s.logged()
	require.Nil(s, changes)
	if ours() {
		var unknown *planlog.UnknownError
		require.ErrorAs(s, err, &unknown)
		require.Equal(s, reason, unknown.Reason, unknown.Message)
	}
}

// logLines is how many lines of the log are read at most.
const logLines = 10000

// logged returns what would change, from the log of the provider; nil if the log is elsewhere.
func (s *subject) logged() (*planlog.Changes, error) {
	s.Helper()
	if !ours() {
		return nil, nil
	}
	return s.plans.Plan(s.Context(), s.GetName(), s.GetCreationTimestamp().Time)
}

// preview creates a preview of the Workspace with other variables, and waits for its first look.
func (s *subject) preview(vars []any) *subject {
	s.Helper()
	p := s.previewOf(vars)
	p.create()
	first := p.until("the first look", func(v shown) bool { return v.synced == success })
	require.Empty(s, first.ready)
	return p
}

// previewOf is a preview that is not created yet. The provider logs its plan.
func (s *subject) previewOf(vars []any) *subject {
	s.Helper()
	p := s.environment.subject(s.T, s.GroupVersionKind().Group)
	p.SetAnnotations(map[string]string{"crossplane.io/external-name": s.GetName()})
	require.NoError(s, unstructured.SetNestedStringSlice(p.Object, []string{"Observe"}, "spec", "managementPolicies"))
	unstructured.RemoveNestedField(p.Object, "spec", "writeConnectionSecretToRef")
	parameters := p.Object["spec"].(map[string]any)["forProvider"].(map[string]any) //nolint:forcetypeassert // made by subject
	parameters["vars"], parameters["enableTerraformCLILogging"], parameters["planArgs"] = vars, true, []any{"-json"}
	return p
}

// varsOf are the variables with another generation.
func (s *subject) varsOf(generation string) []any {
	changed := s.vars()
	for _, entry := range changed {
		if v := entry.(map[string]any); v["key"] == "generation" { //nolint:forcetypeassert // made by subject
			v["value"] = generation
		}
	}
	return changed
}

// An apply locks the state. A preview neither waits for it, nor does the apply fail because of the preview.
func previewingDuringAnApply(s *subject) {
	s.create()
	s.untilRest("1")
	s.hold(apply)
	s.generation("2")
	s.reached(apply)

	p := s.preview(s.varsOf("3"))
	p.patch(`{"metadata":{"annotations":{"look":"again"}}}`)
	seen := p.until("a second look", func(v shown) bool { return v.checksum })
	require.Empty(s, seen.ready)
	require.Equal(s, success, seen.synced)
	require.Equal(s, "1", seen.outputs["generation"], "the state before the apply")
	require.Equal(s, "1", s.look().outputs["generation"], "Terraform still applies")
	p.requireReplaced()
	p.delete()
	p.untilGone()

	s.free(apply)
	s.untilRest("2")
	require.True(s, s.hasState(), "nothing is destroyed")
}

func initAndPlanFailed(s *subject) {
	for step, message := range map[*scripted.Step]string{
		&s.script.Init: "connect failed: cannot initialize Terraform configuration",
		&s.script.Plan: "observe failed: cannot diff (i.e. plan) Terraform configuration",
	} {
		step.Stderr = provisionerError
		s.free(destroy)
		if s.GetUID() == "" {
			s.create()
		}
		s.touch()
		failed := s.until(message, func(v shown) bool { return strings.HasPrefix(v.message, message) })
		require.Empty(s, failed.ready)
		require.Equal(s, []string{externalName}, failed.marks)
		step.Stderr = ""
	}
	s.free(destroy)
	s.untilRest("1")
}

func deletedWhilePlanFails(s *subject) {
	s.create()
	s.untilRest("1")
	s.script.Plan.Stderr = provisionerError
	s.free(destroy)
	s.delete()
	s.untilGone()
	require.False(s, s.hasState())
}

func secretOfAnotherOwner(s *subject) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "connection"}, StringData: map[string]string{"a": "b"}}
	require.NoError(s, s.api.Create(s.Context(), secret))
	s.create()
	failed := s.until("the refusal", func(v shown) bool { return v.synced == failure })
	require.Equal(s, `cannot create or update connection secret: refusing to modify uncontrolled secret of type "Opaque"`, failed.message)
	require.Equal(s, "a=b", failed.secret)
}

func usageOfProviderConfig(s *subject) {
	s.create()
	s.untilRest("1")
	usage := &unstructured.Unstructured{}
	usage.SetGroupVersionKind(s.GroupVersionKind().GroupVersion().WithKind("ProviderConfigUsage"))
	require.NoError(s, s.api.Get(s.Context(), types.NamespacedName{Namespace: s.GetNamespace(), Name: string(s.GetUID())}, usage))
	require.Equal(s, sandbox.ProviderConfigName, usage.GetLabels()["crossplane.io/provider-config"])
	require.Equal(s, s.GetUID(), metav1.GetControllerOf(usage).UID)
}

// A Workspace that is deleted without its resources leaves them to the next one that has its external name.
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

	heir := s.environment.subject(s.T, s.GroupVersionKind().Group)
	heir.SetAnnotations(map[string]string{"crossplane.io/external-name": s.GetName()})
	spec := heir.Object["spec"].(map[string]any)            //nolint:forcetypeassert // made by subject
	spec["forProvider"].(map[string]any)["vars"] = s.vars() //nolint:forcetypeassert // made by subject
	heir.create()
	found := heir.until("that it has found the resources", func(v shown) bool { return v.synced == success })
	require.Equal(s, shown{marks: []string{externalName, finalizer}, synced: success, current: true, secret: found.secret}, found,
		"the provider loses what it has observed when it adds its finalizer")
	heir.patch(`{"metadata":{"annotations":{"look":"again"}}}`)
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
