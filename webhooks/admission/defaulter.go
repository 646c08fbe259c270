// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// defaulter is the defaulting webhook of a kind. It implements admission.Handler and not admission.Defaulter. The patch of the latter is
// the difference to the serialized Go type, which has an empty value for each missing required field, so that the API server would not
// report missing fields.
type defaulter[T client.Object] struct {
	decoder admission.Decoder
	reader  validation.Reader
	// mayMigrate is rights.mayMigrate.
	mayMigrate reviewer
}

// Handle implements admission.Handler.
func (d defaulter[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
	var kind T
	object := newObject(kind)
	if err := d.decoder.DecodeRaw(request.Object, object); err != nil {
		// A field has the wrong type. The API server checks the schema next, and its error is more precise.
		return admission.Allowed("")
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := d.complete(ctx, request, object); err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(object, err))
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after)
}

// complete sets the defaults of a new object, or restores fields that an update must not remove.
func (d defaulter[T]) complete(ctx context.Context, request admission.Request, object T) error {
	var kind T
	old := newObject(kind)
	if request.Operation == admissionv1.Create {
		signApproval(request.UserInfo.Username, old, object)
		if template, ok := any(object).(*infrav1.WorkspaceTemplate); ok && !isInOlderVersion(request) {
			validation.SetDefaultSubstitution(template)
		}
		return setDefaults(ctx, d.reader, object)
	}
	if err := d.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return fmt.Errorf("reading the old object: %w", err)
	}
	signApproval(request.UserInfo.Username, old, object)
	migrating, err := isFromMigration(ctx, request, d.mayMigrate)
	if err != nil || migrating {
		return err // A rollback omits fields on purpose.
	}
	validation.RestoreFields(old, object)
	if isInOlderVersion(request) {
		return validation.RestoreHubFields(ctx, d.reader, old, object)
	}
	return nil
}

// signApproval records the user that changed the approved content of a WorkspaceTemplate or a WorkspaceTemplateApply, and when. Other users cannot change
// the record. The old object of a new one is empty.
func signApproval(user string, old, object client.Object) {
	switch object.(type) {
	case *infrav1.WorkspaceTemplate, *infrav1.WorkspaceTemplateApply:
	default:
		return
	}
	annotations, before := object.GetAnnotations(), old.GetAnnotations()
	approved := annotations[naming.ApproveAnnotation]
	record := map[string]string{
		naming.ApprovedByAnnotation: before[naming.ApprovedByAnnotation], naming.ApprovedAtAnnotation: before[naming.ApprovedAtAnnotation],
	}
	if approved != before[naming.ApproveAnnotation] {
		record[naming.ApprovedByAnnotation], record[naming.ApprovedAtAnnotation] = user, time.Now().UTC().Format(time.RFC3339)
	}
	for annotation, value := range record {
		if approved == "" || value == "" {
			delete(annotations, annotation)
			continue
		}
		annotations[annotation] = value // It has the approved content, so it is not nil.
	}
	object.SetAnnotations(annotations)
}

// isInOlderVersion reports whether the object of a request has an older version than the hub.
func isInOlderVersion(request admission.Request) bool {
	return request.RequestKind != nil && request.RequestKind.Version != request.Kind.Version
}
