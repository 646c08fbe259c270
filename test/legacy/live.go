// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// LiveVersion is one that the sandbox's EKS can run, and LiveUpgrade the next one.
const (
	LiveVersion = "1.35"
	LiveUpgrade = "1.36"
)

// SandboxRecipe makes clusters that can be used: their control planes are those of the samples for the sandbox. They take a
// provider with OpenTofu.
func SandboxRecipe() (*Recipe, error) {
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
		return nil, fmt.Errorf("the samples have no template sandbox-controlplane")
	}
	recipe := plain
	recipe.ProviderConfig = sandbox.ProviderConfigName
	if recipe.ControlPlane, _, err = unstructured.NestedString(samples[i].Object, "spec", "template", "spec", "forProvider", "module"); err != nil {
		return nil, err
	}
	return &recipe, nil
}

// PlainRecipe makes clusters without a server to connect to, for a provider with OpenTofu.
func PlainRecipe() *Recipe {
	recipe := plain
	recipe.ProviderConfig = sandbox.ProviderConfigName
	return &recipe
}

// Live is clusters that a provider has really run, with the state and outputs of OpenTofu. World must have been started with one.
func Live(recipe *Recipe, names ...string) Fixture {
	return Fixture{Clusters: func(of Names) []Cluster {
		var clusters []Cluster
		for _, name := range names {
			clusters = append(clusters, Cluster{
				Namespace: of.Namespace, Name: of.Prefix + name, Recipe: recipe, Version: LiveVersion, Unreferenced: true, Live: true,
			})
		}
		return clusters
	}}
}
