// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package move_test moves clusters with the real clusterctl between two control planes, each with CAPT, Cluster API and a
// provider. Terraform is a scripted executor whose cloud and state both providers share, as they would share a backend; what
// it did is in one journal.
package move_test

import (
	"context"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// side is one of the two management clusters.
type side struct {
	*sandbox.Sandbox
	client.Client
}

var (
	// source is where clusters are moved from, and target where to.
	source, target *side
	// scripts is where the scripts, the state and the cloud of Terraform are.
	scripts *scripted.Store
)

func TestMain(m *testing.M) {
	os.Exit(fixture.Suite{
		Parallel: 16,
		Start: func(ctx context.Context, dir string, keep func(*sandbox.Sandbox)) error {
			scripts = scripted.At(dir)
			if err := sandbox.Build(ctx, os.Stderr, sandbox.Clusterctl, sandbox.Kubectl); err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			for _, s := range []**side{&source, &target} {
				group.Go(func() (err error) {
					*s, err = startSide(ctx, dir, keep)
					return err
				})
			}
			return group.Wait()
		},
	}.Run(m))
}

func startSide(ctx context.Context, scripts string, keep func(*sandbox.Sandbox)) (*side, error) {
	started, err := sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditLog: true,
		// A moved Workspace is reported at the second look, which is the first poll.
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=10", "--poll=5s"},
	})
	if err != nil {
		return nil, err
	}
	keep(started)
	server, err := fixture.Connect(started)
	if err != nil {
		return nil, err
	}
	s := &side{Sandbox: started, Client: server.API}
	return s, s.prepare(ctx)
}

// prepare does what an operator does: clusterctl init labels the definitions that it installs, and the providers of both sides
// are configured alike. Those of CAPT are as config/crd has them, since not all users install CAPT with clusterctl.
func (s *side) prepare(ctx context.Context) error {
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.List(ctx, definitions, client.MatchingLabels{clusterv1.ProviderNameLabel: "cluster-api"}); err != nil {
		return err
	}
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		patch := client.MergeFrom(definition.DeepCopy())
		definition.Labels[clusterctlv1.ClusterctlLabel] = ""
		if err := s.Patch(ctx, definition, patch); err != nil {
			return err
		}
	}
	for _, scope := range terraform.Scopes() {
		if err := s.apply(ctx, "", documents(scope).ProviderConfig()); err != nil {
			return err
		}
	}
	return nil
}
