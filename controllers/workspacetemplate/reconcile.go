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

// namedUsers is how many users a message names; the number of the others is told.
const namedUsers = 5

// Facts are everything a decision about a WorkspaceTemplate rests on.
type Facts struct {
	// Users are the WorkspaceTemplateApplies that refer to the template, as namespace/name, sorted.
	Users []string
	// Errors say what is wrong with the template.
	Errors field.ErrorList
	// AwaitsAdoption is true while the template is as CAPT v0.3 left it.
	AwaitsAdoption bool
}

func (r *Reconciler) observe(ctx context.Context, template *infrav1.WorkspaceTemplate) (*Facts, error) {
	var users infrav1.WorkspaceTemplateApplyList
	key := client.ObjectKeyFromObject(template).String()
	// They are only looked at, so the cache need not copy them.
	if err := r.Client.List(ctx, &users, client.MatchingFields{UserIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the users of the template: %w", err)
	}
	f := &Facts{Errors: templates.WorkspaceTemplate(template).Errors}
	for i := range users.Items {
		namespace := users.Items[i].Namespace
		// Those that may not use the template do not hold it. For those of CAPT v0.3, only the adoption writes the permission.
		if adoption.Unadopted(&users.Items[i]) != "" {
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

// awaitsAdoption reports whether a template is left as CAPT v0.3 left it: its finalizer holds the template as well, until a user is
// adopted and none is left to adopt.
func awaitsAdoption(template *infrav1.WorkspaceTemplate, users []infrav1.WorkspaceTemplateApply) bool {
	legacy := controllerutil.ContainsFinalizer(template, infrav1.LegacyWorkspaceTemplateFinalizer)
	if !legacy || controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer) || !template.DeletionTimestamp.IsZero() {
		return false
	}
	for i := range users {
		if adoption.Unadopted(&users[i]) != "" {
			return true
		}
	}
	return len(users) == 0
}

// Action is what to do about a WorkspaceTemplate.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Hold: put the finalizer on, before anybody can come to need the template.
	Hold Action = "Hold"
	// Release: take the finalizer off.
	Release Action = "Release"
)

// decide is pure.
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

func (r *Reconciler) act(ctx context.Context, template *infrav1.WorkspaceTemplate, f *Facts) error {
	return engine.Patch(ctx, r.Client, template, func() {
		switch decide(template, f) {
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

// revision is a hash of what Workspaces are made from: 12 hexadecimal digits.
func revision(template *infrav1.WorkspaceTemplate) string {
	revision, err := terraform.Revision([]any{template.Spec.WorkspaceScope.OrDefault(), template.Spec.Template.Spec})
	if err != nil {
		return "" // What came as JSON can be encoded as JSON.
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
			"the template stays until the last WorkspaceTemplateApply that uses it is gone: "+names(f.Users))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

func names(users []string) string {
	if len(users) <= namedUsers {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(users[:namedUsers], ", "), len(users)-namedUsers)
}

// warning tells which transitions need a person.
func warning(condition metav1.Condition) bool {
	return condition.Reason == infrav1.TemplateInvalidReason
}
