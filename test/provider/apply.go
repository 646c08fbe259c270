// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// publishObserved fills the connection Secret with what observing found. Before the first apply that is nothing, and
// the Secret exists all the same.
func (n *round) publishObserved(ctx context.Context) *outcome {
	if err := n.publish(ctx, n.workspace, n.seen.outputs); err != nil {
		return failed(err)
	}
	return nil
}

// create applies for the first time. That it began is recorded before, and how it ended after: without the second
// record, nothing is ever done with the Workspace again.
func (n *round) create(ctx context.Context) *outcome {
	if n.seen.exists || !n.policy().mayCreate() {
		return nil
	}
	stamp(n.object(), annotationCreatePending, time.Now())
	if err := n.persist(ctx); err != nil {
		return failed(err, creating())
	}
	err := n.apply(n.external)
	outputs := n.seen.outputs

	// What observing and applying put into the status is dropped: outputs show after the next observation.
	*n.status() = *n.stored.DeepCopy()
	if err != nil {
		stamp(n.object(), annotationCreateFailed, time.Now())
		// When even that record fails, the failed create is the better one to show.
		_ = n.persistAnnotations(ctx)
		return failed(fmt.Errorf("create failed: %w", err), creating())
	}
	stamp(n.object(), annotationCreateSucceeded, time.Now())
	if err := n.persistAnnotations(ctx); err != nil {
		return failed(err, creating())
	}
	if err := n.publish(ctx, n.workspace, outputs); err != nil {
		return failed(err, creating())
	}
	return &outcome{conditions: []managed.Condition{creating(), reconcileSuccess()}, next: nextBackoff}
}

// rest is where a Workspace stays that is as it should be, or that must not be changed.
func (n *round) rest(context.Context) *outcome {
	if n.seen.differs && n.policy().mayUpdate() {
		return nil
	}
	return &outcome{conditions: []managed.Condition{reconcileSuccess()}, next: nextPoll}
}

// update applies again. Until it has ended, the Workspace shows what it showed before.
func (n *round) update(ctx context.Context) *outcome {
	if err := n.apply(n.external); err != nil {
		return failed(fmt.Errorf("update failed: %w", err))
	}
	if err := n.publish(ctx, n.workspace, n.seen.outputs); err != nil {
		return failed(err)
	}
	return &outcome{conditions: []managed.Condition{available(), reconcileSuccess()}, next: nextPoll}
}

func (n *round) apply(ctx context.Context) error {
	options, err := inputs{n.reader}.runOptions(ctx, n.workspace, n.module().ApplyArgs)
	if err != nil {
		return err
	}
	n.count(operationApply)
	if err := n.exec.Apply(ctx, options); err != nil {
		return fmt.Errorf("cannot apply Terraform configuration: %w", err)
	}
	n.seen.outputs, err = n.outputs(ctx)
	return err
}

// destroy removes the resources of a deleted Workspace. The next round verifies that they are gone.
func (n *round) destroy(context.Context) *outcome {
	if !isDeleted(n.object()) || !n.seen.exists {
		return nil
	}
	if err := n.tearDown(n.external); err != nil {
		return failed(fmt.Errorf("delete failed: %w", err), deleting())
	}
	return &outcome{conditions: []managed.Condition{deleting(), reconcileSuccess()}, next: nextBackoff}
}

func (n *round) tearDown(ctx context.Context) error {
	options, err := inputs{n.reader}.runOptions(ctx, n.workspace, n.module().DestroyArgs)
	if err != nil {
		return err
	}
	n.count(operationDestroy)
	if err := n.exec.Destroy(ctx, options); err != nil {
		return fmt.Errorf("cannot destroy Terraform configuration: %w", err)
	}
	return nil
}

// persistAnnotations writes the annotations whatever else happened to the object meanwhile, trying several times.
func (n *round) persistAnnotations(ctx context.Context) error {
	annotations := maps.Clone(n.object().GetAnnotations())
	err := retry.OnError(retry.DefaultRetry, func(err error) bool { return !errors.Is(err, context.Canceled) }, func() error {
		err := n.persist(ctx)
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh := n.scope.newObject()
		if err := n.reader.Get(ctx, client.ObjectKeyFromObject(n.object()), fresh); err != nil {
			return err
		}
		merged := fresh.GetAnnotations()
		if merged == nil {
			merged = map[string]string{}
		}
		maps.Copy(merged, annotations)
		fresh.SetAnnotations(merged)
		status := n.status().DeepCopy()
		n.workspace = n.scope.wrap(fresh)
		*n.status() = *status
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot update critical annotations: %w", err)
	}
	return nil
}
