// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installDefinitions installs all CRDs and access rules, those of Cluster API and of CAPT in parallel.
func (s *Sandbox) installDefinitions(ctx context.Context) error {
	namespaces := []*unstructured.Unstructured{namespace(ManagerNamespace), namespace(ProviderNamespace)}
	if err := manifests.Apply(ctx, s.client, namespaces...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if s.options.ClusterAPI {
		group.Go(func() error { return s.installClusterAPI(ctx) })
	} else if s.options.ClusterAPIDefinitions {
		group.Go(func() error { return s.installClusterAPIDefinitions(ctx) })
	}
	if !s.options.NoCRDs {
		group.Go(func() error { return s.installCAPT(ctx) })
		group.Go(func() error {
			return s.installPath(ctx, filepath.Join(s.root, "test", "provider", "config", "crd"))
		})
	}
	group.Go(func() error { return manifests.Apply(ctx, s.client, providerAccess()...) })
	for _, path := range s.options.Manifests {
		group.Go(func() error { return s.installPath(ctx, path) })
	}
	return group.Wait()
}

// installSet installs everything in a set except admission, and returns when the CRDs are established.
func (s *Sandbox) installSet(ctx context.Context, set manifests.Set) error {
	if err := manifests.Apply(ctx, s.client, set.Namespaces...); err != nil {
		return err
	}
	if err := manifests.Apply(ctx, s.client, append(set.Definitions, set.Access...)...); err != nil {
		return err
	}
	return manifests.WaitEstablished(ctx, s.client, set.Definitions)
}

func (s *Sandbox) installPath(ctx context.Context, path string) error {
	objects, err := manifests.Load(path)
	if err != nil {
		return err
	}
	set, err := manifests.Sort(objects)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return s.installSet(ctx, set)
}

// installAdmission runs last: until a webhook is served, it rejects all requests for its objects.
func (s *Sandbox) installAdmission(ctx context.Context) error {
	var objects []*unstructured.Unstructured
	if s.options.ClusterAPI {
		set, err := s.clusterAPIManifests(ctx)
		if err != nil {
			return err
		}
		objects = append(objects, set.Admission...)
	}
	if s.options.runManager() && !s.options.NoCRDs {
		set, err := s.captSet(Manager + webhookPort)
		if err != nil {
			return err
		}
		objects = append(objects, set.Admission...)
	}
	return manifests.Apply(ctx, s.client, objects...)
}

// installClusterAPI installs Cluster API's CRDs and access rules from the module that core is built from.
func (s *Sandbox) installClusterAPI(ctx context.Context) error {
	set, err := s.clusterAPIManifests(ctx)
	if err != nil {
		return err
	}
	return s.installSet(ctx, set)
}

// installClusterAPIDefinitions installs Cluster API's CRDs without its controllers and its conversion webhook.
func (s *Sandbox) installClusterAPIDefinitions(ctx context.Context) error {
	set, err := s.clusterAPIManifests(ctx)
	if err != nil {
		return err
	}
	if err := manifests.WithoutConversion(set.Definitions); err != nil {
		return err
	}
	return s.installSet(ctx, manifests.Set{Definitions: set.Definitions})
}

// clusterAPISource is the directory of the source of Cluster API.
func (s *Sandbox) clusterAPISource(ctx context.Context) (string, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.clusterAPIDir != "" {
		return s.clusterAPIDir, nil
	}
	var err error
	s.clusterAPIDir, err = binaries.Source(ctx, s.root, binaries.ClusterAPICore)
	return s.clusterAPIDir, err
}

func (s *Sandbox) clusterAPIManifests(ctx context.Context) (manifests.Set, error) {
	source, err := s.clusterAPISource(ctx)
	if err != nil {
		return manifests.Set{}, err
	}
	config := filepath.Join(source, "core", "config")
	objects, err := s.built(filepath.Join(config, "default"), config)
	if err != nil {
		return manifests.Set{}, err
	}
	manifests.Aggregate(objects)
	return s.withWebhooksAt(objects, ClusterAPI+webhookPort)
}

// withWebhooksAt sorts objects and makes the API server call their webhooks at the given port.
func (s *Sandbox) withWebhooksAt(objects []*unstructured.Unstructured, port string) (manifests.Set, error) {
	server := manifests.WebhookServer{Address: s.address(port), Bundle: s.authority.Bundle()}
	if err := server.Point(objects); err != nil {
		return manifests.Set{}, err
	}
	return manifests.Sort(objects)
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   map[string]any{"name": name},
	}}
}
