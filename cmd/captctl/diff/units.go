// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/versions"
)

// unit is a WorkspaceTemplateApply as the manager would write it for its owner.
type unit struct {
	cluster *clusterv1.Cluster // Nil if it has no owner.
	// owners are the objects that determine it.
	owners []validation.Owner
	live   *infrav1.WorkspaceTemplateApply // Nil if it does not exist yet.
	// desired has the spec that determines the Workspace; nil if the manager would delete the WorkspaceTemplateApply.
	desired *infrav1.WorkspaceTemplateApply
	// blocked is why the owner does not write it; empty if it does.
	blocked string
}

func (u *unit) apply() *infrav1.WorkspaceTemplateApply { return cmp.Or(u.desired, u.live) }

// isAffected reports whether a file has the unit, its template, or one of its owners.
func (s *source) isAffected(u *unit) bool {
	apply := u.apply()
	template := infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: apply.TemplateKey().Namespace, Name: apply.TemplateKey().Name}}
	return slices.ContainsFunc(append(u.owners, apply, &template), func(object validation.Owner) bool { return s.edited[editKey(object)] })
}

// units returns the WorkspaceTemplateApplies of the Cluster with a name, or all of them if it is empty. Those without a Cluster come last.
func (s *source) units(cluster string) (found []unit, err error) {
	owned := map[types.NamespacedName]bool{}
	exists := false
	for i := range s.clusters {
		if cluster != "" && s.clusters[i].Name != cluster {
			continue
		}
		units, err := s.unitsOf(&s.clusters[i])
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			owned[validation.KeyOf(u.apply())] = true
		}
		exists, found = exists || len(units) > 0, append(found, units...)
	}
	if cluster != "" && !exists {
		return nil, fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; captctl get lists all Clusters", cluster, s.namespace)
	}
	if cluster != "" {
		return found, nil
	}
	rest := len(found)
	for key, apply := range s.applies {
		if !owned[key] {
			found = append(found, unit{live: apply, desired: apply})
		}
	}
	slices.SortFunc(found[rest:], func(a, b unit) int {
		return cmp.Compare(validation.KeyOf(a.live).String(), validation.KeyOf(b.live).String())
	})
	return found, nil
}

// clusterObjects are the objects of a Cluster.
type clusterObjects struct {
	*source
	cluster      *clusterv1.Cluster
	captCluster  *infrav1.CAPTCluster
	controlPlane *controlplanev1.CAPTControlPlane
}

// unitsOf returns the units of a Cluster: the VPC, the control plane, the Fargate profiles.
func (s *source) unitsOf(cluster *clusterv1.Cluster) (found []unit, err error) {
	f := &clusterObjects{source: s, cluster: cluster}
	key := func(ref clusterv1.ContractVersionedObjectReference) types.NamespacedName {
		return types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}
	}
	if ref := cluster.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		f.captCluster = s.captClusters[key(ref)]
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		f.controlPlane = s.controlPlanes[key(ref)]
	}
	if c := f.captCluster; c != nil && c.Spec.VPC.Template.IsDefined() {
		want := legacy.ExpectationOfCAPTCluster(c, cluster.Name)
		name := cmp.Or(c.Spec.WorkspaceTemplateApplyRef.Name, want.SchemeName)
		u, err := f.unit(name, want.Template, desired.VPCIntent(c, cluster.Name), naming.CAPTClusterFieldManager)
		if err != nil {
			return nil, err
		}
		if legacy.IsPending(c) {
			u.blocked = notAdopted
		}
		found = append(found, u)
	}
	if f.controlPlane == nil {
		return found, nil
	}
	u, err := f.controlPlaneUnit()
	if err != nil {
		return nil, err
	}
	profiles, err := f.profiles(&u)
	return append(append(found, u), profiles...), err
}

const notAdopted = "CAPT v0.3 created it, and it has not been adopted; captctl migrate plan shows what an adoption changes"

// controlPlaneUnit returns the unit of the control plane.
func (f *clusterObjects) controlPlaneUnit() (u unit, err error) {
	c := f.controlPlane
	want := legacy.ExpectationOfControlPlane(c, f.cluster.Name)
	version, invalid := versions.ParseKubernetesVersion(c.Spec.Version)
	intent, err := desired.ControlPlaneIntent(c, desired.ControlPlaneInputs{
		Cluster: f.cluster.Name, EKSVersion: version.EKS, Region: desired.Region(c, f.captCluster), VPCID: desired.VPCID(f.captCluster),
	})
	if err != nil {
		return u, err
	}
	u, err = f.unit(cmp.Or(c.Spec.WorkspaceTemplateApplyRef.Name, want.SchemeName), want.Template, intent, naming.CAPTControlPlaneFieldManager)
	if err != nil {
		return u, err
	}
	errs := []error{invalid, desired.RegionChange(c, f.captCluster, u.live)}
	if f.captCluster != nil {
		errs = append(errs, desired.RegionConflict(c, f.captCluster, u.live))
	}
	if from := versions.CurrentVersions(c, u.live); invalid == nil && from.Requested != version.EKS {
		_, step := versions.ValidateVersionChange(from, version.EKS)
		errs = append(errs, step)
	}
	for _, err := range errs {
		if err != nil && u.blocked == "" {
			u.blocked = "CAPTControlPlane " + c.Name + ": " + err.Error()
		}
	}
	if legacy.IsPending(c) {
		u.blocked = notAdopted
	}
	return u, nil
}

// profiles returns the units of the Fargate profiles: those of spec, and those that spec no longer has. controlPlane is the unit of the control
// plane, whose Workspace must exist before profiles are created.
func (f *clusterObjects) profiles(controlPlane *unit) (found []unit, err error) {
	c, names := f.controlPlane, map[string]bool{}
	for i := range c.Spec.FargateProfiles {
		profile := &c.Spec.FargateProfiles[i]
		want := legacy.ExpectationOfFargateProfile(f.cluster.Name, profile)
		name := cmp.Or(profile.WorkspaceTemplateApplyRef.Name, want.SchemeName)
		names[name] = true
		if controlPlane.live == nil {
			continue
		}
		variables, connection := controlPlane.desired.Spec.Variables, naming.ControlPlaneConnectionSecret(c.Name)
		if ref := controlPlane.desired.Spec.WriteConnectionSecretToRef; ref != nil {
			connection = ref.Name
		}
		intent, err := desired.FargateIntent(c, profile, desired.FargateInputs{
			Cluster: f.cluster.Name, EKSName: variables[naming.ClusterVariable], Connection: connection, VPCSecret: desired.VPCSecret(f.captCluster),
			Region: cmp.Or(variables[naming.RegionVariable], desired.Region(c, f.captCluster)),
		})
		if err != nil {
			return nil, err
		}
		u, err := f.unit(name, want.Template, intent, naming.CAPTControlPlaneFieldManager)
		if err != nil {
			return nil, err
		}
		u.blocked = controlPlane.blocked
		found = append(found, u)
	}
	for key, apply := range f.applies {
		if !names[key.Name] && apply.Labels[naming.SerializeLabel] == naming.FargateProfilesGroup && metav1.IsControlledBy(apply, c) {
			found = append(found, unit{cluster: f.cluster, owners: f.owners(), live: apply})
		}
	}
	slices.SortStableFunc(found, func(a, b unit) int { return cmp.Compare(a.apply().Name, b.apply().Name) })
	return found, nil
}

func (f *clusterObjects) owners() (found []validation.Owner) {
	if f.captCluster != nil {
		found = append(found, f.captCluster)
	}
	if f.controlPlane != nil {
		found = append(found, f.controlPlane)
	}
	return found
}

// unit returns the WorkspaceTemplateApply with a name as a field manager would write it.
func (f *clusterObjects) unit(name string, template infrav1.WorkspaceTemplateReference, intent desired.Intent, manager string) (unit, error) {
	key := types.NamespacedName{Namespace: f.cluster.Namespace, Name: name}
	u := unit{cluster: f.cluster, owners: f.owners(), live: f.applies[key]}
	spec := intent.For(u.live).Spec(key.Namespace, template)
	if u.live == nil {
		u.desired = &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}, Spec: spec}
		return u, nil
	}
	applied, err := afterApply(u.live, spec, manager)
	u.desired = applied
	return u, err
}

// afterApply returns a copy of a WorkspaceTemplateApply after server-side apply of the spec that determines the Workspace. Variables that the field
// manager no longer sets are removed, those of others are kept.
func afterApply(live *infrav1.WorkspaceTemplateApply, spec infrav1.WorkspaceTemplateApplySpec, manager string) (*infrav1.WorkspaceTemplateApply, error) {
	before, err := ssa.Unstructured(live)
	if err != nil {
		return nil, err
	}
	want, err := ssa.Unstructured(&infrav1.WorkspaceTemplateApply{Spec: spec})
	if err != nil {
		return nil, err
	}
	content, _, err := unstructured.NestedMap(ssa.Applied(before, want, manager).Object, "spec")
	if err != nil {
		return nil, err
	}
	after, result := live.DeepCopy(), infrav1.WorkspaceTemplateApplySpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &result); err != nil {
		return nil, err
	}
	after.Spec.TemplateRef, after.Spec.Variables, after.Spec.WriteConnectionSecretToRef = result.TemplateRef, result.Variables, result.WriteConnectionSecretToRef
	return after, nil
}
