// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
)

// ReferenceNames are those of the reference fleet: it lives in the namespace default, and one cluster of it elsewhere.
func ReferenceNames() Names {
	return Names{Namespace: "default", Other: "team-a"}
}

// Reference is a fleet of the topology that CAPT v0.3.0 was measured with: every cluster has the helpers that it makes, and
// some have what is special. A nil recipe is one that no provider runs; with a recipe for a provider the fleet is live.
func Reference(recipe *Recipe) Fixture {
	return Fixture{Clusters: func(names Names) []Cluster {
		demo := Cluster{Name: "demo", Addons: []Addon{{Name: "karpenter", Waits: true}, {Name: "fargate", Secret: true}}}
		prod := Cluster{Name: "prod-1", RetainVPC: true, Tags: map[string]string{"Environment": "prod"}}
		old := Cluster{Name: "in-old-vpc", ExistingVPC: "vpc-0a1b2c3d4e5f60718", EndpointFailed: true}
		broken := Cluster{Name: "broken", NeverReady: true}
		apps := Cluster{Name: "apps", Namespace: names.Other}
		clusters := []Cluster{demo, prod, old, broken, apps}
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
				c.Recipe, c.Live, c.Version = recipe, true, LiveVersion
			}
		}
		return clusters
	}}
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
