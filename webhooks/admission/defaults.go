// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// defaults is the defaulting webhook of a kind. It implements admission.Handler and not admission.Defaulter, whose patch is the difference
// to the serialized Go type: that adds each missing required field with an empty value, and the API server would no longer report the field
// as missing.
type defaults[T client.Object] struct {
	decoder admission.Decoder
	reader  validation.Reader
	// create sets defaults of a new object.
	create func(ctx context.Context, reader validation.Reader, object T) error
	// keep restores immutable fields that an update omits, for example when a manifest without them replaces the object. It is not called
	// for captctl migrate, which removes such fields to roll back an adoption.
	keep func(old, object T)
	// keepHubFields restores fields that do not exist in an older version, and that a write in that version therefore removes.
	keepHubFields func(ctx context.Context, reader validation.Reader, old, object T) error
}

// Handle implements admission.Handler.
func (d defaults[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
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
	if err := d.fill(ctx, request, object); err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupFailed(object, err))
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after)
}

func (d defaults[T]) fill(ctx context.Context, request admission.Request, object T) error {
	var kind T
	old := lookup.NewObject(kind)
	if request.Operation == admissionv1.Create {
		keepStatus(request, old, object)
		return d.create(ctx, d.reader, object)
	}
	if err := d.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return fmt.Errorf("reading the old object: %w", err)
	}
	keepStatus(request, old, object)
	if byMigration(request) {
		return nil // A rollback omits fields on purpose.
	}
	d.keep(old, object)
	if inOlderVersion(request) {
		return d.keepHubFields(ctx, d.reader, old, object)
	}
	return nil
}

// byMigration reports whether a request is from captctl migrate, which writes only in the hub version. Patch requests have UpdateOptions as
// well.
func byMigration(request admission.Request) bool {
	var options metav1.UpdateOptions
	return json.Unmarshal(request.Options.Raw, &options) == nil && options.FieldManager == naming.MigrationFieldManager && !inOlderVersion(request)
}

// keepStatus restores the status after a write of the object in an older version. Fields of status that only the hub version has are
// converted through an annotation, which users can write: a manifest without the annotation would remove the UID of the Workspace, and one
// with a forged annotation could claim the Workspace of another owner.
func keepStatus(request admission.Request, old, object client.Object) {
	if inOlderVersion(request) {
		reflect.ValueOf(object).Elem().FieldByName("Status").Set(reflect.ValueOf(old).Elem().FieldByName("Status"))
	}
}

// inOlderVersion reports whether the object of a request has an older version than the hub.
func inOlderVersion(request admission.Request) bool {
	return request.RequestKind != nil && request.RequestKind.Version != request.Kind.Version
}
