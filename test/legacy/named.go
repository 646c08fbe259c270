// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/sandbox"
)

// one makes a fixture of a single cluster, called demo, from what is particular about it.
func one(change func(*Cluster, Names)) Fixture {
	return Fixture{Clusters: func(names Names) []Cluster {
		c := Cluster{Namespace: names.Namespace, Name: names.Prefix + "demo"}
		change(&c, names)
		return []Cluster{c}
	}}
}

// two is one with a second cluster.
func two(change func(first, second *Cluster, names Names)) Fixture {
	return Fixture{Clusters: func(names Names) []Cluster {
		first := Cluster{Namespace: names.Namespace, Name: names.Prefix + "demo"}
		second := Cluster{Namespace: names.Namespace, Name: names.Prefix + "other"}
		change(&first, &second, names)
		return []Cluster{first, second}
	}}
}

// Named are the ways in which legacy fleets are known to be.
func Named() map[string]Fixture {
	fixtures := map[string]Fixture{}
	for _, group := range []map[string]Fixture{references(), collisions(), states(), tools()} {
		maps.Copy(fixtures, group)
	}
	return fixtures
}

// references between control planes and WorkspaceTemplateApplies.
func references() map[string]Fixture {
	return map[string]Fixture{
		"reference-set":                  one(func(*Cluster, Names) {}),
		"reference-empty-generated-name": one(func(c *Cluster, _ Names) { c.Unreferenced = true }),
		// An early version of CAPT v0.3 called the WorkspaceTemplateApply of every control plane like this.
		"reference-empty-hand-made-fixed-name": one(func(c *Cluster, names Names) {
			c.Name, c.Unreferenced, c.Apply = names.Prefix+"shop", true, "demo-eks-controlplane-apply"
		}),
		"reference-empty-arbitrary-name": one(func(c *Cluster, names Names) {
			c.Unreferenced, c.Apply = true, names.Prefix+"production-eks"
		}),
		// Only its content, and its Workspace, show whose it is.
		"hand-made-without-owner-reference": one(func(c *Cluster, names Names) {
			c.Unreferenced, c.HandMade, c.Apply = true, true, names.Prefix+"written-by-hand"
		}),
		"helpers-present": one(func(c *Cluster, _ Names) { c.Unreferenced, c.Helpers = true, true }),
		"control-plane-name-differs": one(func(c *Cluster, names Names) {
			c.ControlPlane, c.Network, c.Unreferenced = names.Prefix+"brain", names.Prefix+"network", true
		}),
		"templates-in-default": one(func(c *Cluster, names Names) { c.inDefault(names).VPCSecretNamespace = names.Namespace }),
		// The Secret of the VPC is in another namespace than its WorkspaceTemplateApply, and stays there.
		"templates-in-default-with-secret": one(func(c *Cluster, names Names) { c.inDefault(names) }),
		// Not every template of a VPC names a Secret, and nothing may ask for one now.
		"vpc-without-secret": one(func(c *Cluster, _ Names) {
			recipe := plain
			recipe.WithoutVPCSecret = true
			c.Recipe = &recipe
		}),
	}
}

// collisions of names, and of claims.
func collisions() map[string]Fixture {
	return map[string]Fixture{
		// The second cluster was made when the Workspaces of the first one were there: CAPT v0.3 took them for its own.
		"equal-names-in-two-namespaces": two(func(first, second *Cluster, names Names) {
			*second = Cluster{Namespace: names.Other, Name: first.Name, WithoutWorkspaces: true, Twin: first.Namespace + "/" + first.Name}
			first.Disputed, second.Disputed, first.DisputedVPC, second.DisputedVPC = true, true, true, true
		}),
		// Both names less "-apply" are one.
		"x-and-x-apply": two(func(first, second *Cluster, names Names) {
			first.Apply, second.Apply = names.Prefix+"x-apply", names.Prefix+"x"
			first.Disputed, second.Disputed, second.WithoutEKS = true, true, true
			second.Twin = first.Namespace + "/" + first.Name
		}),
		"two-claimants": two(func(first, second *Cluster, _ Names) {
			second.Apply, second.WithoutApply = first.Name+"-eks-controlplane-apply", true
			second.Twin = first.Namespace + "/" + first.Name
			first.Disputed, second.Disputed = true, true
		}),
	}
}

// states in which a cluster may be when CAPT v0.3 is frozen.
func states() map[string]Fixture {
	return map[string]Fixture{
		"existing-vpc":         one(func(c *Cluster, _ Names) { c.ExistingVPC = "vpc-0123456789abcdef0" }),
		"retained-vpc":         one(func(c *Cluster, _ Names) { c.RetainVPC = true }),
		"status-wiped":         one(func(c *Cluster, _ Names) { c.StatusWiped, c.Unreferenced = true, true }),
		"apply-failed":         one(func(c *Cluster, _ Names) { c.ApplyFailed = true }),
		"cluster-paused":       one(func(c *Cluster, _ Names) { c.Paused, c.Unreferenced = true, true }),
		"deletion-in-progress": one(func(c *Cluster, _ Names) { c.Deleting, c.Disputed, c.Unreferenced = true, true, true }),
	}
}

// tools that write objects, or templates of them.
func tools() map[string]Fixture {
	templates := one(func(*Cluster, Names) {})
	templates.ControlPlaneTemplates = 2
	return map[string]Fixture{
		"clusterclass-owned": one(func(c *Cluster, _ Names) {
			c.Applier, c.Network, c.ControlPlane, c.Unreferenced = Topology, c.Name+"-7xk2p", c.Name+"-m4v9q", true
		}),
		"control-plane-templates": templates,
		"flux-managed":            one(func(c *Cluster, _ Names) { c.Applier, c.Unreferenced = Flux, true }),
		"argocd-managed":          one(func(c *Cluster, _ Names) { c.Applier, c.Unreferenced = ArgoCD, true }),
	}
}

// inDefault puts the templates into the namespace default, which other fixtures may do as well.
func (c *Cluster) inDefault(names Names) *Recipe {
	recipe := plain
	recipe.Prefix = names.Prefix
	c.Templates, c.Recipe = "default", &recipe
	return &recipe
}

// PlainRecipe makes clusters without a server to connect to, for a provider with OpenTofu.
func PlainRecipe() *Recipe {
	recipe := plain
	recipe.ProviderConfig = sandbox.ProviderConfigName
	return &recipe
}

// Addon is a WorkspaceTemplateApply that a user wrote for a cluster.
type Addon struct {
	// Name without that of the cluster.
	Name string
	// Waits says that it waits for the Workspace of the control plane.
	Waits bool
	// Secret says that it writes a connection Secret.
	Secret bool
}

func (c *Cluster) createAddons(a *author, controlPlane *unstructured.Unstructured) {
	hand := *c
	hand.HandMade, hand.Deleting = true, false
	adoptions := a.objects.Adoptions
	for _, addon := range c.Addons {
		typed := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.Name+"-"+addon.Name)}
		typed.Spec.TemplateRef, typed.Spec.Variables = c.ref(addonTemplate), map[string]string{"cluster_name": c.Name}
		if addon.Waits {
			typed.Spec.WaitForWorkspaces = []infrav1beta1.WorkspaceReference{{Name: naming.LegacyWorkspace(c.Apply)}}
		}
		if addon.Secret {
			typed.Spec.WriteConnectionSecretToRef = &infrav1beta1.SecretReference{Name: typed.Name + "-connection", Namespace: c.Namespace}
		}
		hand.createApply(a, controlPlane, typed, map[string]string{"id": c.hash(typed.Name, 32)})
	}
	a.objects.Adoptions = adoptions
}
