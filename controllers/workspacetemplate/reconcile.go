// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/controllers/engine"
)

// namedUsers limits how many users a message names.
const namedUsers = 5

// Facts are what a reconcile observed.
type Facts struct {
	// Users are the WorkspaceTemplateApplies that refer to the template, as namespace/name, sorted.
	Users []string
	// Errors of the template.
	Errors field.ErrorList
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
	f := &Facts{Errors: templates.ValidateWorkspaceTemplate(template).Errors}
	for i := range users.Items {
		namespace := users.Items[i].Namespace
		// Users without permission do not block the deletion. For those of CAPT v0.3, the permission is written by the adoption.
		if adoption.UnadoptedWorkspace(&users.Items[i]) != "" {
			f.Users = append(f.Users, client.ObjectKeyFromObject(&users.Items[i]).String())
			continue
		}
		permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
			return engine.NamespaceLabels(ctx, r.Client, namespace)
		})
		if err != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		if !permitted {
			continue
		}
		f.Users = append(f.Users, client.ObjectKeyFromObject(&users.Items[i]).String())
	}
	slices.Sort(f.Users)
	f.AwaitsAdoption = awaitsAdoption(template, users.Items)
	return f, nil
}

// awaitsAdoption reports whether a template must stay as CAPT v0.3 wrote it, with its finalizer: while a user awaits adoption, or none was
// adopted.
func awaitsAdoption(template *infrav1.WorkspaceTemplate, users []infrav1.WorkspaceTemplateApply) bool {
	legacy := controllerutil.ContainsFinalizer(template, infrav1.LegacyWorkspaceTemplateFinalizer)
	if !legacy || controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer) || !template.DeletionTimestamp.IsZero() {
		return false
	}
	for i := range users {
		if adoption.UnadoptedWorkspace(&users[i]) != "" {
			return true
		}
	}
	return len(users) == 0
}

// Action is what a reconcile does.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Hold: add the finalizer before the template can be used.
	Hold Action = "Hold"
	// Release: remove the finalizer.
	Release Action = "Release"
)

// decide returns what to do. It is pure.
func decide(template *infrav1.WorkspaceTemplate, f *Facts) Action {
	switch {
	case f.AwaitsAdoption:
		return Observe
	case template.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer):
		return Hold
	case !template.DeletionTimestamp.IsZero() && len(f.Users) == 0:
		return Release
	}
	return Observe
}

func (r *Reconciler) act(ctx context.Context, template *infrav1.WorkspaceTemplate, _ *Facts, action Action) error {
	return engine.Patch(ctx, r.Client, template, func() {
		switch action {
		case Hold:
			controllerutil.AddFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			controllerutil.RemoveFinalizer(template, infrav1.LegacyWorkspaceTemplateFinalizer)
		case Release:
			controllerutil.RemoveFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			controllerutil.RemoveFinalizer(template, infrav1.LegacyWorkspaceTemplateFinalizer)
		case Observe:
		}
	})
}

// status computes the status from the facts.
func status(template *infrav1.WorkspaceTemplate, f *Facts) {
	if s := &template.Status; !f.AwaitsAdoption {
		s.ObservedGeneration = template.Generation
		s.Users = ptr.To(int32(len(f.Users))) //nolint:gosec // No cluster holds 2^31 objects.
		s.Revision = revision(template)
	}
	engine.Set(template, valid(f), inUse(f), deleting(template, f))
}

// revision is a hash of the template of Workspaces: 12 hexadecimal digits.
func revision(template *infrav1.WorkspaceTemplate) string {
	revision, err := terraform.Revision([]any{template.Spec.WorkspaceScope.OrDefault(), template.Spec.Template.Spec})
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return revision
}

func valid(f *Facts) engine.Condition {
	if len(f.Errors) > 0 {
		return engine.False(infrav1.ValidCondition, infrav1.TemplateInvalidReason, f.Errors.ToAggregate().Error())
	}
	return engine.True(infrav1.ValidCondition, infrav1.ValidReason, "")
}

func inUse(f *Facts) engine.Condition {
	if len(f.Users) == 0 {
		return engine.False(infrav1.InUseCondition, infrav1.NotUsedReason, "")
	}
	return engine.True(infrav1.InUseCondition, infrav1.UsedReason, "used by "+names(f.Users))
}

func deleting(template *infrav1.WorkspaceTemplate, f *Facts) engine.Condition {
	switch {
	case template.DeletionTimestamp.IsZero():
		return engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, "")
	case len(f.Users) > 0:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForUsersReason,
			"waiting for the deletion of WorkspaceTemplateApplies that use the template: "+names(f.Users))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

func names(users []string) string {
	if len(users) <= namedUsers {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(users[:namedUsers], ", "), len(users)-namedUsers)
}

// warning reports whether a transition needs a user.
func warning(condition metav1.Condition) bool {
	return condition.Reason == infrav1.TemplateInvalidReason
}
