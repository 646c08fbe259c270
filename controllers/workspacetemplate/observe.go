// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
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
	// Block is why the template must not be written; nil if it may be. Finalizers are removed with that of this controller.
	Block      *desired.Blocked
	Finalizers []string
}

func (r *Reconciler) observe(ctx context.Context, template *infrav1.WorkspaceTemplate, v engine.GateDecision) (*Facts, error) {
	var users infrav1.WorkspaceTemplateApplyList
	key := client.ObjectKeyFromObject(template).String()
	// They are not changed, so the cache need not copy them.
	if err := r.Client.List(ctx, &users, client.MatchingFields{UserIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies of the template: %w", err)
	}
	checked := r.check(template)
	f := &Facts{Errors: checked.errors, Revision: checked.revision, Policy: template.RolloutPolicyOr(r.DefaultRollout), Finalizers: v.Finalizers}
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
	if v.BlockFor != nil {
		f.Block = v.BlockFor(permitted)
	}
	if err := r.observeRollout(ctx, template, permitted, f); err != nil {
		return nil, err
	}
	for _, names := range [][]string{f.Users, f.Outdated, f.Failing} { // Lists from the cache are unordered.
		slices.Sort(names)
	}
	return f, nil
}

// checked is what was computed from a generation of a template. Most reconciles are caused by its users.
type checked struct {
	uid      types.UID
	version  int64
	errors   field.ErrorList
	revision string
}

func (r *Reconciler) check(template *infrav1.WorkspaceTemplate) checked {
	c := &engine.StateOf[assignments](r.State, client.ObjectKeyFromObject(template)).checked
	if version := template.Generation; version == 0 || c.version != version || c.uid != template.UID {
		*c = checked{template.UID, version, validation.ValidateWorkspaceTemplate(template).Errors, rollout.HashOf(template)}
	}
	return *c
}

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

// blocksDeletion reports whether a user blocks the deletion of the template: one that may use it, or that has a Workspace which only status records,
// because users can write the rest.
func (r *Reconciler) blocksDeletion(ctx context.Context, template *infrav1.WorkspaceTemplate, user *infrav1.WorkspaceTemplateApply) (bool, error) {
	if user.Spec.WorkspaceName == "" && claim.RecordsWorkspace(user) {
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

// Lookup reads WorkspaceTemplates for the objects that refer to them.
type Lookup struct {
	Cached, Uncached client.Reader
	// Namespace is the only namespace in the cache; empty means all. Templates of other namespaces are read from the API server.
	Namespace string
}

// readerOf returns the reader for templates of a namespace, and for their revisions.
func (l Lookup) readerOf(namespace string) client.Reader {
	if l.Namespace != "" && namespace != l.Namespace {
		return l.Uncached
	}
	return l.Cached
}

// Revisions returns the stored revisions of templates. A revision may be assigned before the cache has it, so it is missing only if the API server does
// not have it.
func (l Lookup) Revisions(ctx context.Context) rollout.Store {
	return rollout.Store{
		First: func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
			for _, uncached := range []bool{false, true} {
				for _, key := range keys {
					reader := l.readerOf(key.Namespace)
					if uncached {
						reader = l.Uncached
					}
					object, err := engine.Get(ctx, reader, key, &appsv1.ControllerRevision{})
					if err != nil {
						return nil, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
					}
					if object != nil {
						return object, nil
					}
				}
			}
			return nil, nil
		},
		All: func(namespace string) ([]appsv1.ControllerRevision, error) {
			return listRevisions(ctx, l.readerOf(namespace), namespace)
		},
	}
}

func listRevisions(ctx context.Context, reader client.Reader, namespace string) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{naming.TemplateRevisionLabel}); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	return list.Items, nil
}

// Permitted returns the WorkspaceTemplate that an object of a namespace refers to, or nil when it does not exist or does not allow the
// namespace. This is also checked at admission, but either object can change afterwards.
func (l Lookup) Permitted(ctx context.Context, key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, error) {
	reader := l.readerOf(key.Namespace)
	template, err := engine.Get(ctx, reader, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return nil, fmt.Errorf("reading WorkspaceTemplate %s: %w", key, err)
	}
	if template == nil {
		return nil, nil
	}
	permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
		return engine.NamespaceLabels(ctx, l.Cached, namespace)
	})
	if err != nil || !permitted {
		return nil, err
	}
	return template, nil
}
