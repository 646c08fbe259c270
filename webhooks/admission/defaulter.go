// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// defaulter is the defaulting webhook of a kind. It implements admission.Handler and not admission.Defaulter. The patch of the latter is
// the difference to the serialized Go type, which has an empty value for each missing required field, so that the API server would not
// report missing fields.
type defaulter[T client.Object] struct {
	decoder admission.Decoder
	reader  validation.Reader
	// create sets the defaults of a new object.
	create func(ctx context.Context, reader validation.Reader, object T) error
	// mayMigrate is rights.mayMigrate.
	mayMigrate reviewer
	// keepHubFields restores the fields that an older version does not have, and that a write in that version therefore removes.
	keepHubFields func(ctx context.Context, reader validation.Reader, old, object T) error
	// sign records which user requested a change; it may be nil. The old object of a new one is empty.
	sign func(user string, old, object T)
}

// Handle implements admission.Handler.
func (d defaulter[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
	var kind T
	object := lookup.NewObject(kind)
	if err := d.decoder.DecodeRaw(request.Object, object); err != nil {
		// A field has the wrong type. The API server checks the schema next, and its error is more precise.
		return admission.Allowed("")
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := d.setDefaults(ctx, request, object); err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(object, err))
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after)
}

// setDefaults sets the defaults of a new object, or restores fields that an update must not remove.
func (d defaulter[T]) setDefaults(ctx context.Context, request admission.Request, object T) error {
	var kind T
	old := lookup.NewObject(kind)
	if request.Operation == admissionv1.Create {
		d.signed(request, old, object)
		return d.create(ctx, d.reader, object)
	}
	if err := d.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return fmt.Errorf("reading the old object: %w", err)
	}
	d.signed(request, old, object)
	migrating, err := isFromMigration(ctx, request, d.mayMigrate)
	if err != nil || migrating {
		return err // A rollback omits fields on purpose.
	}
	validation.RestoreFields(old, object)
	if isInOlderVersion(request) {
		return d.keepHubFields(ctx, d.reader, old, object)
	}
	return nil
}

func (d defaulter[T]) signed(request admission.Request, old, object T) {
	if d.sign != nil {
		d.sign(request.UserInfo.Username, old, object)
	}
}

// isInOlderVersion reports whether the object of a request has an older version than the hub.
func isInOlderVersion(request admission.Request) bool {
	return request.RequestKind != nil && request.RequestKind.Version != request.Kind.Version
}
