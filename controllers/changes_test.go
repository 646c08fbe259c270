// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/changes"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
)

// checksPerFleet limits how many Workspaces of a fleet are checked.
const checksPerFleet = 1

// What package changes says, and captctl diff shows, is what the controllers write, or why they do not. CAPT_CHANGES_SEED repeats a run,
// CAPT_CHANGES_FLEETS is the number of fleets; with -short, as in make test, it is 100.
func TestTheManagerDoesWhatDiffShows(t *testing.T) {
	seed, fleets := uint64(1), uint64(500) // make test must not depend on luck.
	if testing.Short() {
		fleets = 100
	}
	for name, value := range map[string]*uint64{"CAPT_CHANGES_SEED": &seed, "CAPT_CHANGES_FLEETS": &fleets} {
		if text := os.Getenv(name); text != "" {
			var err error
			*value, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
		}
	}
	t.Logf("CAPT_CHANGES_SEED=%d", seed)
	ctrl.SetLogger(logr.Discard())
	states, said, wrong := stages(t), map[changes.Action]int{}, 0
	for i := range fleets {
		f := generate(rand.New(rand.NewPCG(seed, i)), states)
		fleet := f.fleet()
		units, err := fleet.Units("")
		require.NoError(t, err)
		f.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		for _, u := range units[:min(len(units), checksPerFleet)] {
			w, err := fleet.Compare(&u)
			require.NoError(t, err)
			said[w.Action]++
			if problem := f.check(t, &u, &w); problem != "" {
				if wrong++; wrong <= 20 {
					t.Errorf("fleet %d (%s): Workspace of %s: %s; shown is %s %s %q", i, f, w.Apply, problem, w.Action, w.Reason, w.Message)
				}
			}
		}
	}
	t.Logf("%d wrong of %v", wrong, said)
}

// check lets the controllers of one Workspace run once, and compares what they do with what was shown.
func (f *fleet) check(t *testing.T, u *changes.Unit, w *changes.Workspace) string {
	t.Helper()
	m, before := newManager(t, f.objects), map[string]*unstructured.Unstructured{}
	for _, object := range f.objects {
		if workspace, ok := object.(*unstructured.Unstructured); ok {
			before[key(workspace)] = workspace
		}
	}
	namespace, name, _ := strings.Cut(w.Apply, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if u.Owner != nil {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", u.Owner), "*v1beta2.")
		if err := m.reconcile(t.Context(), kind, client.ObjectKeyFromObject(u.Owner.(client.Object))); err != nil {
			return "the owner cannot be reconciled: " + err.Error()
		}
	}
	for range 2 { // A new object of an existing Workspace first gets its finalizer.
		if err := m.reconcile(t.Context(), "WorkspaceTemplateApply", at); err != nil {
			return "the WorkspaceTemplateApply cannot be reconciled: " + err.Error()
		}
	}
	if after := (&infrav1.WorkspaceTemplateApply{}); u.Live != nil && m.Get(t.Context(), at, after) == nil && len(after.Spec.WaitForWorkspaces) < len(u.Live.Spec.WaitForWorkspaces) {
		return "" // The fake API server replaces the list; a real one keeps the items of users.
	}
	did, fields := difference(before, m.workspaces(t))
	reported := m.reported(t, u, at)
	queued := strings.Contains(reported, infrav1.QueuedReason) // Which Fargate profile comes first is in the memory of the manager.
	switch conditional := strings.Contains(w.Message, "captctl does not read") || strings.Contains(f.String(), "Secret"); {
	case did == changes.ActionNone && w.Differs() && (queued || conditional && strings.Contains(reported, "Secret")):
		return ""
	case did != changes.ActionNone && (did != w.Action || w.Reason != ""), did == changes.ActionNone && w.Differs() && w.Reason == "":
		return fmt.Sprintf("the manager did %s; it reports %s", did, reported)
	case did != changes.ActionNone && did != changes.ActionDestroy && !slices.EqualFunc(fields, w.Changes, func(a, b render.Difference) bool { return a.Field == b.Field }):
		return fmt.Sprintf("the manager changed %v, shown are %v", fields, w.Changes)
	}
	return f.checkReason(w, reported)
}

// checkReason reports whether the manager reports the reason that is shown.
func (f *fleet) checkReason(w *changes.Workspace, reported string) string {
	switch {
	case w.Action == changes.ActionBlocked && w.Reason == "" && !strings.Contains(reported, infrav1.AdoptionRequiredReason) && !strings.Contains(reported, "Deleting=True"):
		return "the manager does not report that it must be adopted: " + reported
	case w.Reason == "", w.Reason == clusterv1.PausedReason, strings.Contains(reported, "Paused=True"):
	case strings.Contains(reported, infrav1.AdoptionRequiredCondition+"=True"): // The rest of the status is kept.
	case strings.Contains(reported, w.Reason), strings.Contains(reported, w.Message): // The manager has more details, such as times.
	case strings.Contains(reported, "no Secret describes the VPC"): // captctl reads no Secrets.
	case infrav1.IsHeld(w.Reason) && strings.Contains(reported, infrav1.WaitingForApprovalReason): // The preview has ended now.
	case reported == "" && w.Reason == infrav1.DeletingReason: // Nothing was left to delete, and the owner is gone.
	default:
		return "the manager reports " + reported
	}
	return ""
}

// difference returns what was done to Workspaces.
func difference(before, after map[string]*unstructured.Unstructured) (did changes.Action, fields []render.Difference) {
	did = changes.ActionNone
	for key, live := range after {
		switch was := before[key]; {
		case naming.IsPreview(live):
		case was == nil:
			return changes.ActionCreate, (&render.Rendered{Object: live}).Content()
		case was.GetDeletionTimestamp().IsZero() && !live.GetDeletionTimestamp().IsZero():
			return changes.ActionDestroy, nil
		default:
			if fields := (&render.Rendered{Object: live}).Changes(was); len(fields) > 0 {
				return changes.ActionUpdate, fields
			}
		}
	}
	for key := range before {
		if after[key] == nil && !naming.IsPreview(before[key]) {
			return changes.ActionDestroy, nil
		}
	}
	return did, nil
}

// reported are the conditions of the owner and of the WorkspaceTemplateApply, and the statuses of Fargate profiles.
func (m *manager) reported(t *testing.T, u *changes.Unit, at types.NamespacedName) string {
	t.Helper()
	var lines []string
	add := func(conditions []metav1.Condition) {
		for _, c := range conditions {
			lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	if m.Get(t.Context(), at, apply) == nil {
		add(apply.Status.Conditions)
	}
	switch u.Owner.(type) {
	case *infrav1.CAPTCluster:
		live := &infrav1.CAPTCluster{}
		if m.Get(t.Context(), client.ObjectKeyFromObject(u.Owner.(client.Object)), live) == nil {
			add(live.Status.Conditions)
		}
	case *infrav1.CAPTMachinePool:
		live := &infrav1.CAPTMachinePool{}
		if m.Get(t.Context(), client.ObjectKeyFromObject(u.Owner.(client.Object)), live) == nil {
			add(live.Status.Conditions)
		}
	case *controlplanev1.CAPTControlPlane:
		live := &controlplanev1.CAPTControlPlane{}
		if m.Get(t.Context(), client.ObjectKeyFromObject(u.Owner.(client.Object)), live) == nil {
			add(live.Status.Conditions)
			for _, profile := range live.Status.FargateProfiles {
				lines = append(lines, fmt.Sprintf("%s %s", profile.Name, profile.FailureMessage))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// fleet returns the objects as captctl diff reads them.
func (f *fleet) fleet() *changes.Fleet {
	found := &changes.Fleet{
		Source:       changes.Source{TemplateOf: f.templateOf, LabelsOf: f.labelsOf, WorkspaceOf: f.workspaceOf, Revisions: rollout.Store{First: f.firstRevision, All: f.revisions}},
		MachinePools: map[types.NamespacedName]*clusterv1.MachinePool{}, CAPTMachinePools: map[types.NamespacedName]*infrav1.CAPTMachinePool{},
		CAPTClusters: map[types.NamespacedName]*infrav1.CAPTCluster{}, ControlPlanes: map[types.NamespacedName]*controlplanev1.CAPTControlPlane{},
		Applies:  map[types.NamespacedName]*infrav1.WorkspaceTemplateApply{},
		Evidence: legacy.EvidenceFor, Held: legacy.NotAdopted, HeldMissing: legacy.NotRestored,
	}
	for _, object := range f.objects {
		switch object := object.(type) {
		case *clusterv1.Cluster:
			found.Clusters = append(found.Clusters, *object)
		case *infrav1.CAPTCluster:
			found.CAPTClusters[client.ObjectKeyFromObject(object)] = object
		case *controlplanev1.CAPTControlPlane:
			found.ControlPlanes[client.ObjectKeyFromObject(object)] = object
		case *clusterv1.MachinePool:
			found.MachinePools[client.ObjectKeyFromObject(object)] = object
		case *infrav1.CAPTMachinePool:
			found.CAPTMachinePools[client.ObjectKeyFromObject(object)] = object
		case *infrav1.WorkspaceTemplateApply:
			found.Applies[client.ObjectKeyFromObject(object)] = object
		}
	}
	return found
}

func find[O client.Object](f *fleet, is func(O) bool) (found O) {
	for _, object := range f.objects {
		if typed, ok := object.(O); ok && is(typed) {
			return typed
		}
	}
	return found
}

func (f *fleet) firstRevision(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
	return find(f, func(o *appsv1.ControllerRevision) bool { return slices.Contains(keys, client.ObjectKeyFromObject(o)) }), nil
}

func (f *fleet) revisions(string) (all []appsv1.ControllerRevision, err error) {
	for _, object := range f.objects {
		if revision, ok := object.(*appsv1.ControllerRevision); ok {
			all = append(all, *revision)
		}
	}
	return all, nil
}

func (f *fleet) templateOf(key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	return find(f, func(o *infrav1.WorkspaceTemplate) bool { return client.ObjectKeyFromObject(o) == key }), nil
}

func (f *fleet) labelsOf(name string) (labels.Set, error) {
	if namespace := find(f, func(o *corev1.Namespace) bool { return o.Name == name }); namespace != nil {
		return labels.Merge(nil, namespace.Labels), nil
	}
	return nil, nil
}

func (f *fleet) workspaceOf(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
	if scope == terraform.ScopeCluster {
		namespace = ""
	}
	return find(f, func(o *unstructured.Unstructured) bool { return o.GetNamespace() == namespace && o.GetName() == name }), nil
}
