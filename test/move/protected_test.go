// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
)

// protect sets spec.deletionProtection of the Cluster demo.
func (env *environment) protect(on *side, protection infrav1.DeletionProtection) {
	env.Helper()
	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	env.change(on, captCluster, "demo", func() { captCluster.Spec.DeletionProtection = protection })
	env.change(on, controlPlane, "demo", func() { controlPlane.Spec.DeletionProtection = protection })
}

// requireProtected requires that the API server rejects the deletion of everything but the VPC, whose annotation allows it. A policy knows an object
// that has just been created only after a moment.
func (env *environment) requireProtected(on *side) {
	env.Helper()
	for name, objects := range map[string][]client.Object{
		"demo": {&clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}},
		eks:    {&infrav1.WorkspaceTemplateApply{}},
	} {
		for _, object := range objects {
			env.read(on, object, name)
			_ = fixture.EventuallyForbidden(env, func(ctx context.Context) error { return on.Delete(ctx, object, client.DryRunAll) })
		}
	}
	allowed := &infrav1.WorkspaceTemplateApply{}
	env.read(on, allowed, vpc)
	require.Equal(env, "true", allowed.Annotations[naming.AllowDeleteAnnotation])
	require.NoError(env, on.Delete(env.Context(), allowed, client.DryRunAll))
}

// clusterctl deletes protected objects on the old side because they exist on the new side, which protects them from then on.
func TestAProtectedClusterMovesAndStaysProtected(t *testing.T) {
	env := readyCluster(t)
	env.protect(source, infrav1.DeletionProtectionEnabled)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.change(source, apply, vpc, func() { apply.Annotations[naming.AllowDeleteAnnotation] = "true" })
	env.requireProtected(source)
	for _, name := range []string{vpc, eks} {
		env.awaitBlock(name, "until-paused")
	}
	env.awaitReady(source, "v1.34.0")
	t.Parallel()

	began := time.Now()
	env.startMove().wait()
	env.requireMoved()
	env.awaitReady(target, "v1.34.0")
	env.requireProtected(target)
	env.requireUnnoticed(began)

	env.protect(target, infrav1.DeletionProtectionDisabled)
	owner := &clusterv1.Cluster{}
	env.read(target, owner, "demo")
	fixture.EventuallyTrue(t, tick, func() bool { return target.Delete(t.Context(), owner) == nil }, "the Cluster is still protected")
	env.awaitGone(target, owner, "demo")
	require.Equal(t, []string{"destroy " + eksWorkspace, "destroy " + vpcWorkspace}, env.done(began))
	require.Zero(t, env.cloud())
}
