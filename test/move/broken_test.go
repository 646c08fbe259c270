// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// noDeletions keeps clusterctl from deleting anything in a namespace, for as long as a test wants.
func noDeletions(namespace string) []string {
	return []string{fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules:
    - {apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [UPDATE], scope: Namespaced}
  validations:
  - expression: |-
      !has(object.metadata.annotations) || !('clusterctl.cluster.x-k8s.io/delete-for-move' in object.metadata.annotations)
`, namespace), fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, namespace)}
}

// awaitDeletions waits until clusterctl may delete, or may not any more.
func (w *world) awaitDeletions(may bool) {
	w.Helper()
	fixture.Eventually(w, tick, func() bool {
		err := source.Patch(w.Context(), w.workspace(source, vpcWorkspace), mark, client.DryRunAll)
		return apierrors.IsInvalid(err) != may
	}, "clusterctl may delete: not %v", may)
}

// A move that is killed when everything is on both sides is started again.
func TestAMoveThatBrokeOffBeforeItDeletedIsStartedAgain(t *testing.T) {
	w := newWorld(t)
	w.labeled()
	w.apply(source, everything(terraform.ScopeNamespaced)...)
	w.awaitReady(source, "v1.34.0")
	t.Parallel()
	for _, document := range noDeletions(w.namespace) {
		require.NoError(t, source.apply(t.Context(), "", document))
	}
	w.awaitDeletions(false)

	began := time.Now()
	move := w.startMove()
	fixture.Eventually(t, tick, func() bool {
		events, err := source.AuditEvents(audit.Filter{User: sandbox.AdminUser, Verbs: audit.Writes, Namespace: w.namespace, Since: began})
		require.NoError(t, err)
		for _, event := range events {
			if event.ResponseStatus.Code >= 400 {
				return true
			}
		}
		return false
	}, "clusterctl deletes nothing")
	move.stop()
	w.kubectl(source, "delete", "validatingadmissionpolicybinding", w.namespace)
	w.awaitDeletions(true)
	require.Equal(t, w.names(source, workspaceKind), w.names(target, workspaceKind), "both are there, and both providers look")

	w.follow(takePauseAway, "NAME", "demo")
	w.awaitReady(source, "v1.34.0")
	w.awaitBlock(vpc, "until-paused")
	w.awaitBlock(eks, "until-paused")
	w.startMove().wait()
	w.awaitReady(target, "v1.34.0")
	for _, kind := range moved {
		require.Empty(t, w.names(source, kind), kind.Kind)
	}
	require.Empty(t, w.done(began))
	for _, on := range []*side{source, target} {
		w.requireUntouched(on, began)
	}
}
