// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// pause freezes a Workspace, its deletion too.
func (n *round) pause(context.Context) *outcome {
	if !isPaused(n.object()) && !n.policy().paused() {
		return nil
	}
	return &outcome{conditions: []managed.Condition{reconcilePaused()}}
}

// checkPolicy refuses management policies that make no sense. Only an edit can correct them.
func (n *round) checkPolicy(context.Context) *outcome {
	if err := n.policy().validate(); err != nil {
		o := failed(err)
		o.next = nextEvent
		return o
	}
	return nil
}

// orphan lets a deleted Workspace go without looking at its resources. The working directory stays: without a remote
// backend it holds the state of what was left behind.
func (n *round) orphan(ctx context.Context) *outcome {
	if !isDeleted(n.object()) || n.policy().mayDelete() {
		return nil
	}
	return n.removeFinalizer(ctx)
}

// nameExternal gives the Terraform workspace its name before anything is run.
func (n *round) nameExternal(ctx context.Context) *outcome {
	if n.object().GetAnnotations()[annotationExternalName] != "" {
		return nil
	}
	annotate(n.object(), annotationExternalName, n.object().GetName())
	if err := n.persist(ctx); err != nil {
		return failed(err)
	}
	return nil
}

// refuseIncompleteCreate stops for good when a create was cut off: resources may exist that the state does not know.
func (n *round) refuseIncompleteCreate(context.Context) *outcome {
	if !createIncomplete(n.object()) {
		return nil
	}
	o := failed(errCreateIncomplete, creating())
	o.next = nextEvent
	return o
}

// awaitOtherFinalizers keeps the resources while another client still needs the Workspace. Nothing shows that.
func (n *round) awaitOtherFinalizers(context.Context) *outcome {
	if isDeleted(n.object()) && len(n.object().GetFinalizers()) > 1 {
		return &outcome{keepStatus: true, next: nextBackoff}
	}
	return nil
}

// release lets go of a deleted Workspace whose resources and state are gone.
func (n *round) release(ctx context.Context) *outcome {
	if !isDeleted(n.object()) {
		return nil
	}
	if err := n.options.Executors.Forget(n.object().GetUID()); err != nil {
		return failed(err, deleting())
	}
	return n.removeFinalizer(ctx)
}

func (n *round) removeFinalizer(ctx context.Context) *outcome {
	if controllerutil.RemoveFinalizer(n.object(), finalizerName) {
		if err := n.persist(ctx); client.IgnoreNotFound(err) != nil {
			return failed(fmt.Errorf("cannot remove managed resource finalizer: %w", err), deleting())
		}
	}
	return &outcome{keepStatus: true}
}

func (n *round) addFinalizer(ctx context.Context) *outcome {
	if !controllerutil.AddFinalizer(n.object(), finalizerName) {
		return nil
	}
	if err := n.persist(ctx); err != nil {
		return failed(err)
	}
	return nil
}
