// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/builder"
)

const namespace = "capt-system"

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// journal is the state that a run recorded some minutes ago.
func journal(t *testing.T, planID string, minutes int, units map[string]apply.UnitRecord) *corev1.ConfigMap {
	t.Helper()
	at := metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))
	for name, unit := range units {
		unit.Begun = metav1.NewMicroTime(at.Time)
		units[name] = unit
	}
	data, err := (&apply.Journal{
		PlanID: planID, Started: at, Updated: at, Units: units, Parts: 1, Backup: &apply.Backup{Host: "laptop", File: "/backup.tar.gz"},
	}).Encode()
	require.NoError(t, err)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "capt-migrate-" + planID, Labels: map[string]string{"capt.cluster.x-k8s.io/migration-part": "state"}},
		BinaryData: data,
	}
}

// read returns the status, and fails the test if it writes.
func read(t *testing.T, only string, objects ...client.Object) *status.Status {
	t.Helper()
	for _, name := range []string{metav1.NamespaceSystem, "team-a", "team-b"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}})
	}
	errWrite := errors.New("status must not write")
	reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return errWrite },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return errWrite },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errWrite
		},
	})
	s, err := status.Read(t.Context(), status.Options{Reader: reader, JournalNamespace: namespace, Namespace: only, Clock: clock.NewFakePassiveClock(now)})
	require.NoError(t, err)
	return s
}

func TestTheLastPlanThatWroteAUnitCounts(t *testing.T) {
	objects := []client.Object{
		journal(t, "aaaaaaaaaaaa", 30, map[string]apply.UnitRecord{"team-a/gone": {Phase: apply.PhaseApplied, Message: "older"}, "team-b/gone": {Phase: apply.PhaseApplying}}),
		journal(t, "bbbbbbbbbbbb", 10, map[string]apply.UnitRecord{"team-a/gone": {Phase: apply.PhaseRolledBack}}),
	}
	s := read(t, "", objects...)
	assert.Equal(t, []status.UnitStatus{
		{Unit: "team-a/gone", PlanID: "bbbbbbbbbbbb", Phase: apply.PhaseRolledBack, Message: "the object no longer exists"},
		{Unit: "team-b/gone", PlanID: "aaaaaaaaaaaa", Phase: apply.PhaseApplying, Message: "the object no longer exists"},
	}, s.Units)
	require.Len(t, s.Plans, 2)
	assert.Equal(t, "aaaaaaaaaaaa", s.Plans[0].ID)
	assert.Equal(t, map[apply.Phase]int{apply.PhaseApplied: 1, apply.PhaseApplying: 1}, s.Plans[0].Units)
	assert.Equal(t, "laptop", s.Plans[0].Backup.Host)

	assert.Len(t, read(t, "team-b", objects...).Units, 1, "of the other namespace nothing is reported")
}

// Each plan may have been made with other decisions. A unit that a later plan says nothing about keeps those of the earlier one.
func TestDecisionsOfAllPlansCount(t *testing.T) {
	one, two := &infrav1.CAPTCluster{}, &infrav1.CAPTCluster{}
	one.Namespace, one.Name, one.UID = "team-a", "one", "one"
	two.Namespace, two.Name, two.UID = "team-a", "two", "two"
	s := &migrate.Snapshot{CAPTClusters: []infrav1.CAPTCluster{*one, *two}}
	journals := []apply.Journal{
		{Decisions: &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: "one", Skip: true}, {UID: "two", Skip: true}, {UID: "gone", Skip: true}}}},
		{},
		{Decisions: &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: "two", Pin: true}}}},
	}
	assert.Equal(t, []migrate.OwnerDecision{{UID: "one", Skip: true}, {UID: "two", Pin: true}}, status.EarlierDecisions(journals, s).Owners)
	assert.Nil(t, status.EarlierDecisions(nil, s))
}

func TestStatusReportsTheRunInProgress(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lock.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("laptop/1/abc"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-5 * time.Second))),
	}}
	s := read(t, "", lease)
	require.NotNil(t, s.Lock)
	assert.Equal(t, "laptop/1/abc", s.Lock.Identity)

	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-time.Minute)))
	assert.Nil(t, read(t, "", lease).Lock, "the lease of a run that was killed has run out")
}

func TestPausedUnitsAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster bool
		value   string
		want    bool
	}{"not paused": {}, "by its Cluster": {cluster: true, want: true}, "by an annotation": {value: "captctl-migrate", want: true}} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "cluster-demo"}}
			cluster.Spec.Paused = ptr.To(tc.cluster)
			cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "demo"}
			network := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "network", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "cluster-demo"},
			}}}
			network.Spec.VPC.Template = infrav1.VPCTemplate{}
			if tc.value != "" {
				network.Annotations = map[string]string{clusterv1.PausedAnnotation: tc.value}
			}
			s := read(t, "", cluster, network)
			require.Len(t, s.Units, 1)
			assert.Equal(t, tc.want, s.Units[0].Paused)
			assert.Equal(t, plan.NeverBuilt, s.Units[0].State)
		})
	}
}
