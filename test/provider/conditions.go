// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

func condition(t managed.ConditionType, s corev1.ConditionStatus, r managed.ConditionReason) managed.Condition {
	return managed.Condition{Type: t, Status: s, Reason: r, LastTransitionTime: metav1.Now()}
}

func available() managed.Condition {
	return condition(managed.TypeReady, corev1.ConditionTrue, managed.ReasonAvailable)
}

func creating() managed.Condition {
	return condition(managed.TypeReady, corev1.ConditionFalse, managed.ReasonCreating)
}

func deleting() managed.Condition {
	return condition(managed.TypeReady, corev1.ConditionFalse, managed.ReasonDeleting)
}

func reconcileSuccess() managed.Condition {
	return condition(managed.TypeSynced, corev1.ConditionTrue, managed.ReasonReconcileSuccess)
}

func reconcilePaused() managed.Condition {
	return condition(managed.TypeSynced, corev1.ConditionFalse, managed.ReasonReconcilePaused)
}

func reconcileError(err error) managed.Condition {
	c := condition(managed.TypeSynced, corev1.ConditionFalse, managed.ReasonReconcileError)
	c.Message = err.Error()
	return c
}

// emulatesV0 reports whether the script of the Workspace asks for a provider before v1.
func (n *round) emulatesV0() bool {
	scripts, ok := n.options.Executors.(interface {
		Version0(types.NamespacedName) bool
	})
	return ok && scripts.Version0(client.ObjectKeyFromObject(n.object()))
}

// mark puts conditions into the status. The reconciler of crossplane-runtime reports the generation in
// Synced and in Ready when that is False. That a Workspace is available is reported by provider-terraform itself, which does
// not: Ready=True of an older generation cannot be distinguished from Ready=True of this one.
func (n *round) mark(conditions ...managed.Condition) {
	for _, c := range conditions {
		if c.Reason != managed.ReasonAvailable && !n.emulatesV0() {
			c.ObservedGeneration = n.object().GetGeneration()
		}
		n.status().SetConditions(c)
	}
}
