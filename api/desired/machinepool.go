// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// MachinePool is an EKS node group.
type MachinePool struct {
	Pool *infrav1.CAPTMachinePool
	// MachinePool is nil until Cluster API has set the owner reference.
	MachinePool *clusterv1.MachinePool
	// ControlPlane of the Cluster, with its WorkspaceTemplateApply; nil if there is none, or another provider's.
	ControlPlane *ControlPlane
	Existing
	Template *TemplateFacts
	// NodeGroups are those of the Cluster; not needed once the node group is being created.
	NodeGroups []validation.NodeGroup
}

// Blocked returns why the WorkspaceTemplateApply is not written.
func (m *MachinePool) Blocked() *Blocked {
	named := m.ControlPlane != nil && m.ControlPlane.Apply != nil
	return Chain{
		m.waitingForMachinePool, m.invalidName, m.nameConflict, m.unverified(named, m.waitingForControlPlane), m.Existing.blocked, m.templateBlocked, m.waitingForControlPlane, m.invalidScaling,
		m.versionBlocked, m.takeover,
	}.First()
}

// TemplateBlocks reports whether the template is among what blocks.
func (m *MachinePool) TemplateBlocks() bool { return m.templateBlocked() != nil }

func (m *MachinePool) waitingForMachinePool() *Blocked {
	if m.MachinePool != nil {
		return nil
	}
	return &Blocked{infrav1.WaitingForOwnerReason,
		"no MachinePool owns this object. Create a MachinePool whose spec.template.spec.infrastructureRef names it; if it exists, check that the Cluster of its spec.clusterName exists and is not paused, and that Cluster API runs"}
}

func (m *MachinePool) nodeGroup() *validation.NodeGroup {
	return &validation.NodeGroup{Pool: m.Pool, MachinePool: m.MachinePool, Apply: m.Apply}
}

// NodeGroupName returns the name of the EKS node group; empty while it is not known.
func (m *MachinePool) NodeGroupName() string { return m.nodeGroup().Name() }

func (m *MachinePool) invalidName() *Blocked {
	return blockedBy(infrav1.InvalidNodeGroupNameReason, "nothing is created: ", m.nodeGroup().InvalidName())
}

// existingName is the name of the node group: that of the WorkspaceTemplateApply, if it has one. Another name, such as that of a MachinePool that took the
// place of the first one, would replace the node group.
func (m *MachinePool) existingName() string {
	if m.Apply == nil {
		return m.NodeGroupName()
	}
	return cmp.Or(m.Apply.Spec.Variables.Text(naming.NodeGroupVariable), m.NodeGroupName())
}

// nameConflict blocks a pool whose node group another pool has, or will have.
func (m *MachinePool) nameConflict() *Blocked {
	return blockedBy(infrav1.InvalidNodeGroupNameReason, "nothing is created: ", m.nodeGroup().Conflict(m.NodeGroups))
}

// templateBlocked blocks the use of a template that the pool does not use yet.
func (m *MachinePool) templateBlocked() *Blocked {
	if !m.Pool.DeletionTimestamp.IsZero() || m.Template.inUse(m.Apply, m.Pool.Spec.ProviderID != "") {
		return nil
	}
	return m.Template.blocked()
}

func (m *MachinePool) waitingForControlPlane() *Blocked {
	blocked := func(format string, args ...any) *Blocked {
		return &Blocked{infrav1.WaitingForControlPlaneReason, fmt.Sprintf(format, args...)}
	}
	c := m.ControlPlane
	switch {
	case c == nil || c.Cluster == nil:
		return blocked("waiting for Cluster %s, which does not exist. Create it, or correct spec.clusterName of the MachinePool", m.MachinePool.Spec.ClusterName)
	case !HasCAPTControlPlane(c.Cluster):
		return blocked("the control plane of Cluster %s is not a CAPTControlPlane, and CAPT creates node groups only for its own EKS clusters. Use a machine pool of the provider of the control plane", c.Cluster.Name)
	case c.ControlPlane == nil:
		return blocked("waiting for CAPTControlPlane %s, which does not exist. Create it, or correct spec.controlPlaneRef of the Cluster", c.Cluster.Spec.ControlPlaneRef.Name)
	case c.Apply == nil || c.Apply.Spec.WorkspaceName == "" || !ptr.Deref(c.ControlPlane.Status.Initialization.ControlPlaneInitialized, false):
		return blocked("waiting for CAPTControlPlane %s to be initialized", c.ControlPlane.Name)
	}
	return nil
}

// ControlPlaneReady reports whether the control plane can have node groups.
func (m *MachinePool) ControlPlaneReady() bool {
	return m.MachinePool != nil && m.waitingForControlPlane() == nil
}

func (m *MachinePool) invalidScaling() *Blocked {
	_, err := m.Size()
	return blockedBy(infrav1.InvalidScalingReason, "", err)
}

// Size are the numbers of nodes of a node group.
type Size struct {
	Min, Max int32
	// Desired is nil if another client than CAPT manages the size.
	Desired *int32
	// OutOfBounds is why Desired is not spec.replicas of the MachinePool; empty if it is.
	OutOfBounds string
	// Overridden are fields of spec.scaling with another value than the annotation that takes precedence.
	Overridden field.ErrorList
}

// Size returns the size of the node group. The error is for users.
func (m *MachinePool) Size() (s Size, err error) {
	var lower, upper *int32
	if lower, err = m.limit(&s, clusterv1.AutoscalerMinSizeAnnotation, "minSize", m.Pool.Spec.Scaling.MinSize); err != nil {
		return s, err
	}
	if upper, err = m.limit(&s, clusterv1.AutoscalerMaxSizeAnnotation, "maxSize", m.Pool.Spec.Scaling.MaxSize); err != nil {
		return s, err
	}
	replicas, managed := m.MachinePool.Spec.Replicas, ManagesReplicas(m.MachinePool)
	switch {
	case !managed && upper == nil:
		return s, fmt.Errorf("spec.scaling.maxSize is required: the annotation %s of MachinePool %s says that another client manages the replicas, and EKS needs a limit", clusterv1.ReplicasManagedByAnnotation, m.MachinePool.Name)
	case !managed:
		s.Min, s.Max = ptr.Deref(lower, 0), *upper
	default:
		// Absent replicas mean the minimum, as far as Cluster API leaves them absent.
		wanted := ptr.Deref(replicas, ptr.Deref(lower, 1))
		s.Min = ptr.Deref(lower, min(wanted, ptr.Deref(upper, wanted)))
		s.Max = ptr.Deref(upper, max(wanted, s.Min, 1))
		s.Desired = ptr.To(max(s.Min, min(s.Max, wanted)))
		if *s.Desired != wanted {
			s.OutOfBounds = fmt.Sprintf("MachinePool %s has %d replicas, and its node group may have %d to %d: the nearest size is %d. Scale the MachinePool, or change spec.scaling of CAPTMachinePool %s",
				m.MachinePool.Name, wanted, s.Min, s.Max, *s.Desired, m.Pool.Name)
		}
	}
	if s.Min > s.Max {
		return s, fmt.Errorf("the minimum size %d is above the maximum size %d. Correct spec.scaling, or the annotations %s and %s of MachinePool %s",
			s.Min, s.Max, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation, m.MachinePool.Name)
	}
	return s, nil
}

// limit returns the limit in an annotation of the MachinePool or, without it, in a field of spec.scaling.
func (m *MachinePool) limit(s *Size, annotation, name string, value *int32) (*int32, error) {
	text, ok := m.MachinePool.Annotations[annotation]
	if !ok {
		return value, nil
	}
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil || number == 0 && annotation == clusterv1.AutoscalerMaxSizeAnnotation { // EKS refuses such a maximum.
		return nil, fmt.Errorf("annotation %s of MachinePool %s is not a number of nodes. Correct or remove it", annotation, m.MachinePool.Name)
	}
	size := int32(number)
	if value != nil && *value != size {
		s.Overridden = append(s.Overridden, validation.Invalid(field.NewPath("spec", "scaling", name), "has no effect: annotation %s of MachinePool %s is %d, and takes precedence. Remove one of them", annotation, m.MachinePool.Name, size))
	}
	return &size, nil
}

// ManagesReplicas reports whether Cluster API and CAPT manage the size of a MachinePool; else another client does, for example a cluster autoscaler.
func ManagesReplicas(machinePool *clusterv1.MachinePool) bool {
	by, external := machinePool.Annotations[clusterv1.ReplicasManagedByAnnotation]
	return !external || by == "false" // As Cluster API decides it.
}

// Version returns the Kubernetes version of the node group: that of the MachinePool or, without one, the version that the control plane runs.
func (m *MachinePool) Version() (validation.KubernetesVersion, error) {
	text := m.MachinePool.Spec.Template.Spec.Version
	return validation.ParseKubernetesVersion(cmp.Or(text, m.ControlPlane.ControlPlane.Status.Version, m.ControlPlane.ControlPlane.Spec.Version))
}

// versionBlocked blocks a version that the control plane does not support. One that the WorkspaceTemplateApply already has changes nothing.
func (m *MachinePool) versionBlocked() *Blocked {
	prefix := fmt.Sprintf("spec.template.spec.version of MachinePool %s: ", m.MachinePool.Name)
	version, err := m.Version()
	if err != nil {
		return blockedBy(infrav1.InvalidVersionReason, prefix, err)
	}
	if m.Apply != nil && m.Apply.Spec.Variables.Text(naming.VersionVariable) == version.EKS {
		return nil
	}
	controlPlane := m.ControlPlane.ControlPlane
	running, wanted := cmp.Or(controlPlane.Status.Version, controlPlane.Spec.Version), controlPlane.Spec.Version
	err = validation.ValidateNodeVersion(version.EKS, running)
	if err != nil && validation.ValidateNodeVersion(version.EKS, wanted) == nil {
		return &Blocked{infrav1.WaitingForVersionReason, fmt.Sprintf("waiting for CAPTControlPlane %s to run %s: %v", controlPlane.Name, version.EKS, err)}
	}
	return blockedBy(infrav1.InvalidVersionReason, prefix, err)
}

// Want describes the WorkspaceTemplateApply. Its Workspace waits for those of the control plane and the VPC, so that the node group is destroyed
// first when all are deleted.
func (m *MachinePool) Want() *Want {
	cluster := m.ControlPlane.EKSCluster()
	namespace := m.Pool.Namespace
	want := &Want{
		Expectation: claim.ExpectationOfMachinePool(m.Pool, cluster.EKSName, m.NodeGroupName()), Ref: m.Pool.Spec.WorkspaceTemplateApplyRef,
		ClusterName: cluster.Name, Template: m.Pool.Spec.WorkspaceTemplateRef, Intent: m.intent(&cluster),
		WaitForWorkspaces: append([]infrav1.WorkspaceDependency{{Name: cluster.Workspace, Namespace: namespace}}, m.ControlPlane.vpcWorkspace()...),
	}
	if cluster.VPCSecretName != "" {
		want.WaitForSecrets = []infrav1.SecretDependency{{Name: cluster.VPCSecretName, Namespace: namespace, Keys: []string{terraform.OutputVPCConfig}}}
	}
	return want
}

// intent returns what is written into the WorkspaceTemplateApply; api/validation lists the variables.
func (m *MachinePool) intent(cluster *EKSCluster) Intent {
	version, _ := m.Version() // An invalid one blocks, as invalid sizes do.
	size, _ := m.Size()
	variables := with(m.Pool.Spec.Variables, map[string]string{
		naming.ClusterVariable:       cluster.EKSName,
		naming.RegionVariable:        cluster.Region,
		naming.NodeGroupVariable:     m.existingName(),
		naming.VersionVariable:       version.EKS,
		naming.EKSConnectionVariable: cluster.ConnectionName,
		naming.VPCConnectionVariable: cluster.VPCSecretName,
	})
	for name, number := range map[string]*int32{naming.MinSizeVariable: &size.Min, naming.MaxSizeVariable: &size.Max, naming.DesiredSizeVariable: size.Desired} {
		if delete(variables, name); number != nil {
			variables[name] = apiextensionsv1.JSON{Raw: []byte(strconv.Itoa(int(*number)))}
		}
	}
	intent := Intent{Variables: variables, ConnectionSecret: naming.MachinePoolConnectionSecret(m.Pool.Name)}
	if m.Apply != nil && m.Apply.Spec.WriteConnectionSecretToRef == nil {
		intent.ConnectionSecret = "" // A user has created it without one, and its Workspace stays as it is.
	}
	return intent
}
