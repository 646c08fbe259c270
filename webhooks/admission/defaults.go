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

// defaults fill in what a user may leave out. They implement admission.Handler rather than admission.Defaulter, whose patch
// is the difference to the Go type: it would write down every required field that the user forgot, as an empty one, and the
// API server would no longer say that it is missing.
type defaults[T client.Object] struct {
	decoder admission.Decoder
	world   validation.World
	// create completes a new object.
	create func(ctx context.Context, world validation.World, object T) error
	// keep puts back what is written once and an update leaves out, as happens when a manifest that never had it replaces
	// the object. Only captctl migrate reverts it.
	keep func(old, object T)
	// unsaid puts back what a write in an older version has no words for, and wipes therefore.
	unsaid func(ctx context.Context, world validation.World, old, object T) error
}

// Handle implements admission.Handler.
func (d defaults[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
	var kind T
	object := lookup.NewObject(kind)
	if err := d.decoder.DecodeRaw(request.Object, object); err != nil {
		// A field of another type. The API server checks the schema next, and says it better.
		return admission.Allowed("")
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := d.fill(ctx, request, object); err != nil {
		return admission.Errored(http.StatusInternalServerError, couldNotLook(object, err))
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
		return d.create(ctx, d.world, object)
	}
	if err := d.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return fmt.Errorf("reading the old object: %w", err)
	}
	keepStatus(request, old, object)
	if byMigration(request) {
		return nil // What a rollback leaves out, an adoption has written.
	}
	d.keep(old, object)
	if inOlderVersion(request) {
		return d.unsaid(ctx, d.world, old, object)
	}
	return nil
}

// byMigration reports whether captctl migrate writes, which does so in the hub version only. A patch and an update look the same
// here: the API server gives both the options of an update.
func byMigration(request admission.Request) bool {
	var options metav1.UpdateOptions
	return json.Unmarshal(request.Options.Raw, &options) == nil && options.FieldManager == naming.MigrationFieldManager && !inOlderVersion(request)
}

// keepStatus undoes what a write of the object in an older version does to its status. What only the hub version can say
// travels in an annotation, where the API server does not protect it: a manifest without the annotation would wipe the UID
// of the Workspace, and one with a forged annotation would claim another owner's.
func keepStatus(request admission.Request, old, object client.Object) {
	if inOlderVersion(request) {
		reflect.ValueOf(object).Elem().FieldByName("Status").Set(reflect.ValueOf(old).Elem().FieldByName("Status"))
	}
}

// inOlderVersion reports whether an object came in another version than the hub.
func inOlderVersion(request admission.Request) bool {
	return request.RequestKind != nil && request.RequestKind.Version != request.Kind.Version
}
