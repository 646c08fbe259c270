// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/adoption"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/schema"
)

// rules are what is checked of one kind.
type rules[T client.Object] struct {
	world validation.World
	// spec is the part of an object that is checked. An update that leaves it alone is always admitted: objects that were
	// stored before a rule existed can be labeled, finalized and deleted.
	spec func(T) any
	// check looks at an object as it is.
	check func(ctx context.Context, world validation.World, object T) (validation.Findings, error)
	// create looks at a new object, besides check; nil when there is nothing that only a new object must not be.
	create func(ctx context.Context, world validation.World, object T) (validation.Findings, error)
	// change looks at what an update changes; nil when every change of a good object to a good one is.
	change func(ctx context.Context, world validation.World, old, object T) (field.ErrorList, error)
	// warn looks at what an update changes and does not refuse it; nil when there is nothing to warn of.
	warn func(ctx context.Context, world validation.World, old, object T) ([]string, error)
	// schema is that of the hub version.
	schema *schema.Schema
}

// ValidateCreate implements admission.Validator.
func (r rules[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	findings, err := r.check(ctx, r.world, object)
	if err != nil {
		return nil, couldNotLook(object, err)
	}
	if r.create != nil {
		more, err := r.create(ctx, r.world, object)
		if err != nil {
			return nil, couldNotLook(object, err)
		}
		findings.Add(more)
	}
	if r.unchecked(ctx) {
		findings.Refuse(r.schema.Validate(ctx, object)...)
	}
	return findings.Warnings, invalid(ctx, object, findings.Errors)
}

// ValidateUpdate implements admission.Validator.
func (r rules[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	if !object.GetDeletionTimestamp().IsZero() || equality.Semantic.DeepEqual(r.spec(old), r.spec(object)) {
		return nil, nil
	}
	findings, err := r.check(ctx, r.world, object)
	if err != nil {
		return nil, couldNotLook(object, err)
	}
	if findings.Errors, err = r.ratchet(ctx, old, findings.Errors); err != nil {
		return nil, couldNotLook(object, err)
	}
	if request, err := admission.RequestFromContext(ctx); err == nil && byMigration(request) {
		findings.Errors = slices.DeleteFunc(findings.Errors, ofMigration)
	}
	if r.change != nil {
		changes, err := r.change(ctx, r.world, old, object)
		if err != nil {
			return nil, couldNotLook(object, err)
		}
		findings.Refuse(changes...)
	}
	if r.warn != nil {
		warnings, err := r.warn(ctx, r.world, old, object)
		if err != nil {
			return nil, couldNotLook(object, err)
		}
		findings.Warnings = append(findings.Warnings, warnings...)
	}
	if r.unchecked(ctx) {
		findings.Refuse(r.schema.ValidateUpdate(ctx, object, old)...)
	}
	return findings.Warnings, invalid(ctx, object, findings.Errors)
}

// ValidateDelete implements admission.Validator. It is never called: an outage of the webhooks must not keep anything from
// being deleted.
func (r rules[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// unchecked reports whether the object came in an older version. The API server holds it to the schema of that version only,
// and stores it in the hub version all the same.
func (r rules[T]) unchecked(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && inOlderVersion(request)
}

// ratchet drops what was wrong before: an object that was stored before a rule existed can be changed elsewhere.
func (r rules[T]) ratchet(ctx context.Context, old T, errs field.ErrorList) (field.ErrorList, error) {
	if len(errs) == 0 {
		return nil, nil
	}
	before, err := r.check(ctx, r.world, old)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return slices.ContainsFunc(before.Errors, func(b *field.Error) bool { return b.Error() == e.Error() })
	}), nil
}

// ofMigration reports whether captctl migrate may do what an error is about. A rollback restores references to templates that do not allow
// the namespace, since CAPT v0.3 never checked that. A pin changes the template of an owner before that of its WorkspaceTemplateApply: the
// other order would let a manager write the old template. In both cases the manager renders and writes nothing.
func ofMigration(err *field.Error) bool {
	return err.Type == field.ErrorTypeForbidden && (slices.Contains([]string{"spec.templateRef", "spec.workspaceTemplateRef", "spec.vpc.template.ref"}, err.Field) ||
		strings.HasSuffix(err.Field, "workspaceTemplateApplyRef.name") && strings.Contains(err.Detail, adoption.TemplateDiffers))
}

// invalid is the answer to a bad object, in the form in which the API server itself refuses one.
func invalid(ctx context.Context, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(apischema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}, object.GetName(), errs)
}

// couldNotLook refuses for now: what could not be read may be what speaks against the object.
func couldNotLook(object client.Object, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("checking %s: %w", object.GetName(), err))
}
