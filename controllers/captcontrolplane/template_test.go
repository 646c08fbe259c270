// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

var (
	// restricted is a control plane whose API server only an office may reach.
	restricted = builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24"}}
	})
	versioned = builder.Consuming("kubernetes_version")
	closing   = builder.Consuming("endpoint_public_access_cidrs")
	leaving   = []builder.Option{builder.Deleting(), builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)}
)

// wanting is a control plane about to be made.
func wanting(options ...builder.Option) []client.Object {
	options = append([]builder.Option{builder.OwnedBy(builder.Cluster("demo"))}, options...)
	return []client.Object{builder.Cluster("demo", builder.WithInfrastructureProvisioned()), vpc(), builder.CAPTControlPlane("demo", options...)}
}

// replace replaces the template.
func (w *world) replace(options ...builder.Option) {
	w.Helper()
	require.NoError(w, w.Delete(w.T.Context(), builder.WorkspaceTemplate("eks")))
	require.NoError(w, w.Create(w.T.Context(), builder.WorkspaceTemplate("eks", options...)))
}

func (w *world) message(condition string) string {
	w.Helper()
	found := meta.FindStatusCondition(w.get().Status.Conditions, condition)
	require.NotNil(w, found, condition)
	return found.Message
}

func TestSafety14ARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
	w := newWorld(t, wanting(restricted)...)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False TemplateNotFound", w.story()["DependenciesReady"], "nothing is known of the template")

	require.NoError(t, w.Client.Create(t.Context(), builder.WorkspaceTemplate("eks", versioned)))
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False FieldNotConsumed", w.story()["DependenciesReady"])
	assert.Equal(t, "False FieldNotConsumed", w.story()["Ready"])
	assert.Equal(t, controlplanev1.StateValidating, w.get().Status.State)
	for _, part := range []string{"nothing is created: spec.endpointAccess.publicCIDRs: ", "WorkspaceTemplate default/eks does not pass ${endpoint_public_access_cidrs}", "Add the placeholder"} {
		assert.Contains(t, w.message("DependenciesReady"), part)
	}
	assert.Empty(t, w.reconcile())

	w.replace(versioned, closing)
	assert.Contains(t, w.reconcile(), "apply "+applyName)
	assert.NotContains(t, w.story(), "FieldsConsumed")
}

// A template may lose the placeholder, and a control plane of CAPT v0.3 never had one: it is reported, and nothing is held up.
func TestSafety14ARunningControlPlaneIsReportedOnly(t *testing.T) {
	w := newWorld(t, append(wanting(restricted), builder.WorkspaceTemplate("eks", versioned, closing))...)
	w.reconcile()
	w.terraformMade()
	w.reconcile()
	w.reconcile()
	require.Equal(t, controlplanev1.StateReady, w.get().Status.State)

	w.replace(versioned)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.Equal(t, "True DependenciesReady", w.story()["DependenciesReady"])
	assert.Equal(t, "False FieldNotConsumed", w.story()["FieldsConsumed"])
	assert.Contains(t, w.message("FieldsConsumed"), "spec.endpointAccess.publicCIDRs: the API server would be reachable from more networks")
	assert.Empty(t, w.reconcile())

	// Its WorkspaceTemplateApply was lost: the new one goes on with the same state.
	require.NoError(t, w.Client.Delete(t.Context(), read(w, applyName, &infrav1.WorkspaceTemplateApply{})))
	assert.Contains(t, w.reconcile(), "apply "+applyName)

	// What cannot be read is not known to be better.
	reader := w.Client
	w.Client = builder.FailingGet[*infrav1.WorkspaceTemplate](w.API, errors.New("no route to host"))
	w.reconcile()
	assert.Equal(t, "False FieldNotConsumed", w.story()["FieldsConsumed"])
	w.Client = reader

	w.replace(versioned, closing)
	w.reconcile()
	assert.NotContains(t, w.story(), "FieldsConsumed")
}

func TestSafety14ATemplateThatOpensTheAPIServerIsNotSwitchedTo(t *testing.T) {
	w := newWorld(t, append(wanting(restricted), builder.WorkspaceTemplate("eks", versioned, closing), builder.WorkspaceTemplate("open", versioned))...)
	w.reconcile()
	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "open" })
	w.reconcile()
	assert.Equal(t, "eks", read(w, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.TemplateRef.Name)
	assert.Equal(t, "False FieldNotConsumed", w.story()["DependenciesReady"])

	require.NoError(t, w.Client.Delete(t.Context(), w.get()))
	w.reconcile()
	assert.Nil(t, read(w, applyName, &infrav1.WorkspaceTemplateApply{}), "it does not hold up the deletion")
}

func TestSafety14OtherFieldsAreReportedOnly(t *testing.T) {
	tagged := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a"}
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "batch", Selectors: []controlplanev1.FargateSelector{{Namespace: "batch"}},
			WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	})
	w := newWorld(t, append(wanting(tagged), builder.WorkspaceTemplate("eks", versioned), builder.WorkspaceTemplate("fargate", builder.Consuming("profile_name")))...)
	assert.Contains(t, w.reconcile(), "apply "+applyName)
	assert.Contains(t, w.message("FieldsConsumed"), "spec.additionalTags: has no effect")
	assert.Contains(t, w.message("FieldsConsumed"), "; spec.fargateProfiles[0].selectors: has no effect")
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	w := newWorld(t, append(wanting(), builder.WorkspaceTemplate("eks", append(leaving, versioned)...))...)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False TemplateDeleting", w.story()["DependenciesReady"])
	assert.Contains(t, w.message("Ready"), "WorkspaceTemplate default/eks is being deleted and cannot be used by new objects")
}

func TestSafety13UsersOfATemplateThatLeavesGoOn(t *testing.T) {
	w := newWorld(t, append(wanting(), builder.WorkspaceTemplate("eks", versioned, builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)))...)
	w.reconcile()
	require.NoError(t, w.Client.Delete(t.Context(), builder.WorkspaceTemplate("eks")))
	w.spec(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a"}
	})
	assert.Contains(t, w.reconcile(), "apply "+applyName)
	assert.Equal(t, "True DependenciesReady", w.story()["DependenciesReady"])
}
