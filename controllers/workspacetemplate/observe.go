// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/controllers/engine"
)

// Facts are what a reconcile observed.
type Facts struct {
	// Users are the WorkspaceTemplateApplies that refer to the template and block its deletion, as namespace/name, sorted.
	Users []string
	// Revision is the current one. Outdated are the users for which Terraform last applied another one; Failing are those of them for which it fails
	// now. Both are sorted. A new user without a Workspace is neither.
	Revision          string
	Outdated, Failing []string
	// Staged has the facts of a staged rollout; nil without one.
	Staged *stagedFacts
	// Assigned are the users to which a staged rollout assigned a revision, without those that are paused or being deleted.
	Assigned []types.NamespacedName
	// Errors of the template.
	Errors field.ErrorList
	// Policy is spec.rollout or, without it, the default of the manager.
	Policy infrav1.WorkspaceTemplateRollout
	// AwaitsAdoption is true while CAPT v0.3 wrote the template last.
	AwaitsAdoption bool
}

func (r *Reconciler) observe(ctx context.Context, template *infrav1.WorkspaceTemplate) (*Facts, error) {
	var users infrav1.WorkspaceTemplateApplyList
	key := client.ObjectKeyFromObject(template).String()
	// They are not changed, so the cache need not copy them.
	if err := r.Client.List(ctx, &users, client.MatchingFields{UserIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies of the template: %w", err)
	}
	f := &Facts{
		Errors: templates.ValidateWorkspaceTemplate(template).Errors, Revision: rollout.HashOf(template), Policy: template.RolloutPolicyOr(r.DefaultRollout),
	}
	var permitted []*infrav1.WorkspaceTemplateApply
	for i := range users.Items {
		blocks, err := r.blocksDeletion(ctx, template, &users.Items[i])
		if err != nil {
			return nil, err
		}
		if blocks {
			f.Users = append(f.Users, client.ObjectKeyFromObject(&users.Items[i]).String())
			f.observeRevision(&users.Items[i])
			permitted = append(permitted, &users.Items[i])
		}
	}
	f.AwaitsAdoption = awaitsAdoption(template, permitted)
	if err := r.observeRollout(ctx, template, permitted, f); err != nil {
		return nil, err
	}
	for _, names := range [][]string{f.Users, f.Outdated, f.Failing} { // Lists from the cache are unordered.
		slices.Sort(names)
	}
	return f, nil
}

// observeRevision observes which revision of the template a user has.
func (f *Facts) observeRevision(user *infrav1.WorkspaceTemplateApply) {
	name := client.ObjectKeyFromObject(user).String()
	switch has := user.Status.TemplateRevision; {
	case has == "" || terraform.IsRecordedAs(f.Revision, has) || !user.DeletionTimestamp.IsZero():
	case user.Status.LastFailedRevision != "":
		f.Failing = append(f.Failing, name)
	default:
		f.Outdated = append(f.Outdated, name)
	}
}

// blocksDeletion reports whether a user blocks the deletion of the template: one that may use it, or whose Workspace awaits adoption, as status
// records: users of any namespace can set the marks of such an object. The adoption writes the permission before it requests a proof.
func (r *Reconciler) blocksDeletion(ctx context.Context, template *infrav1.WorkspaceTemplate, user *infrav1.WorkspaceTemplateApply) (bool, error) {
	if legacy.UnadoptedWorkspace(user) != "" && !legacy.AwaitsProof(user) && legacy.RecordsWorkspace(user) {
		return true, nil
	}
	permitted, err := validation.PermitsNamespace(template, user.Namespace, func() (labels.Set, error) {
		return engine.NamespaceLabels(ctx, r.Client, user.Namespace)
	})
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", user.Namespace, err)
	}
	return permitted, nil
}

// awaitsAdoption reports whether a template must stay as CAPT v0.3 wrote it, with its finalizer: while a user awaits adoption, or none was
// adopted.
func awaitsAdoption(template *infrav1.WorkspaceTemplate, users []*infrav1.WorkspaceTemplateApply) bool {
	if !controllerutil.ContainsFinalizer(template, infrav1.LegacyWorkspaceTemplateFinalizer) ||
		controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer) || !template.DeletionTimestamp.IsZero() {
		return false
	}
	return len(users) == 0 || slices.ContainsFunc(users, func(user *infrav1.WorkspaceTemplateApply) bool { return legacy.UnadoptedWorkspace(user) != "" })
}
