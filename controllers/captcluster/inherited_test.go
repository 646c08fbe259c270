// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// adopted is a CAPTCluster whose VPC CAPT v0.3 created, before its first reconcile.
func ofV03() *infrav1.CAPTCluster {
	captCluster := builder.CAPTCluster("demo")
	captCluster.Status.VPC.ID, captCluster.Status.Initialization.Provisioned = "vpc-1", ptr.To(true)
	captCluster.Status.Conditions = []metav1.Condition{legacyVPC(metav1.ConditionTrue, "VPCCreated")}
	return captCluster
}

// legacyVPC is the condition of CAPT v0.3, which has no observedGeneration.
func legacyVPC(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: infrav1.VPCReadyCondition, Status: status, Reason: reason, Message: "as v0.3 said", LastTransitionTime: metav1.NewTime(builder.Created)}
}

// What CAPT v0.3 reported is what is so until the adoption. Only conditions are written, and those about adoption and pause alone, but
// for Ready, which v0.3 wrote as a field.
func TestTheStatusIsKeptBeforeAdoption(t *testing.T) {
	unadopted := owner.Facts{Candidates: []adoption.Candidate{{Name: "demo-vpc"}}, Unadopted: "demo-vpc", AwaitsAdoption: true}
	with := func(apply owner.Facts) *Facts { return &Facts{Cluster: builder.Cluster("demo"), Apply: apply} }
	notReady := ofV03()
	notReady.Status.Initialization.Provisioned = ptr.To(false)
	notReady.Status.Conditions = []metav1.Condition{legacyVPC(metav1.ConditionFalse, "VPCCreating")}
	existing := ofV03()
	builder.WithExistingVPC("vpc-1")(existing)
	rolledBack := ofV03()
	rolledBack.Status.ObservedGeneration = 1
	report(rolledBack, made(map[string]string{"vpc_id": "vpc-1"}))
	ready := map[string]string{"VPCReady": "True VPCCreated", "Ready": "True Ready", "AdoptionRequired": "True AdoptionRequired"}
	for name, row := range map[string]struct {
		captCluster *infrav1.CAPTCluster
		facts       *Facts
		want        map[string]string
		message     string
	}{
		"what it refers to is not adopted": {ofV03(), with(unadopted), ready, "captctl migrate"},
		"several may be its own":           {ofV03(), with(owner.Facts{Candidates: []adoption.Candidate{{Name: "a"}, {Name: "b"}}, AwaitsAdoption: true}), ready, "nothing is created"},
		"nothing may be its own":           {ofV03(), with(owner.Facts{BuiltField: "status.vpc.id", AwaitsAdoption: true}), ready, "status.vpc.id"},
		"what it refers to is another's":   {ofV03(), with(owner.Facts{Conflict: "it is b's", AwaitsAdoption: true}), ready, "it is b's"},
		"what it refers to does not exist": {ofV03(), with(owner.Facts{Missing: "demo-vpc", AwaitsAdoption: true}), ready, "does not exist"},
		"there is no Cluster":              {ofV03(), &Facts{Apply: unadopted}, ready, ""},
		"it is paused": {ofV03(), &Facts{Cluster: builder.Cluster("demo"), Paused: "annotation", Apply: unadopted}, map[string]string{
			"VPCReady": "True VPCCreated", "Ready": "True Ready", "AdoptionRequired": "True AdoptionRequired", "Paused": "True Paused"}, ""},
		"it was not ready": {notReady, with(unadopted), map[string]string{
			"VPCReady": "False VPCCreating", "Ready": "False VPCCreating", "AdoptionRequired": "True AdoptionRequired"}, ""},
		"its VPC is not CAPT's": {existing, with(owner.Facts{AdoptedWith: "CAPTControlPlane demo", AwaitsAdoption: true}), ready, "CAPTControlPlane demo of the same Cluster"},
		"it was rolled back": {rolledBack, with(unadopted), map[string]string{
			"VPCReady": "True VPCReady", "Ready": "True Ready", "AdoptionRequired": "True AdoptionRequired"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := row.captCluster.DeepCopy()
			report(row.captCluster, row.facts)
			assert.Equal(t, row.want, builder.Story(row.captCluster.Status.Conditions))
			assert.Contains(t, meta.FindStatusCondition(row.captCluster.Status.Conditions, "AdoptionRequired").Message, row.message)
			assert.Equal(t, owner.Wait, step(row.captCluster, row.facts))
			once := row.captCluster.DeepCopy()
			report(row.captCluster, row.facts)
			assert.Equal(t, once, row.captCluster, "at rest nothing is written")
			before.Status.Conditions, once.Status.Conditions = nil, nil
			assert.Equal(t, before, once)
		})
	}
}

// A CAPTCluster that has no status has none to lose, and says why it is not built.
func TestAnEmptyStatusIsNotKept(t *testing.T) {
	captCluster := builder.CAPTCluster("demo")
	facts := &Facts{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Candidates: []adoption.Candidate{{Name: "demo-vpc"}}, Unadopted: "demo-vpc", AwaitsAdoption: true}}
	for range 2 {
		report(captCluster, facts)
		assert.Equal(t, "False AdoptionRequired", builder.Story(captCluster.Status.Conditions)["Ready"])
	}
	facts.Cluster = nil
	report(captCluster, facts)
	assert.Equal(t, "False WaitingForOwner", builder.Story(captCluster.Status.Conditions)["Ready"])
	facts.Cluster, facts.Apply.Unadopted = builder.Cluster("demo"), "another"
	report(captCluster, facts)
	assert.Contains(t, meta.FindStatusCondition(captCluster.Status.Conditions, "Ready").Message, "another")
}

func TestAnAdoptedCAPTClusterStaysReadyUntilItIsObserved(t *testing.T) {
	captCluster := ofV03()
	before := captCluster.Status.DeepCopy()
	report(captCluster, withApply())
	assert.Equal(t, *before, captCluster.Status, "nothing to write")

	report(captCluster, made(map[string]string{"vpc_id": "vpc-1"}))
	assert.Equal(t, "True Ready", builder.Story(captCluster.Status.Conditions)["Ready"])

	captCluster = ofV03()
	report(captCluster, withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")))
	assert.Equal(t, "False ApplyFailed", builder.Story(captCluster.Status.Conditions)["Ready"])
}

func TestAnAdoptedCAPTClusterReportsThatItIsPaused(t *testing.T) {
	captCluster, facts := ofV03(), withApply()
	facts.Paused = "annotation"
	report(captCluster, facts)
	assert.Equal(t, map[string]string{"VPCReady": "True VPCCreated", "Paused": "True Paused"}, builder.Story(captCluster.Status.Conditions))
}
