// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
)

// compare returns what the manager would do with the Workspace of a unit. What the user may not read is a result, because the user may read the
// rest.
func (s *source) compare(ctx context.Context, u *unit) (Workspace, error) {
	w, err := s.compareReadable(ctx, u)
	if apierrors.IsForbidden(err) {
		w.Action, w.Message, err = ActionUnreadable, err.Error(), nil
	}
	return w, err
}

func (s *source) compareReadable(ctx context.Context, u *unit) (Workspace, error) {
	apply := u.apply()
	w := Workspace{
		Name: applies.RecordedWorkspace(apply), Apply: validation.KeyOf(apply).String(), Template: apply.TemplateKey().String(), Action: ActionBlocked,
	}
	if ref := apply.Status.WorkspaceRef; ref != nil {
		w.Namespace = ref.Namespace
	}
	if u.cluster != nil {
		w.Cluster = validation.KeyOf(u.cluster).String()
	}
	if w.Message = u.blockedBy(); w.Message != "" {
		return w, nil
	}
	if u.desired == nil {
		w.destroy(apply)
		return w, nil
	}
	template, err := s.permitted(ctx, apply.TemplateKey(), apply.Namespace)
	if err != nil {
		return w, err
	}
	if template == nil {
		w.Message = fmt.Sprintf("WorkspaceTemplate %s does not exist, or does not allow namespace %s", w.Template, apply.Namespace)
		return w, nil
	}
	scope := template.Spec.WorkspaceScope.OrDefault()
	w.Name, w.Namespace = applies.WorkspaceName(apply, template), map[terraform.Scope]string{terraform.ScopeNamespaced: apply.Namespace}[scope]
	live, err := s.workspace(ctx, scope, apply.Namespace, w.Name)
	if err != nil {
		return w, err
	}
	if w.Message = blockedBy(apply, template, live); w.Message == "" {
		err = w.render(apply, template, live)
	}
	if w.changes() {
		w.Message = cmp.Or(u.postponedBy(template, w.revision), w.Message)
	}
	return w, err
}

// postponedBy returns when the manager writes a change of a unit; empty if it does so at once.
func (u *unit) postponedBy(template *infrav1.WorkspaceTemplate, content string) string {
	revision, policy, status := rollout.HashOf(template), template.RolloutPolicy(), u.apply().Status
	switch {
	case isPaused(u):
		return "written when it is no longer paused"
	case policy.IsStaged() && !terraform.IsRecordedAs(revision, rollout.AssignedTo(u.apply())):
		return "written when the rollout of the template assigns revision " + terraform.ShortRevision(revision)
	case policy.HoldsChanges() && status.WorkspaceRef != nil && rollout.SpecHash(u.apply()) != status.WrittenSpec && u.apply().Annotations[naming.ApproveAnnotation] != content:
		return "written as the rollout policy of the template allows: after its preview, or when content " + content + " is approved"
	}
	return ""
}

// destroy is what happens to the Workspace of a Fargate profile that spec no longer has.
func (w *Workspace) destroy(apply *infrav1.WorkspaceTemplateApply) {
	w.Action, w.Message = ActionDestroy, "spec of the CAPTControlPlane no longer has the Fargate profile"
	if apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain {
		w.Action, w.Message = ActionBlocked, w.Message+"; deletionPolicy is Retain, so the Workspace and its resources are kept"
	}
}

// blockedBy returns why the manager writes nothing for a unit; empty if it does.
func (u *unit) blockedBy() string {
	switch {
	case u.blocked != "":
		return u.blocked
	case u.live != nil && !u.live.DeletionTimestamp.IsZero():
		return "WorkspaceTemplateApply " + u.live.Name + " is being deleted"
	case legacy.UnadoptedWorkspace(u.apply()) != "":
		return notAdopted
	}
	return ""
}

// blockedBy returns why the manager does not write a Workspace, which may not exist; empty if it writes it.
func blockedBy(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate, live *unstructured.Unstructured) string {
	ref, kind := apply.Status.WorkspaceRef, template.Spec.WorkspaceScope.GroupVersionKind()
	if ref != nil && ref.APIVersion != kind.GroupVersion().String() {
		return fmt.Sprintf("the Workspace has another scope than the template (%s)", template.Spec.WorkspaceScope.OrDefault())
	}
	switch {
	case live != nil && live.GetDeletionTimestamp() != nil:
		return "the Workspace is being deleted"
	case live != nil:
		return ""
	case ref != nil && apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain:
		return "the Workspace does not exist, and is not recreated because deletionPolicy is Retain"
	case applies.IsStateUnknown(apply, template):
		return "the Workspace in spec.workspaceName does not exist, and is not created because its Terraform state is not known"
	}
	return ""
}

// render renders the Workspace and compares it with the live one, as the controller does.
func (w *Workspace) render(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate, live *unstructured.Unstructured) error {
	in := render.Input{Apply: apply, Template: template, Name: w.Name}
	if live != nil && render.IsRecorded(live, apply) {
		var err error
		if in.Recorded, err = render.SpecOf(live); err != nil {
			return err
		}
	}
	rendered, errs := render.Workspace(in)
	if len(errs) > 0 {
		w.Action, w.Message = ActionInvalid, ""
		for _, err := range errs {
			w.Message += map[bool]string{false: "; "}[w.Message == ""] + err.Field + ": " + err.Detail
		}
		return nil
	}
	w.revision = rendered.Revision
	if live == nil {
		w.Action, w.Changes = ActionCreate, rendered.Content()
		return nil
	}
	if render.OwnerOf(live, apply, rendered) != render.Owned {
		w.Message = "the Workspace does not belong to the WorkspaceTemplateApply; see the conditions of the WorkspaceTemplateApply"
		return nil
	}
	if w.Changes = rendered.Changes(live); len(w.Changes) == 0 {
		w.Action = ActionNone
		return nil
	}
	w.Action = ActionUpdate
	if config := rendered.ProviderConfig(); config != render.ProviderConfigOf(live) && config != apply.Annotations[naming.AllowProviderConfigAnnotation] {
		w.Action, w.Message = ActionBlocked, fmt.Sprintf("the ProviderConfig would change to %s, which annotation %s of the WorkspaceTemplateApply does not allow", config, naming.AllowProviderConfigAnnotation)
	}
	return nil
}

// isPaused reports whether the Cluster, an owner or the WorkspaceTemplateApply is paused.
func isPaused(u *unit) bool {
	objects := []client.Object{u.apply()}
	for _, owner := range u.owners {
		objects = append(objects, owner.(client.Object))
	}
	if u.cluster != nil && (ptr.Deref(u.cluster.Spec.Paused, false) || annotations.HasPaused(u.cluster)) {
		return true
	}
	for _, object := range objects {
		if _, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]; paused {
			return true
		}
	}
	return false
}
