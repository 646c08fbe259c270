// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspace/render"
)

func (r *Reconciler) observe(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*Facts, error) {
	cluster, err := engine.LabelledCluster(ctx, r.Client, r.Uncached, apply.ObjectMeta)
	if err != nil && !errors.Is(err, util.ErrNoCluster) && !engine.Absent(err) {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	byOwner, err := r.pausedByOwner(ctx, apply)
	if err != nil {
		return nil, err
	}
	f := &Facts{
		Now: r.Clock.Now(), Paused: cmp.Or(engine.Paused(cluster, apply), byOwner), Unadopted: adoption.Unadopted(apply),
		Frozen:     frozen(cluster, apply),
		Retained:   retained(apply),
		Generation: apply.Generation, WrittenGeneration: apply.Status.WrittenGeneration, LastUpdate: apply.Status.LastUpdate,
	}
	r.observeTemplate(ctx, apply, f)
	if f.RetainConflict, err = r.retainConflict(ctx, apply); err != nil {
		return nil, err
	}
	if err := r.observeWorkspace(ctx, apply, f); err != nil {
		return nil, err
	}
	if err := r.observeOwners(ctx, apply, f); err != nil {
		return nil, err
	}
	f.TemplateLeaves = f.Template != nil && !f.Template.DeletionTimestamp.IsZero() && f.Live == nil && apply.Status.WorkspaceRef == nil
	if err := r.observeMove(ctx, apply, f); err != nil {
		return nil, err
	}
	f.Rejected, f.RejectedFor = r.recall(apply, f)
	return f, nil
}

// observeTemplate renders the template, and looks for what has to be there before.
func (r *Reconciler) observeTemplate(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	f.TemplateKey = apply.TemplateKey()
	f.Template, f.Unreadable = r.template(ctx, apply)
	f.Name = applies.WorkspaceName(apply, f.Template)
	if f.Template != nil {
		f.Rendered, f.RenderErrors = render.Workspace(r.input(apply, f))
	}
	if apply.DeletionTimestamp.IsZero() { // Nothing is waited for any more.
		missing, err := r.missing(ctx, apply, f.Now)
		f.Missing, f.Unreadable = missing, errors.Join(f.Unreadable, err)
	}
}

func (r *Reconciler) input(apply *infrav1.WorkspaceTemplateApply, f *Facts) render.Input {
	return render.Input{Apply: apply, Template: f.Template, Name: f.Name, ExternalName: recordedExternalName(apply), StatePrefix: r.StatePrefix}
}

// forgotten is the state that an object without status remembers, when a new Workspace would not get it. That of an adopted
// Workspace is called otherwise than the scheme says; after a restore or a move without the Workspace, it is all that is left.
func forgotten(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	remembered := apply.Annotations[naming.ExternalNameAnnotation]
	if apply.Status.WorkspaceRef != nil || f.Rendered == nil || remembered == f.externalName() {
		return ""
	}
	return remembered
}

// recordedExternalName is the state that status records. An adopted Workspace without an external name of its own has the state
// that provider-terraform names like the Workspace.
func recordedExternalName(apply *infrav1.WorkspaceTemplateApply) string {
	ref := apply.Status.WorkspaceRef
	switch {
	case ref == nil:
		return ""
	case ref.ExternalName == "" && ref.Namespace == "" && ref.Name != naming.Workspace(terraform.ScopeCluster, client.ObjectKeyFromObject(apply)):
		return ref.Name
	}
	return ref.ExternalName
}

func (r *Reconciler) observeWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	f.Live, err = r.findWorkspace(ctx, apply, f)
	if errors.Is(err, workspace.ErrKindMissing) {
		f.kindMissing(err)
		return nil
	}
	if err != nil {
		return err
	}
	if !apply.DeletionTimestamp.IsZero() {
		if f.Dependents, err = r.dependentsOf(ctx, apply); err != nil {
			return err
		}
	}
	if f.Rival, err = r.rival(ctx, apply, f); err != nil {
		return err
	}
	f.Watched = r.watched(apply, f)
	if f.Live == nil {
		f.GoneForGood = apply.Status.WorkspaceRef != nil && retained(apply)
		f.Forgotten = forgotten(apply, f)
		f.StateUnknown = applies.StateUnknown(apply, f.Template)
		f.Unadopted, err = r.leftByOlderCAPT(ctx, apply, f)
		return err
	}
	r.observeLive(ctx, apply, f)
	return nil
}

func (r *Reconciler) observeLive(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	r.renderAdopted(apply, f)
	f.OtherScope = f.Template != nil && f.Live.Scope() != f.Template.Spec.WorkspaceScope.OrDefault()
	rendered := f.Rendered
	if f.Rival != "" {
		rendered = nil // A Workspace that both would render the same is the older one's.
	}
	f.Ownership = f.Live.Owner(apply, rendered)
	if !apply.DeletionTimestamp.IsZero() && f.Ownership == workspace.Foreign && f.Rival == "" && !f.Live.Claimed() && adoption.LegacyFinalizer(apply) {
		f.Unadopted = f.Name // spec.workspaceName was set by hand: releasing it would leave the Workspace behind.
	}
	f.ProviderConfig = f.otherProviderConfig(apply.Annotations[naming.AllowProviderConfigAnnotation])
	if f.owned() {
		f.Told = r.tell(ctx, apply, f.Live)
	}
}

// renderAdopted renders once more what cannot be rendered without looking at the Workspace: an adopted one keeps the references to
// other namespaces that it has.
func (r *Reconciler) renderAdopted(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	if len(f.RenderErrors) == 0 || !f.Live.RecordedFor(apply) {
		return
	}
	again := r.input(apply, f)
	again.Recorded = f.Live.Spec()
	f.Rendered, f.RenderErrors = render.Workspace(again)
}

// leftByOlderCAPT is the Workspace that CAPT v0.3 created. It also finds that of a WorkspaceTemplateApply that was restored from Git or
// a backup, without what CAPT v0.3 had recorded: one with the name that CAPT v0.3 gave, without a claim, and of no other
// WorkspaceTemplateApply.
func (r *Reconciler) leftByOlderCAPT(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	if f.Unadopted != "" || apply.Spec.WorkspaceName != "" || !f.clusterWide() {
		return f.Unadopted, nil
	}
	name := naming.LegacyWorkspace(apply.Name)
	live, err := r.Workspaces.Get(ctx, terraform.ScopeCluster, "", name)
	if errors.Is(err, workspace.ErrKindMissing) || (err == nil && (live == nil || live.Claimed())) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if others, err := r.haveWorkspace(ctx, apply, name); err != nil || others {
		return "", err
	}
	return name, nil
}

// haveWorkspace reports whether a Workspace without a claim belongs to another WorkspaceTemplateApply, adopted or not.
func (r *Reconciler) haveWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, name string) (bool, error) {
	for _, index := range []string{workspaceNameIndex, legacyNameIndex} {
		var others infrav1.WorkspaceTemplateApplyList
		if err := r.Client.List(ctx, &others, client.MatchingFields{index: name}); err != nil {
			return false, fmt.Errorf("listing WorkspaceTemplateApplies of Workspace %s: %w", name, err)
		}
		if slices.ContainsFunc(others.Items, func(other infrav1.WorkspaceTemplateApply) bool {
			self := other.Namespace == apply.Namespace && other.Name == apply.Name
			return !self && (other.Spec.WorkspaceName == name || adoption.Unadopted(&other) == name)
		}) {
			return true, nil
		}
	}
	return false, nil
}

// findWorkspace looks where the template says, but where status says when that is elsewhere, and without a template. Whether
// the object may be moved is decided on a look past the cache.
func (r *Reconciler) findWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (*workspace.Live, error) {
	if f.Template == nil || !apply.DeletionTimestamp.IsZero() || recordedElsewhere(apply, f.Template.Spec.WorkspaceScope) || f.asked(apply) {
		return r.Workspaces.Recorded(ctx, apply, f.Rendered)
	}
	live, err := r.Workspaces.Get(ctx, f.Template.Spec.WorkspaceScope, apply.Namespace, f.Name)
	gone := retained(apply) && apply.Status.WorkspaceRef != nil || forgotten(apply, f) != "" || applies.StateUnknown(apply, f.Template)
	if live == nil && err == nil && gone { // Before that is told, a look past the cache, and in the other scope.
		return r.Workspaces.Recorded(ctx, apply, f.Rendered)
	}
	return live, err
}

func retained(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain
}

// kindMissing notes that the kind of the Workspace is not there.
func (f *Facts) kindMissing(err error) {
	f.KindMissing, f.KindNotServed, f.KindScope = true, errors.Is(err, workspace.ErrKindNotServed), terraform.ScopeNamespaced
	if f.Template != nil {
		f.KindScope = f.Template.Spec.WorkspaceScope.OrDefault()
	}
}

// recordedElsewhere tells whether the Workspace is known to be of another scope. It is not looked for in the new one then,
// since a second Workspace with the same state would be made there, and the first forgotten.
func recordedElsewhere(apply *infrav1.WorkspaceTemplateApply, scope terraform.Scope) bool {
	ref := apply.Status.WorkspaceRef
	return ref != nil && ref.APIVersion != scope.GroupVersionKind().GroupVersion().String()
}

// retainConflict reports why an object that is being deleted must not be, although its Workspace is retained.
func (r *Reconciler) retainConflict(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	if apply.DeletionTimestamp.IsZero() || !retained(apply) {
		return "", nil
	}
	var others []infrav1.WorkspaceTemplateApply
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		var list infrav1.WorkspaceTemplateApplyList
		if err := r.Client.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingFields{workspaceNameIndex: dependency.Name}); err != nil {
			return "", fmt.Errorf("listing WorkspaceTemplateApplies of Workspace %s: %w", dependency.Name, err)
		}
		others = append(others, list.Items...)
	}
	return applies.RetainConflict(apply, others), nil
}

// dependentsOf lists those whose Workspaces were made on top of this one, and are still there. The garbage collector and the
// namespace controller delete everything at once; the order is kept here. Those of other namespaces do not count: nobody may
// keep another namespace from deleting what it has.
func (r *Reconciler) dependentsOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) ([]string, error) {
	if apply.Spec.WorkspaceName == "" {
		return nil, nil
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(apply.Namespace), client.MatchingFields{waitForWorkspaceIndex: apply.Namespace + "/" + apply.Spec.WorkspaceName}); err != nil {
		return nil, fmt.Errorf("listing the dependents of Workspace %s: %w", apply.Spec.WorkspaceName, err)
	}
	var names []string
	for i := range list.Items {
		dependent := &list.Items[i]
		if dependent.UID != apply.UID && (dependent.Status.WorkspaceRef != nil || leavesSoon(dependent)) {
			names = append(names, dependent.Name)
		}
	}
	slices.Sort(names) // The cache lists in any order, and another order would be another message.
	return names, nil
}

// leavesSoon tells whether a WorkspaceTemplateApply is being deleted and may have a Workspace that status does not tell of: it
// was deleted in the moment in which that was made. Its finalizer is put on before, and goes when that is found out.
func leavesSoon(apply *infrav1.WorkspaceTemplateApply) bool {
	return !apply.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(apply, infrav1.WorkspaceTemplateApplyFinalizer)
}

// rival returns another WorkspaceTemplateApply that names the same Workspace and is older. The older one wins, so that of
// two that were admitted at the same time exactly one goes on. Cluster-wide Workspaces have rivals in every namespace.
func (r *Reconciler) rival(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (string, error) {
	if f.Name == "" || (f.Live != nil && f.Live.ClaimedBy(apply)) {
		return "", nil // Made for this one: nobody else can have a better claim.
	}
	// Most names are unique in their namespace only: with namespaced Workspaces, each of a fleet would look at all others.
	options := []client.ListOption{client.MatchingFields{workspaceNameIndex: f.Name}, client.UnsafeDisableDeepCopy}
	if !f.clusterWide() {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	var others infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &others, options...); err != nil {
		return "", fmt.Errorf("listing WorkspaceTemplateApplies of Workspace %s: %w", f.Name, err)
	}
	for i := range others.Items {
		other := &others.Items[i]
		if other.UID == apply.UID || !older(other, apply) {
			continue
		}
		if other.Namespace == apply.Namespace {
			return "WorkspaceTemplateApply " + other.Name, nil
		}
		if claimsClusterWide(other, apply, f.Name) {
			return "a WorkspaceTemplateApply of another namespace", nil // Whose, is not for everybody to know.
		}
	}
	return "", nil
}

// claimsClusterWide tells whether a WorkspaceTemplateApply of another namespace has, or may come to have, a cluster-wide
// Workspace. That it names what the scheme gives to this one is no claim.
func claimsClusterWide(other, apply *infrav1.WorkspaceTemplateApply, name string) bool {
	if other.Status.WorkspaceRef == nil {
		return name != naming.Workspace(terraform.ScopeCluster, client.ObjectKeyFromObject(apply))
	}
	return !namespaced(other)
}

// clusterWide tells whether the Workspace is, or would be, one without a namespace.
func (f *Facts) clusterWide() bool {
	if f.Live != nil {
		return f.Live.Reference().Namespace == ""
	}
	return f.Template != nil && f.Template.Spec.WorkspaceScope == terraform.ScopeCluster
}

// namespaced tells whether a WorkspaceTemplateApply is known to have a Workspace within its namespace.
func namespaced(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.Namespace != ""
}

func older(a, b *infrav1.WorkspaceTemplateApply) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	return a.Name < b.Name
}
