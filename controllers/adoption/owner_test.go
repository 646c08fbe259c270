// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

func newClient(objects ...client.Object) client.Client { return builder.Clients(objects...).Build() }

func refer(name string) infrav1.WorkspaceTemplateApplyReference {
	return infrav1.WorkspaceTemplateApplyReference{Name: name}
}

// expected is what the owner "demo" would make of the template that the builder gives to a WorkspaceTemplateApply.
var expected = claim.Expectation{
	SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"},
	Variables: map[string]string{naming.ClusterVariable: "demo"},
}

// legacyVPC is a condition of CAPT v0.3, which has no observedGeneration.
var legacyVPC = metav1.Condition{Type: infrav1.VPCReadyCondition, Status: metav1.ConditionTrue, Reason: "VPCCreated"}

// What CAPT v0.3 created is referred to by name, but not modified before its adoption.
func TestAnUnadoptedOneIsNeitherWrittenNorReleased(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer))
	observed := func() owner.Facts {
		c := newClient(apply)
		f, err := owner.Reader{Gate: &Gate{}, Cached: c, Uncached: c}.Observe(t.Context(), captCluster, refer("demo-vpc"), expected)
		require.NoError(t, err)
		return f
	}
	facts := observed()
	assert.Nil(t, facts.Live)
	assert.True(t, facts.NeedsDecision())
	assert.Contains(t, facts.Decision().Message, "WorkspaceTemplateApply demo-vpc has Workspace demo-vpc, which was created by CAPT v0.3")
	assert.Contains(t, facts.DeletingCondition("Deleting", "").Message, "captctl migrate")

	apply.Spec.WorkspaceName = "demo-vpc"
	assert.NotNil(t, observed().Live, "it was adopted")
}

// What awaits adoption keeps its status, and nothing is created for it.
func TestAwaitsAdoption(t *testing.T) {
	captCluster := builder.CAPTCluster("demo")
	legacy := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	others := builder.OwnedBy(builder.CAPTCluster("another"))
	made := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", options...)
	}
	none := infrav1.WorkspaceTemplateApplyReference{}
	for name, row := range map[string]struct {
		apply     *infrav1.WorkspaceTemplateApply
		ref       infrav1.WorkspaceTemplateApplyReference
		legacy    bool
		recorded  string
		awaits    bool
		undecided bool
	}{
		"it refers to one of v0.3":                 {made(legacy), refer("demo-vpc"), false, "", true, true},
		"it refers to an adopted one":              {made(legacy, builder.WithWorkspaceName("demo-vpc")), refer("demo-vpc"), true, "", false, false},
		"it refers to a new one":                   {made(), refer("demo-vpc"), false, "", false, false},
		"it refers to another's of v0.3":           {made(legacy, others), refer("demo-vpc"), false, "", false, false},
		"v0.3 left it, and it refers to another's": {made(others), refer("demo-vpc"), true, "", true, true},
		"it refers to another's":                   {made(others), refer("demo-vpc"), false, "", false, false},
		"one of v0.3 may be its own":               {made(legacy), none, false, "", true, true},
		"v0.3 left it, and one may be its own":     {made(), none, true, "", true, true},
		"one may be its own":                       {made(), none, false, "", false, true},
		"one of v0.3 of its cluster, of another template": {
			made(legacy, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), none, false, "", true, true,
		},
		"one of v0.3 that it owns, of another template": {
			made(legacy, builder.OwnedBy(captCluster), builder.WithVariables(nil), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), none, false, "", true, true,
		},
		"v0.3 left it, and nothing may be its own":             {made(builder.WithNamespace("elsewhere")), none, true, "", false, false},
		"what v0.3 recorded is gone":                           {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "demo-vpc", true, true},
		"what v0.3 recorded is gone, and it refers to a new":   {made(builder.WithNamespace("elsewhere")), refer("new-vpc"), true, "demo-vpc", false, false},
		"v0.3 recorded nothing, and it refers to a new one":    {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "", false, false},
		"what this version recorded is gone and created again": {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), false, "demo-vpc", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			want, c := expected, newClient(row.apply)
			want.Recorded = row.recorded
			subject := subject{captCluster.DeepCopy(), row.ref, 0, row.recorded}
			if row.legacy {
				subject.SetConditions([]metav1.Condition{legacyVPC})
			}
			gate := &Gate{Client: c, Uncached: c}
			v := subject.decision()
			f, err := owner.Reader{Gate: gate, GateDecision: v, Cached: c, Uncached: c}.Observe(t.Context(), captCluster, row.ref, want)
			require.NoError(t, err)
			assert.Equal(t, row.awaits, f.Held)
			assert.Equal(t, row.undecided, f.NeedsDecision())
			assert.Equal(t, row.undecided, f.Decision().Status == metav1.ConditionTrue)
			f, err = owner.Reader{Gate: gate, GateDecision: v, Cached: c, Uncached: c, Confirm: true}.Observe(t.Context(), captCluster, row.ref, want)
			require.NoError(t, err)
			assert.Equal(t, row.awaits, f.Held, "the API server returns the same")
		})
	}
	deleted := builder.CAPTCluster("demo", builder.Deleting())
	deleted.SetConditions([]metav1.Condition{legacyVPC})
	v := subject{deleted, refer("demo-vpc"), 0, "demo-vpc"}.decision()
	assert.Nil(t, v.BlockMissing, "nothing holds up its deletion")
}

// legacyControlPlane is as CAPT v0.3 left it.
func legacyControlPlane() *controlplanev1.CAPTControlPlane {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks"))
	controlPlane.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(builder.Created)}}
	return controlPlane
}

func TestOnlyTheAdoptionOfAControlPlaneCausesAReconcile(t *testing.T) {
	required := engine.True(infrav1.AdoptionRequiredCondition, infrav1.AdoptionRequiredReason, "")
	legacy, adopted := legacyControlPlane(), legacyControlPlane()
	engine.Set(legacy, required)
	adopted.Status.ObservedGeneration = 1
	rolledBack := adopted.DeepCopy()
	engine.Set(rolledBack, required)
	p := onAdoption()
	for before, causes := range map[*controlplanev1.CAPTControlPlane]bool{legacyControlPlane(): true, rolledBack: true, legacy: true, adopted: false} {
		assert.Equal(t, causes, p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: adopted}))
	}
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: legacy, ObjectNew: legacy}))
	assert.False(t, p.Create(event.CreateEvent{Object: adopted}))
	assert.True(t, p.Delete(event.DeleteEvent{Object: legacy}), "nothing is left to adopt")
}

func TestTheCAPTClustersThatAreAdoptedWithAControlPlaneAreReconciled(t *testing.T) {
	waiting, other := builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1")), builder.CAPTCluster("other", builder.WithExistingVPC("vpc-2"))
	engine.Set(waiting, engine.True(infrav1.AdoptionRequiredCondition, infrav1.AdoptionRequiredReason, ""))
	gate := &Gate{Client: newClient(waiting, other)}
	assert.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(waiting)}}, gate.adoptedWith(t.Context(), legacyControlPlane()))
}
