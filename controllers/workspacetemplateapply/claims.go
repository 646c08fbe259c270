// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
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
	for i := range others {
		other := &others[i]
		if other.UID == apply.UID || !engine.Older(other, apply) || f.recordOutweighs(apply, other) {
			continue
		}
		if other.Namespace == apply.Namespace {
			return "WorkspaceTemplateApply " + other.Name, nil
		}
		if claimsClusterWide(other, f.Name) {
			return "a WorkspaceTemplateApply of another namespace", nil // Its name is not disclosed.
		}
	}
	return "", nil
}

// recordOutweighs reports whether status of an object records the Workspace, and that of another one does not.
func (f *Facts) recordOutweighs(apply, other *infrav1.WorkspaceTemplateApply) bool {
	return f.Live != nil && f.Live.RecordedFor(apply) && !f.Live.RecordedFor(other)
}

// claimsClusterWide reports whether a WorkspaceTemplateApply of another namespace has, or may create, a cluster-wide Workspace. Its user can write any
// name into spec, which is not a claim.
func claimsClusterWide(other *infrav1.WorkspaceTemplateApply, name string) bool {
	mayCreate := other.Status.WorkspaceRef == nil && name == naming.Workspace(terraform.ScopeCluster, client.ObjectKeyFromObject(other))
	return mayCreate || claim.RecordedWorkspace(other) == types.NamespacedName{Name: name}
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
