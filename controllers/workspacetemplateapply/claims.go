// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
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

// unadopted is the Workspace that CAPT v0.3 created for the object. For an object that was restored from Git or a backup, without the
// status of CAPT v0.3, it is the one with the name that CAPT v0.3 gave, without a claim and without another WorkspaceTemplateApply.
func (r *Reconciler) unadopted(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	if f.Unadopted != "" || apply.Spec.WorkspaceName != "" || !f.clusterWide() {
		return f.Unadopted, nil
	}
	name := naming.LegacyWorkspace(apply.Name)
	live, err := r.Workspaces.Get(ctx, terraform.ScopeCluster, "", name)
	switch {
	case errors.Is(err, workspace.ErrKindMissing):
		return "", nil
	case err != nil || live == nil || live.Claimed(), live.IsPreview():
		return "", err
	}
	if taken, err := r.belongsToAnother(ctx, apply, name); err != nil || taken {
		return "", err
	}
	return name, nil
}

// observeAdopter finds out that the Workspace which CAPT v0.3 shared between objects of equal names was adopted for another one. Status, which
// users cannot write, records that.
func (r *Reconciler) observeAdopter(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) error {
	if f.Unadopted == "" || legacy.AwaitsProof(apply) {
		return nil
	}
	others, err := r.list(ctx, client.MatchingFields{index.WorkspaceName: f.Unadopted})
	if err != nil {
		return err
	}
	for i := range others {
		other, ref := &others[i], others[i].Status.WorkspaceRef
		if other.UID == apply.UID || ref == nil || ref.Namespace != "" || ref.Name != f.Unadopted {
			continue
		}
		if f.AdoptedFor = "an object of another namespace"; other.Namespace == apply.Namespace { // Its name is not disclosed.
			f.AdoptedFor = "WorkspaceTemplateApply " + other.Name
			break // The order of the cache must not decide.
		}
	}
	if f.AdoptedFor != "" {
		scope := terraform.ScopeCluster
		if f.Template != nil {
			scope = f.Template.Spec.WorkspaceScope
		}
		f.BuildCommand = fmt.Sprintf(`kubectl -n %s patch workspacetemplateapply %s --type=merge -p '{"spec":{"workspaceName":%q}}'`,
			apply.Namespace, apply.Name, naming.Workspace(scope, client.ObjectKeyFromObject(apply)))
	}
	return nil
}

// belongsToAnother reports whether another WorkspaceTemplateApply has, or may adopt, a Workspace without a claim. Of other namespaces, only what status
// records counts: their users could let an object with a name in spec keep this one from its adoption, so that CAPT would create its resources again.
func (r *Reconciler) belongsToAnother(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, name string) (bool, error) {
	for _, field := range []string{index.WorkspaceName, index.DerivedName} {
		others, err := r.list(ctx, client.MatchingFields{field: name})
		taken := slices.ContainsFunc(others, func(other infrav1.WorkspaceTemplateApply) bool {
			if other.Namespace != apply.Namespace {
				return desired.RecordsClusterWide(&other, name)
			}
			return other.Name != apply.Name && (other.Spec.WorkspaceName == name || legacy.UnadoptedWorkspace(&other) == name)
		})
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
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
