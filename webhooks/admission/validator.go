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
	"github.com/capt-provider/capt/api/validation/rules"
	"github.com/capt-provider/capt/api/validation/schema"
)

// validator is the validating webhook of a kind.
type validator[T client.Object] struct {
	reader validation.Reader
	// spec returns the part of an object that is checked. An update that does not change it is always admitted, so that labels and
	// finalizers of objects that were stored before a rule existed can be changed.
	spec func(T) any
	// check checks an updated object. New ones are checked by rules.New.
	check func(ctx context.Context, reader validation.Reader, object T) (validation.Findings, error)
	// change checks the difference between the old and the new object; nil if every change between valid objects is allowed.
	change func(ctx context.Context, reader validation.Reader, old, object T) (field.ErrorList, error)
	// warn returns warnings about an update; it may be nil.
	warn func(ctx context.Context, reader validation.Reader, old, object T) ([]string, error)
	// schema is the schema of the hub version.
	schema *schema.Schema
}

// ValidateCreate implements admission.Validator.
func (r validator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	findings, err := rules.New(ctx, r.reader, object)
	if err != nil {
		return nil, lookupError(object, err)
	}
	if r.needsSchemaValidation(ctx) {
		findings.Refuse(r.schema.Validate(ctx, object)...)
	}
	return findings.Warnings, invalidError(ctx, object, findings.Errors)
}

// ValidateUpdate implements admission.Validator.
func (r validator[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	if !object.GetDeletionTimestamp().IsZero() || equality.Semantic.DeepEqual(r.spec(old), r.spec(object)) {
		return nil, nil
	}
	findings, err := r.check(ctx, r.reader, object)
	if err != nil {
		return nil, lookupError(object, err)
	}
	if findings.Errors, err = r.ratchet(ctx, old, findings.Errors); err != nil {
		return nil, lookupError(object, err)
	}
	if request, err := admission.RequestFromContext(ctx); err == nil && isFromMigration(request) {
		findings.Errors = slices.DeleteFunc(findings.Errors, isAllowedForMigration)
	}
	if r.change != nil {
		changes, err := r.change(ctx, r.reader, old, object)
		if err != nil {
			return nil, lookupError(object, err)
		}
		findings.Refuse(changes...)
	}
	if r.warn != nil {
		warnings, err := r.warn(ctx, r.reader, old, object)
		if err != nil {
			return nil, lookupError(object, err)
		}
		findings.Warnings = append(findings.Warnings, warnings...)
	}
	if r.needsSchemaValidation(ctx) {
		findings.Refuse(r.schema.ValidateUpdate(ctx, object, old)...)
	}
	return findings.Warnings, invalidError(ctx, object, findings.Errors)
}

// ValidateDelete implements admission.Validator. It is never called: the webhooks are not registered for delete, because an outage of the
// webhooks must not block deletion.
func (r validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// needsSchemaValidation reports whether the object of a request has an older version. The API server validates it only against the schema
// of that version, but stores it in the hub version.
func (r validator[T]) needsSchemaValidation(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && isInOlderVersion(request)
}

// ratchet drops the errors that the old object also has, so that other fields of an object that was stored before a rule existed can be
// changed.
func (r validator[T]) ratchet(ctx context.Context, old T, errs field.ErrorList) (field.ErrorList, error) {
	if len(errs) == 0 {
		return nil, nil
	}
	before, err := r.check(ctx, r.reader, old)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return slices.ContainsFunc(before.Errors, func(b *field.Error) bool { return b.Error() == e.Error() })
	}), nil
}

// isAllowedForMigration reports whether captctl migrate may make a change despite an error. A rollback restores references to templates
// that are being deleted. To pin a template, it changes the template of the owner before the
// template of the WorkspaceTemplateApply: in the other order, the manager could write the old template. In both cases the manager does not
// write Workspaces.
func isAllowedForMigration(err *field.Error) bool {
	return err.Type == field.ErrorTypeForbidden && (slices.Contains([]string{"spec.templateRef", "spec.workspaceTemplateRef", "spec.vpc.template.ref"}, err.Field) ||
		strings.HasSuffix(err.Field, "workspaceTemplateApplyRef.name") && strings.Contains(err.Detail, adoption.TemplateDiffers))
}

// invalidError returns the errors of an object as a StatusError of reason Invalid, as the API server returns them.
func invalidError(ctx context.Context, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(apischema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}, object.GetName(), errs)
}

// lookupError returns the error for a failed lookup. The request is rejected and can be retried, because the object that could not be read
// may be a reason to reject it.
func lookupError(object client.Object, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("checking %s: %w", object.GetName(), err))
}
