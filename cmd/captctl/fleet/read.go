// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands that show Clusters.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
)

// fleet has the objects of the Clusters of CAPT, sorted by namespace and name, and all WorkspaceTemplateApplies of their namespaces.
type fleet struct {
	clusters []*overview.Objects
	applies  map[client.ObjectKey]*infrav1.WorkspaceTemplateApply
}

// read returns the fleet of a namespace, or of all if it is empty.
func read(ctx context.Context, reader client.Reader, namespace string) (*fleet, error) {
	all, err := cluster.ReadObjects(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	found := &fleet{applies: all.Applies}
	for i := range all.Clusters {
		o := &overview.Objects{Cluster: &all.Clusters[i]}
		o.CAPTCluster, o.ControlPlane = all.Of(o.Cluster)
		if !isCAPT(o.Cluster) {
			continue
		}
		for _, name := range appliesOf(o) {
			if apply := found.applies[client.ObjectKey{Namespace: o.Cluster.Namespace, Name: name}]; apply != nil {
				o.Applies = append(o.Applies, apply)
			}
		}
		found.clusters = append(found.clusters, o)
	}
	return found, nil
}

// isCAPT reports whether the infrastructure or the control plane of a Cluster is CAPT's.
func isCAPT(c *clusterv1.Cluster) bool {
	return c.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group && c.Spec.InfrastructureRef.Kind == "CAPTCluster" ||
		c.Spec.ControlPlaneRef.APIGroup == controlplanev1.GroupVersion.Group && c.Spec.ControlPlaneRef.Kind == "CAPTControlPlane"
}

// appliesOf are the names of the WorkspaceTemplateApplies that the objects of a Cluster refer to.
func appliesOf(o *overview.Objects) (names []string) {
	if o.CAPTCluster != nil {
		names = append(names, o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name)
	}
	if o.ControlPlane != nil {
		names = append(names, o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name)
		for _, profile := range o.ControlPlane.Status.FargateProfiles {
			names = append(names, profile.WorkspaceTemplateApplyName)
		}
	}
	return names
}

// selected is the Cluster that an argument names.
type selected struct{ cluster.Selected }

// objects returns the Cluster with its objects.
func (s *selected) objects(ctx context.Context, reader client.Reader) (*overview.Objects, error) {
	found, err := s.find(ctx, reader)
	if err == nil && found == nil {
		err = fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; %s", s.Name, s.Namespace, elsewhere(ctx, reader, s.Name))
	}
	return found, err
}

// find returns the Cluster with its objects; nil if it does not exist.
func (s *selected) find(ctx context.Context, reader client.Reader) (*overview.Objects, error) {
	found, err := read(ctx, reader, s.Namespace)
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(found.clusters, func(objects *overview.Objects) bool { return objects.Cluster.Name == s.Name })
	if index < 0 {
		return nil, nil
	}
	return found.clusters[index], nil
}

// watched are the kinds that all commands of the package read, and more.
func watched(namespace string, more ...schema.GroupVersionKind) cluster.Watched {
	return cluster.Watched{Namespace: namespace, Kinds: append([]schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	}, more...)}
}

// elsewhere says where Clusters of a name are. A user who may not list all namespaces gets no names.
func elsewhere(ctx context.Context, reader client.Reader, name string) string {
	var all clusterv1.ClusterList
	var names []string
	if reader.List(ctx, &all) == nil {
		for i := range all.Items {
			if c := &all.Items[i]; c.Name == name && isCAPT(c) {
				names = append(names, c.Namespace+"/"+c.Name)
			}
		}
	}
	if len(names) == 0 {
		return "captctl get lists all Clusters"
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}
