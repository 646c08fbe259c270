// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// MachinePoolVariables lists the variables that CAPT sets for the template of a node group. They override variables of the user.
func MachinePoolVariables() []string {
	return []string{
		naming.ClusterVariable, naming.RegionVariable, naming.NodeGroupVariable, naming.VersionVariable, naming.DesiredSizeVariable,
		naming.MinSizeVariable, naming.MaxSizeVariable, naming.EKSConnectionVariable, naming.VPCConnectionVariable,
	}
}

// ValidateCAPTMachinePool checks what the schema of a CAPTMachinePool cannot: its name, its template, the variables, and consistency with other objects.
func ValidateCAPTMachinePool(ctx context.Context, reader Reader, pool *infrav1.CAPTMachinePool) (findings Findings, err error) {
	findings.Refuse(validateNameLength(pool.Name, naming.MaxCAPTMachinePoolNameLength)...)
	err = cmp.Or(
		findings.include(validateMachinePoolSpec(ctx, templates{Reader: reader, namespace: pool.Namespace}, &pool.Spec.CAPTMachinePoolTemplateResourceSpec, field.NewPath("spec"))),
		findings.include(validateNodeGroup(ctx, reader, pool)),
		findings.include(validateApplyReference(ctx, reader, pool, pool.Spec.WorkspaceTemplateApplyRef, field.NewPath("spec", "workspaceTemplateApplyRef"))))
	return findings, err
}

// ValidateCAPTMachinePoolTemplate applies the rules for CAPTMachinePools to a template.
func ValidateCAPTMachinePoolTemplate(ctx context.Context, reader Reader, template *infrav1.CAPTMachinePoolTemplate) (findings Findings, err error) {
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	err = findings.include(validateMachinePoolSpec(ctx, templates{reader, template.Namespace, true}, &template.Spec.Template.Spec, templatePath.Child("spec")))
	return findings, err
}

func validateMachinePoolSpec(ctx context.Context, of templates, spec *infrav1.CAPTMachinePoolTemplateResourceSpec, path *field.Path) (findings Findings, err error) {
	variables := variablesOf{given: spec.Variables, path: path.Child("variables"), setByCAPT: MachinePoolVariables()}
	err = cmp.Or(
		findings.include(of.validateUse(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"), variables)),
		findings.include(of.checkFields(ctx, spec.WorkspaceTemplateRef, MachinePoolFields(spec, path))))
	findings.Add(validateRecovery(spec.Recovery, path))
	return findings, err
}

var nodeGroupNamePath = field.NewPath("spec", "nodeGroupName")

// NodeGroup is a CAPTMachinePool with what determines its node group.
type NodeGroup struct {
	Pool *infrav1.CAPTMachinePool
	// MachinePool and WorkspaceTemplateApply; nil if they do not exist.
	MachinePool *clusterv1.MachinePool
	Apply       *infrav1.WorkspaceTemplateApply
}

// NodeGroupsOf reads the node groups of MachinePools, sorted by name. Those without a CAPTMachinePool have none.
func NodeGroupsOf(ctx context.Context, reader Getter, machinePools []clusterv1.MachinePool) (groups []NodeGroup, err error) {
	for i := range machinePools {
		group := NodeGroup{MachinePool: &machinePools[i]}
		name := claim.PoolOf(group.MachinePool)
		if name == "" {
			continue
		}
		if group.Pool, err = Get[*infrav1.CAPTMachinePool](ctx, reader, types.NamespacedName{Namespace: group.MachinePool.Namespace, Name: name}); err != nil {
			return nil, err
		}
		if group.Pool == nil {
			continue
		}
		if group.Apply, err = applyOf(ctx, reader, group.Pool); err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b NodeGroup) int { return cmp.Compare(a.Pool.Name, b.Pool.Name) })
	return groups, nil
}

func applyOf(ctx context.Context, reader Getter, pool *infrav1.CAPTMachinePool) (*infrav1.WorkspaceTemplateApply, error) {
	if !pool.Spec.WorkspaceTemplateApplyRef.IsDefined() {
		return nil, nil
	}
	return Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: pool.Namespace, Name: pool.Spec.WorkspaceTemplateApplyRef.Name})
}

func nodeGroupOf(ctx context.Context, reader Reader, pool *infrav1.CAPTMachinePool) (group NodeGroup, err error) {
	group.Pool = pool
	if group.MachinePool, err = reader.MachinePoolOf(ctx, naming.KeyOf(pool)); err != nil {
		return group, err
	}
	group.Apply, err = applyOf(ctx, reader, pool)
	return group, err
}

// Name is the name that the node group gets; empty while that is unknown.
func (g *NodeGroup) Name() string {
	if g.Pool.Spec.NodeGroupName != "" || g.MachinePool == nil {
		return g.Pool.Spec.NodeGroupName
	}
	return g.MachinePool.Name
}

// isRecorded reports whether status, which users cannot write, shows that the node group exists, or is being created.
func (g *NodeGroup) isRecorded() bool {
	return g.Pool.Status.WorkspaceTemplateApply != nil || g.Apply != nil && RecordedWorkspace(g.Apply) != ""
}

// InvalidName returns why EKS would refuse the name of a node group that does not exist yet.
func (g *NodeGroup) InvalidName() error {
	name := g.Name()
	if name == "" || g.isRecorded() || naming.IsNodeGroupName(name) {
		return nil
	}
	return fmt.Errorf("EKS does not accept %q as the name of a node group: a name has at most %d letters, digits, \"-\" and \"_\", and begins with a letter or digit. Recreate CAPTMachinePool %s with such a name in spec.nodeGroupName",
		name, naming.MaxNodeGroupNameLength, g.Pool.Name)
}

// Conflict returns that another CAPTMachinePool of the Cluster has the node group that this one would create.
func (g *NodeGroup) Conflict(others []NodeGroup) error {
	name := g.Name()
	if name == "" || g.isRecorded() {
		return nil
	}
	for i := range others {
		if other := &others[i]; other.Name() == name && other.precedes(g) {
			return fmt.Errorf("node group %s is that of CAPTMachinePool %s, and an EKS cluster has only one of a name. Recreate CAPTMachinePool %s with another name in spec.nodeGroupName",
				name, other.Pool.Name, g.Pool.Name)
		}
	}
	return nil
}

func (g *NodeGroup) precedes(other *NodeGroup) bool {
	return precedes(g.Pool, other.Pool, g.isRecorded())
}

// versions are the Kubernetes versions of the nodes, and the one that they are being updated to, in the form of EKS.
func (g *NodeGroup) versions() (found []string) {
	for _, text := range []string{g.Pool.Status.Version, g.requestedVersion()} {
		if version, err := ParseKubernetesVersion(text); err == nil && !slices.Contains(found, version.EKS) {
			found = append(found, version.EKS)
		}
	}
	return found
}

func (g *NodeGroup) requestedVersion() string {
	if g.Apply == nil {
		return ""
	}
	return g.Apply.Spec.Variables.Text(naming.VersionVariable)
}

// ValidateVersionOfNodes returns an error for a version change of a control plane that its node groups prevent: EKS refuses an upgrade that would leave nodes
// too far behind, and a rollback below the version of nodes (https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html).
func ValidateVersionOfNodes(from Versions, to string, groups []NodeGroup) error {
	target, ok := minorOf(to)
	if !ok || !from.changesTo(to) {
		return nil
	}
	var old, young []string
	for i := range groups {
		group := &groups[i]
		for _, version := range group.versions() {
			nodes, _ := minorOf(version)
			switch named := fmt.Sprintf("CAPTMachinePool %s (%s)", group.Pool.Name, version); {
			case target.before(nodes):
				young = append(young, named)
			case nodes.isTooOldFor(target):
				old = append(old, named)
			}
		}
	}
	const how = "spec.template.spec.version of their MachinePools"
	switch {
	case len(old) > 0:
		return fmt.Errorf("EKS does not upgrade the control plane to %s while nodes would be more than %d minor versions older: %s. First upgrade these node groups to %s or newer (%s)",
			target, maxNodeSkew, strings.Join(old, ", "), minorVersion{target.major, target.minor - maxNodeSkew}, how)
	case len(young) > 0:
		return fmt.Errorf("EKS does not roll the control plane back to %[1]s while nodes are newer: %[2]s. First roll these node groups back to %[1]s (%[3]s)", target, strings.Join(young, ", "), how)
	}
	return nil
}

// validateNodeGroup checks the node group of a new CAPTMachinePool. One with a finalizer was moved or restored, or its node group exists.
func validateNodeGroup(ctx context.Context, reader Reader, pool *infrav1.CAPTMachinePool) (findings Findings, err error) {
	if len(pool.Finalizers) > 0 {
		return findings, nil
	}
	group, err := nodeGroupOf(ctx, reader, pool)
	if err != nil {
		return findings, err
	}
	if invalid := group.InvalidName(); invalid != nil {
		findings.Refuse(field.Required(nodeGroupNamePath, invalid.Error()))
	}
	cluster := clusterOfPool(&group)
	if cluster == "" {
		return findings, nil
	}
	others, err := reader.NodeGroups(ctx, types.NamespacedName{Namespace: pool.Namespace, Name: cluster})
	if conflict := group.Conflict(others); err == nil && conflict != nil {
		findings.Refuse(Forbidden(nodeGroupNamePath, "%s", conflict))
	}
	return findings, err
}

// clusterOfPool returns the name of the Cluster of a node group; empty while it is unknown.
func clusterOfPool(group *NodeGroup) string {
	if group.MachinePool != nil {
		return group.MachinePool.Spec.ClusterName
	}
	return claim.ClusterName(group.Pool)
}

// eksNameOf returns the name of the EKS cluster of a node group; empty while it is unknown.
func eksNameOf(ctx context.Context, reader Reader, pool *infrav1.CAPTMachinePool, group *NodeGroup) (string, error) {
	name := clusterOfPool(group)
	cluster, err := Get[*clusterv1.Cluster](ctx, reader, types.NamespacedName{Namespace: pool.Namespace, Name: name})
	if err != nil {
		return "", err
	}
	controlPlane, err := controlPlaneOf(ctx, reader, cluster)
	if err != nil || controlPlane == nil {
		return "", err
	}
	own, err := eksClaimOf(ctx, reader, controlPlane)
	return own.Name(), err
}
