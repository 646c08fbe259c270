// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// refusedInterval is how often a Workspace that the API server refused is sent again although nothing has changed: the CRD,
// or an admission rule of the cluster, may have.
const refusedInterval = 10 * time.Minute

// recollection is what this process remembers about WorkspaceTemplateApplies. Nothing is lost with it: what it holds back is
// told or tried once more after a restart.
type recollection struct {
	unclaimed sync.Map // client.ObjectKey to sighting
	refused   sync.Map // client.ObjectKey to refusal
	told      sync.Map // client.ObjectKey to told
}

// sighting is when a Workspace was first seen.
type sighting struct {
	workspace types.UID
	at        time.Time
}

// refusal is what the API server refused, and why.
type refusal struct {
	revision  string
	workspace types.UID
	// generation of the Workspace that was to be changed.
	generation int64
	why        string
	at         time.Time
}

// told is an error in words.
type told struct {
	// hash of the error.
	hash string
	failure.Told
}

// tell puts the error that a Workspace shows into words. While it shows the same, the words stay: the Secrets that it quotes may
// have been changed since, and their old values could not be recognised.
func (r *Reconciler) tell(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, live *workspace.Live) failure.Told {
	key := client.ObjectKeyFromObject(apply)
	now := told{hash: live.ErrorHash()}
	if now.hash == "" {
		r.told.Delete(key)
		return failure.Told{}
	}
	if before, ok := r.told.Load(key); ok && before.(told).hash == now.hash {
		return before.(told).Told
	}
	words, complete := r.Workspaces.Tell(ctx, live)
	if now.Told = words; complete {
		r.told.Store(key, now)
	}
	return words
}

// watched is for how long this process has seen a Workspace without a sign of the provider.
func (r *recollection) watched(apply *infrav1.WorkspaceTemplateApply, f *Facts) time.Duration {
	key := client.ObjectKeyFromObject(apply)
	if f.Live == nil || !f.Live.Unclaimed() {
		r.unclaimed.Delete(key)
		return 0
	}
	now := sighting{workspace: f.Live.UID(), at: f.Now}
	first, _ := r.unclaimed.LoadOrStore(key, now)
	if first.(sighting).workspace != now.workspace {
		r.unclaimed.Store(key, now)
		return 0
	}
	return f.Now.Sub(first.(sighting).at)
}

// refuse records that the API server refused what was rendered, and reports whether that is new: the same was not refused
// before.
func (r *recollection) refuse(apply *infrav1.WorkspaceTemplateApply, f *Facts, why string) bool {
	now := f.refusal(why)
	before, ok := r.refused.Swap(client.ObjectKeyFromObject(apply), now)
	return !ok || !before.(refusal).same(now)
}

// recall returns why the API server refused the same before; empty when it did not, or that is long ago.
func (r *recollection) recall(apply *infrav1.WorkspaceTemplateApply, f *Facts) (why string, left time.Duration) {
	key := client.ObjectKeyFromObject(apply)
	found, ok := r.refused.Load(key)
	if !ok {
		return "", 0
	}
	before := found.(refusal)
	if f.Rendered == nil || !f.refusal(before.why).same(before) {
		r.refused.Delete(key)
		return "", 0
	}
	if left = before.at.Add(refusedInterval).Sub(f.Now); left <= 0 {
		return "", 0 // It is sent again; what was refused stays known, so that the same is not logged as new.
	}
	return before.why, left
}

// same tells whether two refusals are of the same, whenever that was.
func (r refusal) same(other refusal) bool {
	r.at = other.at
	return r == other
}

func (f *Facts) refusal(why string) refusal {
	refused := refusal{why: why, at: f.Now}
	if f.Rendered != nil {
		refused.revision = f.Rendered.Revision
	}
	if f.Live != nil {
		refused.workspace, refused.generation = f.Live.UID(), f.Live.Generation()
	}
	return refused
}

// gone drops what is known of an object that no longer exists.
func (r *Reconciler) gone(key client.ObjectKey) {
	r.forget(key)
	r.rota.forget(key)
	r.Turns.giveUp(key, r.Clock.Now())
}

func (r *recollection) forget(key client.ObjectKey) {
	r.told.Delete(key)
	r.unclaimed.Delete(key)
	r.refused.Delete(key)
}
