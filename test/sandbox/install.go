// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// installDefinitions installs all definitions and access rules, Cluster API's and CAPT's at the same time.
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
			return s.installPath(ctx, filepath.Join(s.root, "test", "provider", "config", "crd"), true)
		})
	}
	group.Go(func() error { return manifests.Apply(ctx, s.client, providerAccess()...) })
	for _, path := range s.options.Manifests {
		group.Go(func() error { return s.installPath(ctx, path, false) })
	}
	return group.Wait()
}

// installSet installs everything of a set but what guards admission, and returns when the definitions are served.
func (s *Sandbox) installSet(ctx context.Context, set manifests.Set) error {
	if err := manifests.Apply(ctx, s.client, set.Namespaces...); err != nil {
		return err
	}
	if err := manifests.Apply(ctx, s.client, append(set.Definitions, set.Access...)...); err != nil {
		return err
	}
	return manifests.WaitEstablished(ctx, s.client, set.Definitions)
}

func (s *Sandbox) installPath(ctx context.Context, path string, optional bool) error {
	objects, err := manifests.Load(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	set, err := manifests.Sort(objects)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return s.installSet(ctx, set)
}

// installAdmission comes last: a webhook that nobody serves yet would reject what it guards.
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

// installClusterAPI installs Cluster API's definitions and access rules from the module that core is built from.
func (s *Sandbox) installClusterAPI(ctx context.Context) error {
	set, err := s.clusterAPIManifests(ctx)
	if err != nil {
		return err
	}
	return s.installSet(ctx, set)
}

// installClusterAPIDefinitions installs them for nobody: without core, nobody converts either.
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

func (s *Sandbox) clusterAPIManifests(ctx context.Context) (manifests.Set, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	cmd.Dir = binaries.PinDir(s.root, "cluster-api")
	output, err := cmd.Output()
	if err != nil {
		return manifests.Set{}, fmt.Errorf("looking for the source of Cluster API: %w", err)
	}
	objects, err := manifests.Load(filepath.Join(strings.TrimSpace(string(output)), "core", "config", "default"))
	if err != nil {
		return manifests.Set{}, err
	}
	manifests.Aggregate(objects)
	return s.pointed(objects, ClusterAPI+webhookPort)
}

// pointed sorts objects and makes their webhooks call the given port.
func (s *Sandbox) pointed(objects []*unstructured.Unstructured, port string) (manifests.Set, error) {
	address, err := s.address(port)
	if err != nil {
		return manifests.Set{}, err
	}
	server := manifests.WebhookServer{Address: address, Bundle: s.authority.Bundle()}
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
