// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/retry"
)

// direction of a step.
type direction bool

const (
	forward  direction = true
	backward direction = false
)

// changedError means that an object is neither as it was before the step nor as the step wrote it. It is not written.
type changedError struct {
	object migrate.ObjectRef
	why    string
}

func (e *changedError) Error() string {
	return fmt.Sprintf("%s: %s since the plan was created; it is left as it is", e.object, e.why)
}

// examine compares a live object, nil if it does not exist, with a step. The state is Changed if at least one field is, else Pending if at least
// one field is. changed is a *changedError with the first change; nil for other states. err means that the object cannot be compared.
func examine(step *plan.Step, live *unstructured.Unstructured, to direction) (state plan.FieldState, changed, err error) {
	if step.Create != nil {
		return examineCreated(step, live)
	}
	switch {
	case live == nil:
		return plan.Changed, &changedError{step.Object, "it was deleted"}, nil
	case live.GetUID() != step.Object.UID:
		return plan.Changed, &changedError{step.Object, "it was recreated"}, nil
	case live.GetDeletionTimestamp() != nil && to == forward:
		return plan.Changed, &changedError{step.Object, "it is being deleted"}, nil
	}
	state = plan.Applied
	for i := range step.Fields {
		ofField, err := step.Fields[i].State(live.Object)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", step.Object, err)
		}
		switch {
		case ofField == plan.Changed && changed == nil:
			state, changed = ofField, &changedError{step.Object, "its field " + step.Fields[i].Path + " was changed"}
		case ofField == plan.Pending && changed == nil:
			state = ofField
		}
	}
	return state, changed, nil
}

// examineCreated is examine for a step that creates an object. It compares only the spec.
func examineCreated(step *plan.Step, live *unstructured.Unstructured) (state plan.FieldState, changed, err error) {
	if live == nil {
		return plan.Pending, nil, nil
	}
	spec, err := json.Marshal(step.Create["spec"])
	if err != nil {
		return "", nil, err
	}
	state, err = (&plan.Field{Path: "/spec", After: spec}).State(live.Object)
	if err == nil && state != plan.Applied {
		return plan.Changed, &changedError{step.Object, "its spec was changed"}, nil
	}
	return state, nil, err
}

// write writes a step, or reverts it, unless that is done already. The object is read before each attempt, so that an attempt after a conflict or a
// lost response is like a first one. The error is a *changedError if the object is left as it is.
func (r *run) write(ctx context.Context, step *plan.Step, to direction, result *UnitResult) error {
	if step.Create != nil && to == backward { // captctl deletes nothing.
		return nil
	}
	var kept error
	writes := result.Writes
	err := retry.Do(ctx, func(ctx context.Context) error {
		live, err := r.read(ctx, step.Object)
		if err != nil {
			return err
		}
		var state plan.FieldState
		// Forward, an object that was changed is not written at all; backward, each field is checked on its own.
		state, kept, err = examine(step, live, to)
		switch {
		case err != nil:
			return err
		case step.Create != nil && state == plan.Pending:
			return r.create(ctx, step, result)
		case step.Create != nil, kept != nil && (to == forward || live == nil || live.GetUID() != step.Object.UID):
			return nil
		}
		return r.patch(ctx, step, live, to, result)
	})
	result.Writes = min(result.Writes, writes+1) // However often it was sent.
	if err != nil {
		return fmt.Errorf("writing %s: %w", step.Object, err)
	}
	return kept
}

// mayBeWritten reports whether the API server has carried out a request with this error, or may have.
func mayBeWritten(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// withFieldsOf returns an object with the fields of a step as they are after it or, backward, before it.
func withFieldsOf(step *plan.Step, live *unstructured.Unstructured, to direction) (*unstructured.Unstructured, error) {
	wanted := live.DeepCopy()
	for i := range step.Fields {
		field := &step.Fields[i]
		state, err := field.State(live.Object)
		switch {
		case err != nil:
		case to == forward && state == plan.Pending:
			err = field.Set(wanted.Object)
		case to == backward && state == plan.Applied:
			err = field.Revert(wanted.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Object, err)
		}
	}
	return wanted, nil
}

func (r *run) create(ctx context.Context, step *plan.Step, result *UnitResult) error {
	err := r.writes.Create(ctx, (&unstructured.Unstructured{Object: step.Create}).DeepCopy())
	switch {
	case apierrors.IsAlreadyExists(err):
		return retry.Again(err)
	case mayBeWritten(err):
		result.Writes++
	}
	return err
}

// patch sends what a step changes as a JSON patch that applies only to the object that was read.
func (r *run) patch(ctx context.Context, step *plan.Step, live *unstructured.Unstructured, to direction, result *UnitResult) error {
	wanted, err := withFieldsOf(step, live, to)
	if err != nil {
		return err
	}
	before, err := live.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil || len(operations) == 0 {
		return err
	}
	guard := []jsonpatch.Operation{
		jsonpatch.NewOperation("test", "/metadata/uid", string(live.GetUID())),
		jsonpatch.NewOperation("test", "/metadata/resourceVersion", live.GetResourceVersion()),
	}
	data, err := json.Marshal(append(guard, operations...))
	if err != nil {
		return err
	}
	err = r.writes.Patch(ctx, wanted, step.Subresource, client.RawPatch(types.JSONPatchType, data))
	switch {
	case apierrors.IsConflict(err), apierrors.IsInvalid(err) && r.changedSinceRead(ctx, step, live):
		return retry.Again(err)
	case mayBeWritten(err):
		result.Writes++
	}
	return err
}

// changedSinceRead reports whether an object changed since it was read: a failed test of a JSON patch has the same status as an invalid object.
func (r *run) changedSinceRead(ctx context.Context, step *plan.Step, live *unstructured.Unstructured) bool {
	now, err := r.read(ctx, step.Object)
	return err == nil && now != nil && now.GetResourceVersion() != live.GetResourceVersion()
}

func (r *run) read(ctx context.Context, ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	return migrate.Get(ctx, r.reads, ref)
}
