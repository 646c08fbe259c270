// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// Source reads the objects that are needed one by one. A nil object does not exist.
type Source struct {
	TemplateOf  func(key types.NamespacedName) (*infrav1.WorkspaceTemplate, error)
	LabelsOf    func(namespace string) (labels.Set, error)
	WorkspaceOf func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error)
	Revisions   rollout.Store
}

// Fleet has the objects that determine Workspaces.
type Fleet struct {
	Source
	Clusters      []clusterv1.Cluster
	CAPTClusters  map[types.NamespacedName]*infrav1.CAPTCluster
	ControlPlanes map[types.NamespacedName]*controlplanev1.CAPTControlPlane
	Applies       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
	// MachinePools may include those of other providers.
	MachinePools     map[types.NamespacedName]*clusterv1.MachinePool
	CAPTMachinePools map[types.NamespacedName]*infrav1.CAPTMachinePool
	// Evidence returns why a WorkspaceTemplateApply may belong to an owner without a reference. If it is nil, Expectation.EvidenceFor decides.
	Evidence func(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence
	// Held returns why the manager writes nothing for an owner, which may be nil, and its WorkspaceTemplateApply, which may not exist, whatever their
	// rules say; empty if they decide. It may be nil.
	Held func(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) string
	// HeldMissing returns why none is created for a WorkspaceTemplateApply whose cluster-wide Workspace does not exist; empty if one is. It may be nil.
	// read and list return Workspaces and the other WorkspaceTemplateApplies.
	HeldMissing func(apply *infrav1.WorkspaceTemplateApply, read func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error),
		list func(workspace string) ([]infrav1.WorkspaceTemplateApply, error)) (string, error)
}

// Unit is a WorkspaceTemplateApply as the manager would write it for its owner.
type Unit struct {
	// Cluster that owns the owner; nil if there is none.
	Cluster *clusterv1.Cluster
	// Owner is the CAPTCluster, CAPTControlPlane or CAPTMachinePool that writes it; nil without one. Others are the objects that determine it in addition.
	Owner  validation.Owner
	Others []validation.Owner
	Live   *infrav1.WorkspaceTemplateApply // Nil if it does not exist yet.
	// Desired is as the owner writes it; nil while that is blocked, or if the owner deletes it.
	Desired *infrav1.WorkspaceTemplateApply
	// Blocked is why the owner does not write it; nil if it does.
	Blocked *desired.Blocked
	// Obsolete is true if the owner deletes it.
	Obsolete bool
	// Queued is true while Terraform runs for another unit, after which this one is created.
	Queued bool
	// kept is true if the owner does not delete it, because it does not belong to the owner.
	kept bool
	// pending is true if the owner would change it.
	pending  bool
	name     types.NamespacedName
	template infrav1.WorkspaceTemplateReference
}

// Apply returns the WorkspaceTemplateApply as the manager would leave it.
func (u *Unit) Apply() *infrav1.WorkspaceTemplateApply {
	if u.Desired == nil && u.Live == nil {
		return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: u.name.Namespace, Name: u.name.Name}, Spec: infrav1.WorkspaceTemplateApplySpec{TemplateRef: u.template}}
	}
	return cmp.Or(u.Desired, u.Live)
}

// Units returns the WorkspaceTemplateApplies of the Cluster with a name, or all of them if it is empty. Those without an owner come last.
func (f *Fleet) Units(cluster string) (found []Unit, err error) {
	owned := map[types.NamespacedName]bool{}
	add := func(units []Unit, err error) error {
		for _, u := range units {
			owned[naming.KeyOf(u.Apply())] = true
		}
		found = append(found, units...)
		return err
	}
	var below []*clusterv1.Cluster
	for i := range f.Clusters {
		if c := &f.Clusters[i]; cluster == "" || c.Name == cluster {
			below = append(below, c)
		}
	}
	if cluster == "" {
		below = append(below, nil)
	}
	for _, c := range below {
		if err := add(f.unitsOf(c)); err != nil {
			return nil, err
		}
	}
	for _, apply := range sorted(f.Applies) {
		if of := f.labeledCluster(apply); !owned[naming.KeyOf(apply)] && (cluster == "" || slices.Contains(below, of)) {
			found = append(found, Unit{Live: apply, Desired: apply, Cluster: of})
		}
	}
	return found, nil
}

func (f *Fleet) labeledCluster(object metav1.Object) *clusterv1.Cluster {
	return f.cluster(object.GetNamespace(), object.GetLabels()[clusterv1.ClusterNameLabel])
}

func (f *Fleet) cluster(namespace, name string) *clusterv1.Cluster {
	i := slices.IndexFunc(f.Clusters, func(c clusterv1.Cluster) bool { return c.Namespace == namespace && c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Clusters[i]
}

// group returns the Cluster below which an owner is listed: the one that owns it, or that refers to it; nil without one.
func (f *Fleet) group(owner validation.Owner) *clusterv1.Cluster {
	if c := f.cluster(owner.GetNamespace(), claim.OwnerCluster(owner)); c != nil {
		return c
	}
	if i := slices.IndexFunc(f.Clusters, func(c clusterv1.Cluster) bool { return claim.RefersTo(&c, owner) }); i >= 0 {
		return &f.Clusters[i]
	}
	return nil
}

// unitsOf returns the units of the owners below a Cluster, or of those below none: VPCs, control planes, Fargate profiles, machine pools.
func (f *Fleet) unitsOf(cluster *clusterv1.Cluster) (found []Unit, err error) {
	for _, captCluster := range sorted(f.CAPTClusters) {
		if f.group(captCluster) != cluster || !captCluster.Spec.VPC.Template.IsDefined() {
			continue
		}
		u, err := f.vpcUnit(cluster, captCluster)
		if err != nil {
			return nil, err
		}
		found = append(found, u)
	}
	for _, controlPlane := range sorted(f.ControlPlanes) {
		if f.group(controlPlane) != cluster {
			continue
		}
		units, err := f.controlPlaneUnits(cluster, controlPlane)
		if err != nil {
			return nil, err
		}
		found = append(found, units...)
	}
	for _, pool := range sorted(f.CAPTMachinePools) {
		if f.labeledCluster(pool) != cluster {
			continue
		}
		u, err := f.poolUnit(cluster, pool)
		if err != nil {
			return nil, err
		}
		found = append(found, u)
	}
	return found, nil
}

func sorted[O any](objects map[types.NamespacedName]O) (list []O) {
	keys := make([]types.NamespacedName, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		list = append(list, objects[key])
	}
	return list
}

func (f *Fleet) in(namespace string) (found []infrav1.WorkspaceTemplateApply) {
	for _, apply := range sorted(f.Applies) {
		if apply.Namespace == namespace {
			found = append(found, *apply)
		}
	}
	return found
}

// find returns what an owner finds among the WorkspaceTemplateApplies of its namespace.
func (f *Fleet) find(owner metav1.Object, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation) desired.Existing {
	evidenceFor := f.Evidence
	if evidenceFor == nil {
		evidenceFor = claim.Expectation.EvidenceFor
	}
	return desired.Find(owner, ref, want, f.in(owner.GetNamespace()), evidenceFor)
}

// permitted returns the template that an object of a namespace refers to; nil if it does not exist or does not allow the namespace.
func (f *Fleet) permitted(key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, error) {
	template, err := f.TemplateOf(key)
	if err != nil || template == nil {
		return nil, err
	}
	permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) { return f.LabelsOf(namespace) })
	if err != nil || !permitted {
		return nil, err
	}
	return template, nil
}

func (f *Fleet) templateFacts(ref infrav1.WorkspaceTemplateReference, namespace string, fields []validation.TypedField) *desired.TemplateFacts {
	key := ref.Key(namespace)
	template, err := f.permitted(key, namespace)
	facts := desired.Template(key, template, err, fields)
	return &facts
}

// unit returns the unit of an owner. finder describes the WorkspaceTemplateApply that it expects.
func (f *Fleet) unit(cluster *clusterv1.Cluster, object validation.Owner, kind, manager string, existing desired.Existing, expected types.NamespacedName, owner desired.Owner) (Unit, error) {
	u := Unit{Cluster: cluster, Owner: object, Live: f.Applies[expected], name: expected, Blocked: owner.Blocked(), kept: existing.Apply == nil}
	if waits := u.Blocked != nil && u.Blocked.Reason == controlplanev1.WaitingForWorkspaceReason; u.Blocked != nil && !waits {
		return u, nil
	}
	want := owner.Want()
	if want == nil {
		return u, nil
	}
	gvk := infrav1.GroupVersion.WithKind(kind)
	if kind == "CAPTControlPlane" {
		gvk = controlplanev1.GroupVersion.WithKind(kind)
	}
	configuration, err := want.Configuration(object, metav1.NewControllerRef(object, gvk), existing.Apply)
	if err != nil {
		return u, err
	}
	u.pending = desired.Differs(existing.Apply, configuration, manager)
	if u.Blocked == nil {
		u.Desired, err = desired.Applied(existing.Apply, configuration, manager)
	}
	return u, err
}

func (f *Fleet) vpcUnit(cluster *clusterv1.Cluster, c *infrav1.CAPTCluster) (u Unit, err error) {
	vpc := &desired.VPC{CAPTCluster: c, Cluster: f.cluster(c.Namespace, claim.OwnerCluster(c))}
	name := claim.ClusterName(c)
	if vpc.Cluster != nil && desired.HasCAPTControlPlane(vpc.Cluster) {
		if controlPlane := f.ControlPlanes[types.NamespacedName{Namespace: c.Namespace, Name: vpc.Cluster.Spec.ControlPlaneRef.Name}]; controlPlane != nil {
			vpc.EKS, name = &validation.EKSClaim{ControlPlane: controlPlane, Cluster: name}, claim.EKSClusterName(controlPlane, name)
		}
	}
	want := claim.ExpectationOfCAPTCluster(c, name)
	vpc.Existing = f.find(c, c.Spec.WorkspaceTemplateApplyRef, want)
	if vpc.EKS != nil && vpc.Apply == nil {
		*vpc.EKS = f.controlPlane(vpc.EKS.ControlPlane).Claim()
		vpc.OtherClaims = f.otherClaims(vpc.EKS)
	}
	template := c.Spec.VPC.Template
	vpc.Template = f.templateFacts(template.Ref, c.Namespace, validation.VPCFields(&c.Spec.CAPTClusterTemplateResourceSpec, field.NewPath("spec")))
	key := types.NamespacedName{Namespace: c.Namespace, Name: cmp.Or(c.Spec.WorkspaceTemplateApplyRef.Name, want.SchemeName)}
	u, err = f.unit(cluster, c, "CAPTCluster", naming.CAPTClusterFieldManager, vpc.Existing, key, vpc)
	u.template = template.Ref
	return u, err
}

// controlPlane returns a control plane with the facts about it.
func (f *Fleet) controlPlane(c *controlplanev1.CAPTControlPlane) *desired.ControlPlane {
	d := desired.NewControlPlane(c, f.cluster(c.Namespace, claim.OwnerCluster(c)), nil)
	if d.Cluster != nil && desired.HasCAPTCluster(d.Cluster) {
		d.CAPTCluster = f.CAPTClusters[types.NamespacedName{Namespace: c.Namespace, Name: d.Cluster.Spec.InfrastructureRef.Name}]
	}
	d.Existing = f.find(c, c.Spec.WorkspaceTemplateApplyRef, claim.ExpectationOfControlPlane(c, claim.ClusterName(c)))
	d.Template = f.templateFacts(c.Spec.WorkspaceTemplateRef, c.Namespace, append(validation.ControlPlaneFields(c), validation.NetworkFields(d.Cluster)...))
	if d.NodeGroups = f.nodeGroups(d.Cluster); d.Cluster != nil && c.DeletionTimestamp.IsZero() {
		objects := &graph.Objects{ControlPlane: c, Cluster: d.Cluster, CAPTCluster: d.CAPTCluster, Applies: sorted(f.Applies)}
		d.Cycle, d.CycleBlocks = objects.Cycle()
	}
	return d
}

// machinePool returns the MachinePool that owns a CAPTMachinePool and refers to it; nil if there is none.
func (f *Fleet) machinePool(pool *infrav1.CAPTMachinePool) *clusterv1.MachinePool {
	found := f.MachinePools[types.NamespacedName{Namespace: pool.Namespace, Name: claim.OwnerMachinePool(pool)}]
	if found == nil || claim.PoolOf(found) != pool.Name {
		return nil
	}
	return found
}

// nodeGroups returns the node groups of a Cluster, which may be nil.
func (f *Fleet) nodeGroups(cluster *clusterv1.Cluster) []validation.NodeGroup {
	var own []clusterv1.MachinePool
	for _, machinePool := range sorted(f.MachinePools) {
		if cluster != nil && machinePool.Namespace == cluster.Namespace && machinePool.Spec.ClusterName == cluster.Name {
			own = append(own, *machinePool)
		}
	}
	groups, _ := validation.NodeGroupsOf(context.Background(), getter{f}, own) // The reader has all objects, and returns no errors.
	return groups
}

// getter implements validation.Getter for the objects that determine node groups.
type getter struct{ *Fleet }

func (r getter) Object(_ context.Context, key types.NamespacedName, kind validation.Owner) (validation.Owner, error) {
	if _, ok := kind.(*infrav1.CAPTMachinePool); ok {
		return r.CAPTMachinePools[key], nil
	}
	return r.Applies[key], nil
}

// controlPlaneOf returns the control plane of a Cluster as its machine pools see it. Without a CAPTControlPlane, it only has the Cluster.
func (f *Fleet) controlPlaneOf(cluster *clusterv1.Cluster) *desired.ControlPlane {
	var controlPlane *controlplanev1.CAPTControlPlane
	if desired.HasCAPTControlPlane(cluster) {
		controlPlane = f.ControlPlanes[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}]
	}
	if controlPlane == nil {
		return &desired.ControlPlane{Cluster: cluster}
	}
	d := desired.NewControlPlane(controlPlane, cluster, nil)
	if desired.HasCAPTCluster(cluster) {
		d.CAPTCluster = f.CAPTClusters[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}]
	}
	d.Apply = f.Applies[types.NamespacedName{Namespace: cluster.Namespace, Name: controlPlane.Spec.WorkspaceTemplateApplyRef.Name}]
	return d
}

func (f *Fleet) poolUnit(cluster *clusterv1.Cluster, pool *infrav1.CAPTMachinePool) (u Unit, err error) {
	d, eksName := &desired.MachinePool{Pool: pool, MachinePool: f.machinePool(pool)}, ""
	var others []validation.Owner
	if d.MachinePool != nil {
		others = append(others, d.MachinePool)
	}
	if cluster != nil {
		c := f.controlPlaneOf(cluster)
		if d.ControlPlane, eksName = c, claim.EKSClusterName(c.ControlPlane, cluster.Name); c.Apply != nil {
			eksName = cmp.Or(c.EKSCluster().EKSName, eksName)
		}
		if c.ControlPlane != nil {
			others = append(others, c.ControlPlane)
		}
		if c.CAPTCluster != nil {
			others = append(others, c.CAPTCluster)
		}
	}
	want := claim.ExpectationOfMachinePool(pool, eksName, d.NodeGroupName())
	if d.Existing = f.find(pool, pool.Spec.WorkspaceTemplateApplyRef, want); d.Apply == nil {
		d.NodeGroups = f.nodeGroups(cluster)
	}
	fields := append(validation.MachinePoolFields(&pool.Spec.CAPTMachinePoolTemplateResourceSpec, field.NewPath("spec")), validation.FieldsOfMachinePool(d.MachinePool)...)
	d.Template = f.templateFacts(pool.Spec.WorkspaceTemplateRef, pool.Namespace, fields)
	key := types.NamespacedName{Namespace: pool.Namespace, Name: cmp.Or(pool.Spec.WorkspaceTemplateApplyRef.Name, want.SchemeName)}
	u, err = f.unit(cluster, pool, "CAPTMachinePool", naming.CAPTMachinePoolFieldManager, d.Existing, key, d)
	u.template, u.Others = pool.Spec.WorkspaceTemplateRef, others
	return u, err
}

// otherClaims returns the other control planes with an EKS cluster of the same name.
func (f *Fleet) otherClaims(own *validation.EKSClaim) (claims []validation.EKSClaim) {
	for _, other := range sorted(f.ControlPlanes) {
		apply := f.Applies[types.NamespacedName{Namespace: other.Namespace, Name: other.Spec.WorkspaceTemplateApplyRef.Name}]
		named := validation.EKSClaim{ControlPlane: other, Cluster: claim.ClusterName(other), Apply: apply}
		if other != own.ControlPlane && named.Name() == own.Name() {
			claims = append(claims, f.controlPlane(other).Claim())
		}
	}
	return claims
}

func (f *Fleet) controlPlaneUnits(cluster *clusterv1.Cluster, c *controlplanev1.CAPTControlPlane) (found []Unit, err error) {
	d := f.controlPlane(c)
	if own := d.Claim(); d.Apply == nil {
		d.OtherClaims = f.otherClaims(&own)
	}
	name := types.NamespacedName{Namespace: c.Namespace, Name: cmp.Or(c.Spec.WorkspaceTemplateApplyRef.Name, naming.ControlPlaneWorkspaceTemplateApply(c.Name))}
	u, err := f.unit(cluster, c, "CAPTControlPlane", naming.CAPTControlPlaneFieldManager, d.Existing, name, d)
	if err != nil {
		return nil, err
	}
	if u.template = c.Spec.WorkspaceTemplateRef; d.CAPTCluster != nil {
		u.Others = append(u.Others, d.CAPTCluster)
	}
	profiles, err := f.profiles(d, &u)
	return append([]Unit{u}, profiles...), err
}

// profiles returns the units of the Fargate profiles: those of spec, and those that spec no longer has. controlPlane is the unit of the control
// plane, whose Workspace must exist before profiles are created.
func (f *Fleet) profiles(d *desired.ControlPlane, controlPlane *Unit) (found []Unit, err error) {
	c, names := d.ControlPlane, map[string]bool{}
	all := f.in(c.Namespace)
	owned, busy := profilesOf(c, all)
	ready := controlPlane.Blocked == nil && !controlPlane.pending && desired.IsUpToDate(d.Apply)
	wanted := wantedProfiles(d)
	for i := range wanted {
		profile := &wanted[i]
		p := &desired.FargateProfile{ControlPlane: c, Profile: profile, Cluster: d.EKSCluster(), Owned: owned[profile.Name], Ready: ready}
		want, ref := desired.ExpectationOfFargateProfile(p.Cluster.Name, p.Cluster.EKSName, profile)
		p.Existing = f.find(c, ref, want)
		u, err := f.unit(controlPlane.Cluster, c, "CAPTControlPlane", naming.CAPTControlPlaneFieldManager, p.Existing, types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}, p)
		if err != nil {
			return nil, err
		}
		u.template, u.Others, u.Queued = profile.WorkspaceTemplateRef, controlPlane.Others, busy && u.Live == nil
		busy = busy || u.Live == nil
		names[ref.Name] = true
		found = append(found, u)
	}
	for _, apply := range owned {
		if !names[apply.Name] && (!c.DeletionTimestamp.IsZero() || !desired.HasProfile(c, apply)) {
			found = append(found, Unit{Cluster: controlPlane.Cluster, Owner: c, Others: controlPlane.Others, Live: apply, Obsolete: true})
		}
	}
	slices.SortStableFunc(found, func(a, b Unit) int { return cmp.Compare(a.Apply().Name, b.Apply().Name) })
	return found, nil
}

// wantedProfiles are the Fargate profiles that the control plane writes: none before its own WorkspaceTemplateApply, and none while it is deleted.
func wantedProfiles(d *desired.ControlPlane) []controlplanev1.FargateProfile {
	if d.Cluster == nil || !d.ControlPlane.DeletionTimestamp.IsZero() || d.Apply == nil || d.Apply.Spec.WorkspaceName == "" {
		return nil
	}
	return d.ControlPlane.Spec.FargateProfiles
}

// profilesOf returns the WorkspaceTemplateApplies of the Fargate profiles of a control plane, by the name of the profile, and whether Terraform
// changes one of them.
func profilesOf(c *controlplanev1.CAPTControlPlane, all []infrav1.WorkspaceTemplateApply) (owned map[string]*infrav1.WorkspaceTemplateApply, busy bool) {
	owned = map[string]*infrav1.WorkspaceTemplateApply{}
	for i := range all {
		if apply := &all[i]; apply.Labels[naming.SerializeLabel] == naming.FargateProfilesGroup && metav1.IsControlledBy(apply, c) {
			owned[desired.ProfileName(apply)] = apply
			busy = busy || !desired.IsUpToDate(apply)
		}
	}
	return owned, busy
}

// pausedBy returns why a unit is paused; empty if it is not.
func (f *Fleet) pausedBy(u *Unit) string {
	why := desired.Paused(u.Cluster, u.Apply())
	if u.Owner != nil {
		why = cmp.Or(why, desired.Paused(nil, u.Owner))
	}
	return why
}

func (f *Fleet) othersThan(apply *infrav1.WorkspaceTemplateApply) (others []infrav1.WorkspaceTemplateApply) {
	for _, other := range sorted(f.Applies) {
		if naming.KeyOf(other) != naming.KeyOf(apply) {
			others = append(others, *other)
		}
	}
	return others
}

// readOwner implements desired.ReadOwner: other kinds are not read.
func (f *Fleet) readOwner(namespace string, ref metav1.OwnerReference) (metav1.Object, bool, error) {
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	switch group, _, _ := strings.Cut(ref.APIVersion, "/"); group + "/" + ref.Kind {
	case infrav1.GroupVersion.Group + "/CAPTCluster":
		return orNil(f.CAPTClusters[key]), true, nil
	case infrav1.GroupVersion.Group + "/CAPTMachinePool":
		return orNil(f.CAPTMachinePools[key]), true, nil
	case controlplanev1.GroupVersion.Group + "/CAPTControlPlane":
		return orNil(f.ControlPlanes[key]), true, nil
	case clusterv1.GroupVersion.Group + "/Cluster":
		return orNil(f.cluster(key.Namespace, key.Name)), true, nil
	}
	return nil, false, nil
}

// orNil avoids an interface that is not nil but has a nil pointer.
func orNil[T any, P interface {
	*T
	metav1.Object
}](object P) metav1.Object {
	if object == nil {
		return nil
	}
	return object
}

// unowned reports on a Workspace without a WorkspaceTemplateApply.
func (f *Fleet) unowned(key types.NamespacedName) (exists, upToDate bool, err error) {
	for _, scope := range terraform.Scopes() {
		live, err := f.WorkspaceOf(scope, key.Namespace, key.Name)
		if err != nil || live == nil {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		return true, len(conditions) > 0 && !slices.ContainsFunc(conditions, func(c any) bool { return c.(map[string]any)["status"] != "True" }), nil
	}
	return false, false, nil
}

// missing describes the dependencies that a WorkspaceTemplateApply waits for; empty if there are none. What its status records about Secrets counts:
// they are not read.
func (f *Fleet) missing(apply *infrav1.WorkspaceTemplateApply) string {
	var messages []string
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		key := apply.DependencyKey(dependency)
		providers := slices.DeleteFunc(f.in(key.Namespace), func(other infrav1.WorkspaceTemplateApply) bool { return other.Spec.WorkspaceName != key.Name })
		missing, _ := desired.MissingWorkspace(apply, dependency, providers, func() (bool, bool, error) { return f.unowned(key) })
		if missing != "" {
			messages = append(messages, missing)
		}
	}
	for _, dependency := range apply.Spec.WaitForSecrets {
		for _, missing := range apply.Status.MissingDependencies {
			if missing.Kind == "Secret" && missing.Name == dependency.Name {
				messages = append(messages, missing.Message)
			}
		}
	}
	return strings.Join(messages, "; ")
}

// deleting reports whether the WorkspaceTemplateApply is being deleted, or its owner deletes it.
func (u *Unit) deleting() bool {
	return u.Live != nil && (u.Obsolete || !u.Live.DeletionTimestamp.IsZero() || u.ownerDeleted())
}

// ownerDeleted reports whether the owner is being deleted, and deletes it then.
func (u *Unit) ownerDeleted() bool {
	return u.Owner != nil && u.Owner.GetDeletionTimestamp() != nil && (u.Live == nil || !u.kept)
}

// compareDeletion sets what happens to the Workspace of a WorkspaceTemplateApply that is being deleted, or that its owner deletes.
func (f *Fleet) compareDeletion(u *Unit, w *Workspace) error {
	u.Blocked, u.Desired = nil, u.Live
	if paused := f.pausedBy(u); paused != "" {
		w.Reason, w.Message = clusterv1.PausedReason, "deleted when it is no longer paused: "+paused
		return nil
	}
	for _, held := range []func(*Unit) *desired.Blocked{f.ownerHeld, f.ownerWaits, f.applyHeld} {
		if blocked := held(u); blocked != nil {
			w.because(blocked)
			return nil
		}
	}
	if u.Live.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain {
		w.Reason, w.Message = infrav1.DeletingReason, "deletionPolicy is Retain, so the Workspace and its resources are kept"
		return nil
	}
	subject, err := f.workspace(u, false)
	switch {
	case err != nil:
		return err
	case subject.Live == nil:
		w.Reason, w.Message = infrav1.DeletingReason, "the Workspace does not exist"
	case !subject.Owned():
		w.Reason, w.Message = infrav1.DeletingReason, fmt.Sprintf("Workspace %s is kept: it is not recorded for this object", subject.Name)
	case subject.Live.GetDeletionTimestamp() != nil:
		w.Reason, w.Message = infrav1.WaitingForWorkspaceDeletionReason, "the Workspace is being deleted"
	default:
		if waiting := desired.WaitingForDependents(u.Live, f.in(u.Live.Namespace)); waiting != nil {
			w.because(waiting)
			return nil
		}
		w.Action, w.Message = ActionDestroy, u.whyDeleted()
	}
	return nil
}

func (u *Unit) whyDeleted() string {
	switch {
	case u.Obsolete && !u.ownerDeleted():
		return "spec of the CAPTControlPlane no longer has the Fargate profile"
	case u.Live.DeletionTimestamp.IsZero():
		return "its owner is being deleted"
	}
	return "WorkspaceTemplateApply " + u.Live.Name + " is being deleted"
}

// ownerHeld returns why the owner, which is being deleted, deletes nothing.
func (f *Fleet) ownerHeld(u *Unit) *desired.Blocked {
	if !u.ownerDeleted() {
		return nil
	}
	if desired.IsDeletionProtected(u.Owner) {
		return desired.DeletionProtected("")
	}
	if desired.AllowsDelete(u.Owner) {
		return nil
	}
	if pool, ok := u.Owner.(*infrav1.CAPTMachinePool); ok {
		return desired.HeldByMachinePools(sorted(f.MachinePools), pool, "this object")
	}
	return desired.HeldByClusters(f.referring(u.Owner), "this object")
}

func (f *Fleet) referring(object metav1.Object) (found []*clusterv1.Cluster) {
	for i := range f.Clusters {
		if claim.RefersTo(&f.Clusters[i], object) {
			found = append(found, &f.Clusters[i])
		}
	}
	slices.SortFunc(found, func(a, b *clusterv1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// ownerWaits returns what the owner deletes before the WorkspaceTemplateApply: the control planes before the VPC, Fargate profiles before the
// control plane.
func (f *Fleet) ownerWaits(u *Unit) *desired.Blocked {
	if !u.ownerDeleted() || !u.Live.DeletionTimestamp.IsZero() {
		return nil
	}
	if owner, ok := u.Owner.(*infrav1.CAPTCluster); ok {
		if waiting := desired.WaitingForControlPlanes(f.controlPlanesOf(owner)); waiting != nil {
			return waiting
		}
	}
	var helpers []infrav1.WorkspaceTemplateApply
	for _, apply := range f.in(u.Live.Namespace) {
		if u.Obsolete || apply.Name == u.Live.Name || !metav1.IsControlledBy(&apply, u.Owner) {
			continue
		}
		if apply.Labels[naming.SerializeLabel] == naming.FargateProfilesGroup {
			return &desired.Blocked{Reason: controlplanev1.FargateProfileDeletingReason, Message: "the control plane is deleted after its Fargate profiles"}
		}
		helpers = append(helpers, apply)
	}
	if next := desired.NextToDelete(u.Live, helpers); !slices.Contains(next, u.Live) {
		return desired.WaitingForDeletion(next)
	}
	return nil
}

func (f *Fleet) controlPlanesOf(c *infrav1.CAPTCluster) (names []string) {
	label, referred := c.Labels[clusterv1.ClusterNameLabel], ""
	for _, cluster := range f.referring(c) {
		if cluster.Spec.ControlPlaneRef.Kind == "CAPTControlPlane" {
			referred = cluster.Spec.ControlPlaneRef.Name
		}
	}
	for _, controlPlane := range sorted(f.ControlPlanes) {
		labeled := label != "" && controlPlane.Labels[clusterv1.ClusterNameLabel] == label
		if controlPlane.Namespace == c.Namespace && (labeled || controlPlane.Name == referred) {
			names = append(names, controlPlane.Name)
		}
	}
	return names
}

// applyHeld returns why the deletion of the WorkspaceTemplateApply destroys nothing.
func (f *Fleet) applyHeld(u *Unit) *desired.Blocked {
	apply := u.Live
	if conflict := validation.RetainConflict(apply, f.in(apply.Namespace)); conflict != "" {
		return &desired.Blocked{Reason: infrav1.DeletionPolicyConflictReason, Message: conflict}
	}
	if own := u.Owner != nil && !u.Obsolete; own && desired.IsDeletionProtected(u.Owner) {
		controller := metav1.GetControllerOf(apply)
		if controller != nil && controller.UID == u.Owner.GetUID() {
			return desired.DeletionProtected(controller.Kind + " " + controller.Name)
		}
	}
	return nil
}
