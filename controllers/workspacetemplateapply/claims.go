// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
)

// olderClaim returns an older WorkspaceTemplateApply with the same Workspace. The oldest wins, so that exactly one of two objects that
// were admitted concurrently continues. Objects of all namespaces can have the same cluster-wide Workspace. A record in status, which users cannot
// write, outweighs a name in spec, which they can.
func (r *Reconciler) olderClaim(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	if f.Name == "" || (f.Live != nil && f.Live.ClaimedBy(apply)) {
		return "", nil
	}
	// Without the namespace, each object of a fleet with namespaced Workspaces would read all others of its name.
	options := []client.ListOption{client.MatchingFields{index.WorkspaceName: f.Name}}
	if !f.clusterWide() {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	others, err := r.list(ctx, options...)
	if err != nil {
		return "", err
	}
	return f.desired().ClaimOf(others), nil
}

func hasNamespacedWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.Namespace != ""
}

// dismissRevision lets an object that never had a Workspace wait for its revision, unless the one in spec was rolled out or approved: only such a revision is
// assigned to new objects, and a user could have written another one.
func (r *Reconciler) dismissRevision(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if f.Current == nil || !f.hasRevision() || apply.Status.WorkspaceRef != nil || !apply.DeletionTimestamp.IsZero() {
		return nil
	}
	uncached := workspacetemplate.Lookup{Cached: r.Uncached, Uncached: r.Uncached} // The record may be newer than the cache.
	object, err := uncached.Revisions(ctx).First(rollout.StoredAs(f.TemplateKey, f.Revision)...)
	if err != nil {
		return err
	}
	if object != nil {
		if stored, err := rollout.Parse(object); err == nil && stored.Hash == f.Revision && (stored.RolledOut || stored.Approval != rollout.Approval{}) {
			return nil
		}
	}
	f.Revision, f.Rendered, f.RenderErrors = "", nil, nil
	return nil
}
