// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
)

func TestWhatCannotBeReadIsNotAbsent(t *testing.T) {
	withProfile := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	})
	made := func(options ...builder.Option) *environment {
		env := newEnvironment(t, prepared(options...)...)
		env.Tokens = tokens.With(env.clock)
		env.reconcile()
		env.terraformMade()
		return env
	}
	for name, newEnvironment := range map[string]func() *environment{
		"a new control plane": func() *environment {
			older := builder.CAPTControlPlane("first", builder.WithCreation(builder.Created.Add(-time.Hour)),
				builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "demo" }), builder.OwnedBy(builder.Cluster("x")))
			return newEnvironment(t, append(prepared(builder.WithCreation(builder.Created)), older)...)
		},
		"Terraform has created it": func() *environment { return made(withProfile) },
		"an update runs": func() *environment {
			env := made(withProfile)
			env.reconcile()
			env.terraform(working)
			return env
		},
		"another version": func() *environment {
			env := made()
			env.reconcile()
			require.NoError(t, env.Client.Create(t.Context(), builder.MachinePool("workers")))
			require.NoError(t, env.Client.Create(t.Context(), builder.CAPTMachinePool("workers", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))))
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
			return env
		},
		"a deletion": func() *environment {
			env := made(withProfile)
			env.reconcile()
			require.NoError(t, env.Client.Delete(t.Context(), builder.Cluster("demo")))
			require.NoError(t, env.Client.Delete(t.Context(), env.get()))
			return env
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			builder.FailEachRead(t, env.API, env.try)
		})
	}
}
