// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	clusterlabels "sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/workspace"
)

// series is what WorkspaceTemplateApplies have in common that take turns: Terraform creates, changes or destroys the Workspace
// of one of them at a time, whatever caused it.
type series struct{ namespace, cluster, turns string }

// seriesOf is the series of an object. Most have none.
func seriesOf(object client.Object) (s series, ok bool) {
	labels := object.GetLabels()
	s = series{object.GetNamespace(), labels[clusterv1.ClusterNameLabel], labels[naming.TurnsLabel]}
	return s, s.cluster != "" && s.turns != ""
}

func (s series) labels() client.MatchingLabels {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster, naming.TurnsLabel: s.turns}
}

// awaitsTurn is what those are told that wait. It does not name the one that is at work: each change would be a status write
// of all the others.
func (s series) awaitsTurn() string {
	selector := fmt.Sprintf("%s=%s,%s=%s", clusterv1.ClusterNameLabel, s.cluster, naming.TurnsLabel, s.turns)
	return fmt.Sprintf("Terraform works on one WorkspaceTemplateApply of Cluster %s with label %s=%s at a time, and this one waits for its turn. "+
		"To see which one is at work: kubectl get workspacetemplateapply -n %s -l %s", s.cluster, naming.TurnsLabel, s.turns, s.namespace, selector)
}

// rota knows of those that take turns on which of them Terraform is at work, each as its own last reconcile found it. One that
// this process has not looked at yet may be at work, too: after a restart nobody begins beside it. The zero value is ready. Safe
// for concurrent use.
type rota struct {
	mu      sync.Mutex
	members map[client.ObjectKey]member
	// wake makes an object be reconciled, and does not wait for that; nil before the controller runs, when nobody waits.
	wake func(client.ObjectKey)
}

type member struct {
	series  series
	name    string
	created time.Time
	// working is true for the one that has the turn.
	working bool
	// waiting is true for one that asked for the turn and did not get it.
	waiting bool
}

func newMember(object client.Object, s series, working bool) member {
	return member{series: s, name: object.GetName(), created: object.GetCreationTimestamp().Time, working: working}
}

// byAge orders the oldest first.
func byAge(a, b member) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) }

// take gives an object the turn of its series, if that is free and no older one waits for it, or if it is the object's own
// already: it was given before, or the object was found at work now. Who does not get it is woken when that may have changed.
// others lists the rest of the series; it is called under the lock, so that nobody is missing who took the turn a moment ago.
func (r *rota) take(object client.Object, s series, working bool, others func() ([]client.ObjectKey, error)) (bool, error) {
	key := client.ObjectKeyFromObject(object)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.members[key]
	me := newMember(object, s, working || before.working && before.series == s)
	if !me.working {
		keys, err := others()
		if err != nil {
			return false, err
		}
		me.waiting = slices.ContainsFunc(keys, func(other client.ObjectKey) bool { return r.precedes(other, me) })
		me.working = !me.waiting
	}
	r.set(key, me)
	return me.working, nil
}

// precedes tells whether another one of the series comes before the one that asks.
func (r *rota) precedes(other client.ObjectKey, me member) bool {
	m, seen := r.members[other]
	return !seen || m.working || m.waiting && byAge(m, me) < 0
}

// note says whether an object was found at work that does not ask for the turn.
func (r *rota) note(object client.Object, s series, working bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(client.ObjectKeyFromObject(object), newMember(object, s, working))
}

// set wakes those who wait when the object does not come before them any more, for all that was known. That one still waits is
// no news: two of them would wake each other for ever.
func (r *rota) set(key client.ObjectKey, now member) {
	before, seen := r.members[key]
	if r.members == nil {
		r.members = map[client.ObjectKey]member{}
	}
	r.members[key] = now
	frees := !seen || before.working || before.waiting && !now.waiting
	if now.working || !frees || r.wake == nil {
		return
	}
	for _, waiting := range r.queue(now.series) {
		if waiting != key {
			r.wake(waiting)
		}
	}
}

// queue lists those of a series who wait, the oldest first.
func (r *rota) queue(s series) []client.ObjectKey {
	var keys []client.ObjectKey
	for key, m := range r.members {
		if m.waiting && m.series == s {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return byAge(r.members[a], r.members[b]) })
	return keys
}

// waiting lists those who wait in a series, for who knows of it from elsewhere that the turn may be free.
func (r *rota) waiting(s series) []client.ObjectKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue(s)
}

// forget drops what is known of an object that is gone, or takes no turns any more. Those who wait are woken by the event that
// tells of it.
func (r *rota) forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, key)
}

// wakeWith says how objects are woken.
func (r *rota) wakeWith(wake func(client.ObjectKey)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake = wake
}

// changes tells whether an action lets Terraform begin.
func (a Action) changes() bool { return a == Create || a == Update || a == Destroy }

// working tells whether Terraform is at work on the Workspace as it is, whatever should become of it.
func (f *Facts) working() bool {
	return f.owned() && workspace.Working(f.Live, f.LastUpdate, f.Told.Class)
}

// inTurn is the action, or AwaitTurn when another one of the series comes first.
func (r *Reconciler) inTurn(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action) (Action, error) {
	s, member := seriesOf(apply)
	switch {
	case !member:
		r.rota.forget(client.ObjectKeyFromObject(apply))
		return action, nil
	case !action.changes():
		r.rota.note(apply, s, f.working())
		return action, nil
	}
	granted, err := r.rota.take(apply, s, f.working(), func() ([]client.ObjectKey, error) { return r.others(ctx, apply, s) })
	if err == nil && !granted {
		f.AwaitsTurn = s.awaitsTurn()
		action = AwaitTurn
	}
	return action, err
}

// others lists the rest of a series, without those that this manager has nothing to do with: it never looks at them.
func (r *Reconciler) others(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, s series) ([]client.ObjectKey, error) {
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.namespace), s.labels(), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing those that take turns: %w", err)
	}
	var keys []client.ObjectKey
	for i := range list.Items {
		other := &list.Items[i]
		ours := r.WatchFilterValue == "" || clusterlabels.HasWatchLabel(other, r.WatchFilterValue)
		if other.Name != apply.Name && ours && !annotations.IsExternallyManaged(other) {
			keys = append(keys, client.ObjectKeyFromObject(other))
		}
	}
	return keys, nil
}

// acted notes what became of an action for which an object took its turn. A Workspace that was not written leaves the turn free,
// but only if that is sure: a request that was not answered may have been carried out.
func (r *Reconciler) acted(apply *infrav1.WorkspaceTemplateApply, f *Facts, action Action, err error) {
	if s, member := seriesOf(apply); member && action.changes() {
		keeps := err == nil && action == Destroy || err != nil && !declined(err) && f.Rejected == ""
		r.rota.note(apply, s, keeps || f.working())
	}
}

// declined tells whether the API server has certainly not done what it was asked for.
func declined(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}
