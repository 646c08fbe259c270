// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// liveVersion is one that the sandbox's EKS can run, and liveUpgrade the next one.
const (
	liveVersion = "1.35"
	liveUpgrade = "1.36"
)

// sandboxRecipe makes clusters that can be used: their control planes are those of the samples for the sandbox. They take a
// provider with OpenTofu.
func sandboxRecipe() (*legacy.Recipe, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	samples, err := manifests.Load(filepath.Join(root, "config", "samples", "sandbox", "controlplane-template.yaml"))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(samples, func(o *unstructured.Unstructured) bool { return o.GetName() == "sandbox-controlplane" })
	if i < 0 {
		return nil, errors.New("the samples have no template sandbox-controlplane")
	}
	recipe := legacy.PlainRecipe()
	if recipe.ControlPlane, _, err = unstructured.NestedString(samples[i].Object, "spec", "template", "spec", "forProvider", "module"); err != nil {
		return nil, err
	}
	return recipe, nil
}

// live is clusters that a provider has really run, with the state and outputs of OpenTofu. Environment must have been started with one.
func live(recipe *legacy.Recipe, names ...string) legacy.Fixture {
	return legacy.Fixture{Clusters: func(of legacy.Names) []legacy.Cluster {
		var clusters []legacy.Cluster
		for _, name := range names {
			clusters = append(clusters, legacy.Cluster{
				Namespace: of.Namespace, Name: of.Prefix + name, Recipe: recipe, Version: liveVersion, Unreferenced: true, Live: true,
			})
		}
		return clusters
	}}
}

// referenceNames are those of the reference fleet: it lives in the namespace default, and one cluster of it elsewhere.
func referenceNames() legacy.Names {
	return legacy.Names{Namespace: "default", Other: "team-a"}
}

// reference is a fleet of the topology that CAPT v0.3.0 was measured with: every cluster has the helpers that it makes, and
// some have what is special. A nil recipe is one that no provider runs; with a recipe for a provider the fleet is live.
func reference(recipe *legacy.Recipe) legacy.Fixture {
	return legacy.Fixture{Clusters: func(names legacy.Names) []legacy.Cluster {
		demo := legacy.Cluster{Name: "demo", Addons: []legacy.Addon{{Name: "karpenter", Waits: true}, {Name: "fargate", Secret: true}}}
		prod := legacy.Cluster{Name: "prod-1", RetainVPC: true, Tags: map[string]string{"Environment": "prod"}}
		old := legacy.Cluster{Name: "in-old-vpc", ExistingVPC: "vpc-0a1b2c3d4e5f60718", EndpointFailed: true}
		broken := legacy.Cluster{Name: "broken", NeverReady: true}
		apps := legacy.Cluster{Name: "apps", Namespace: names.Other}
		clusters := []legacy.Cluster{demo, prod, old, broken, apps}
		for i := range clusters {
			c := &clusters[i]
			if c.Namespace == "" {
				c.Namespace = names.Namespace
			}
			if c.Name != demo.Name && c.Tags == nil {
				c.Tags = map[string]string{"Environment": "dev"}
			}
			c.Name, c.Helpers = names.Prefix+c.Name, true
			if recipe != nil {
				c.Recipe, c.Live, c.Version = recipe, true, liveVersion
			}
		}
		return clusters
	}}
}
