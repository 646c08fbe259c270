// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// Before adoption nothing would restore the readiness that CAPT v0.3 left.
func TestARefusalBeforeAdoptionKeepsReady(t *testing.T) {
	legacy := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: metav1.NewTime(builder.Created)}
	for name, known := range map[string][]metav1.Condition{
		"first look":  {legacy},
		"later":       {legacy, {Type: "AdoptionRequired", Status: metav1.ConditionTrue, Reason: "AdoptionRequired", ObservedGeneration: 1}},
		"rolled back": {{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 1}, {Type: "AdoptionRequired", Status: metav1.ConditionTrue, Reason: "AdoptionRequired"}},
	} {
		t.Run(name, func(t *testing.T) {
			apply := builder.WorkspaceTemplateApply("demo")
			apply.Status.Conditions = slices.Clone(known)
			assert.True(t, (&Gate{}).KeepsSummary(apply, "Ready"))
		})
	}
	adopted := builder.WorkspaceTemplateApply("demo")
	adopted.Status.Conditions = []metav1.Condition{legacy, {Type: "AdoptionRequired", Status: metav1.ConditionFalse, Reason: "AdoptionNotRequired"}}
	assert.False(t, (&Gate{}).KeepsSummary(adopted, "Ready"))
}

func TestKeepStatusRemovesAnOutdatedRefusal(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo")
	engine.Set(apply, engine.False("Ready", infrav1.WriteRefusedReason, "")) // It had no status, and looked like a new object.
	keepStatus(apply, "", engine.True("AdoptionRequired", "AdoptionRequired", ""))
	assert.Equal(t, map[string]string{"AdoptionRequired": "True AdoptionRequired"}, builder.ConditionSummary(apply.Status.Conditions))
	keepStatus(apply, "annotation", engine.False("AdoptionRequired", "AdoptionNotRequired", ""))
	keepStatus(apply, "", engine.False("AdoptionRequired", "AdoptionNotRequired", ""))
	want := map[string]string{"AdoptionRequired": "True AdoptionRequired", "Paused": "False NotPaused"}
	assert.Equal(t, want, builder.ConditionSummary(apply.Status.Conditions), "until the status is computed again")
	apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: "Synced", Status: metav1.ConditionTrue, Reason: "ReconcileSuccess"})
	keepStatus(apply, "", engine.False("AdoptionRequired", "AdoptionNotRequired", ""))
	want["AdoptionRequired"], want["Synced"] = "False AdoptionNotRequired", "True ReconcileSuccess"
	assert.Equal(t, want, builder.ConditionSummary(apply.Status.Conditions), "CAPT v0.3 left the status")
}

// After a rollback, the last status of the adopted object remains.
func TestKeepStatusRemovesAnOutdatedPause(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo")
	for _, message := range []string{"", "waits for a Workspace (vpc): not ready"} {
		engine.Set(apply, engine.WithPause(engine.True("Ready", "UpToDate", message), "Cluster spec.paused is set to true"))
		before := conditions.GetMessage(apply, "Ready")
		keepStatus(apply, "Cluster spec.paused is set to true", engine.True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, before, conditions.GetMessage(apply, "Ready"))
		keepStatus(apply, "", engine.True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, message, conditions.GetMessage(apply, "Ready"))
		keepStatus(apply, "", engine.True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, message, conditions.GetMessage(apply, "Ready"))
	}
}
