// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

var eksNamePath = field.NewPath("spec", "eksClusterName")

// EKSClaim is a CAPTControlPlane with what determines its EKS cluster: AWS has one of a name in each account and region.
type EKSClaim struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Cluster is the name of its Cluster; empty while that is unknown.
	Cluster string
	// CAPTCluster of the Cluster, WorkspaceTemplateApply and WorkspaceTemplate; nil if they do not exist, or may not be used.
	CAPTCluster *infrav1.CAPTCluster
	Apply       *infrav1.WorkspaceTemplateApply
	Template    *infrav1.WorkspaceTemplate
}

// Name returns the name of the EKS cluster: the one that Terraform received, or the one that it will receive; empty while that is unknown.
func (c *EKSClaim) Name() string {
	if c.Apply != nil && c.Apply.Spec.Variables.Text(naming.ClusterVariable) != "" {
		return c.Apply.Spec.Variables.Text(naming.ClusterVariable)
	}
	return claim.EKSClusterName(c.ControlPlane, c.Cluster)
}

func (c *EKSClaim) region() string {
	return cmp.Or(appliedRegion(c.Apply), Region(c.ControlPlane, c.CAPTCluster))
}

// providerConfig identifies the ProviderConfig, which determines the AWS account; empty while it is unknown.
func (c *EKSClaim) providerConfig() string {
	if c.Template == nil {
		return ""
	}
	spec, variables := &c.Template.Spec, c.ControlPlane.Spec.Variables
	if c.Apply != nil {
		variables = c.Apply.Spec.Variables
	}
	ref := ptr.Deref(spec.Template.Spec.ProviderConfigRef, terraform.ProviderConfigReference{})
	name := modules.ReplacePlaceholders(ref.Name, spec.Substitution.Escaping(), variables.Texts())
	config := render.ProviderConfigName(spec.WorkspaceScope, ref.Kind, name)
	if kind, name, found := strings.Cut(config, "/"); found && kind != render.DefaultProviderConfigKind {
		return kind + "/" + c.ControlPlane.Namespace + "/" + name
	}
	return config
}

// exists reports whether the EKS cluster exists, or is being created.
func (c *EKSClaim) exists() bool {
	return c.Apply != nil || c.ControlPlane.Spec.ControlPlaneEndpoint.Host != "" || ptr.Deref(c.ControlPlane.Status.Initialization.ControlPlaneInitialized, false)
}

// isRecorded reports whether status, which users cannot write, shows that the EKS cluster exists, or is being created.
func (c *EKSClaim) isRecorded() bool {
	return c.Apply != nil && RecordedWorkspace(c.Apply) != "" || ptr.Deref(c.ControlPlane.Status.Initialization.ControlPlaneInitialized, false)
}

// InvalidName returns why EKS would refuse the name of a cluster that does not exist yet.
func (c *EKSClaim) InvalidName() error {
	name := c.Name()
	if name == "" || c.exists() || naming.IsEKSClusterName(name) {
		return nil
	}
	return fmt.Errorf("%w. Set spec.eksClusterName of CAPTControlPlane %s to such a name", invalidEKSName(name), c.ControlPlane.Name)
}

func invalidEKSName(name string) error {
	return fmt.Errorf(`EKS does not accept %q, the name of the Cluster: a name has letters, digits, "-" and "_", begins with a letter or digit, and has at most %d characters`,
		name, naming.MaxEKSClusterNameLength)
}

// Conflict returns that another CAPTControlPlane has the EKS cluster that this one would create. A CAPTControlPlane of another namespace is not named.
func (c *EKSClaim) Conflict(others []EKSClaim) error {
	if c.exists() {
		return nil
	}
	i := slices.IndexFunc(others, func(other EKSClaim) bool { return other.precedes(c) && other.isSameCluster(c) })
	if i < 0 {
		return nil
	}
	owner, advice := "a CAPTControlPlane of another namespace", "Set spec.eksClusterName of CAPTControlPlane "+c.ControlPlane.Name+" to another name"
	if others[i].ControlPlane.Namespace == c.ControlPlane.Namespace {
		owner = "CAPTControlPlane " + others[i].ControlPlane.Name
	}
	if c.ControlPlane.Spec.EKSClusterName != "" {
		advice = "Delete this Cluster, and create it with another spec.eksClusterName"
	}
	config := c.providerConfig()
	return fmt.Errorf("EKS cluster %s in region %s with ProviderConfig %s is that of %s, and AWS has only one of a name. %s, or wait until the other is deleted",
		c.Name(), c.region(), config[strings.LastIndex(config, "/")+1:], owner, advice)
}

// isSameCluster reports whether two control planes have one EKS cluster, as far as that is known.
func (c *EKSClaim) isSameCluster(other *EKSClaim) bool {
	name, region, config := c.Name(), c.region(), c.providerConfig()
	return name != "" && region != "" && config != "" && name == other.Name() && region == other.region() && config == other.providerConfig()
}

func (c *EKSClaim) precedes(other *EKSClaim) bool {
	return precedes(c.ControlPlane, other.ControlPlane, c.isRecorded())
}

// precedes reports whether the cloud resource of an object comes before that of another object, whose own does not exist: it exists itself, or the object is
// older. One without a time is new.
func precedes(object, other metav1.Object, exists bool) bool {
	mine, its := object.GetCreationTimestamp(), other.GetCreationTimestamp()
	own, others := naming.KeyOf(object), naming.KeyOf(other)
	switch {
	case own == others:
		return false
	case exists:
		return true
	case mine.IsZero() != its.IsZero():
		return its.IsZero()
	case mine.Equal(&its):
		return own.String() < others.String()
	}
	return mine.Before(&its)
}

// eksClaimOf reads what determines the EKS cluster of a control plane.
func eksClaimOf(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (c EKSClaim, err error) {
	c = EKSClaim{ControlPlane: controlPlane, Cluster: claim.ClusterName(controlPlane)}
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil {
		return c, err
	}
	if cluster != nil {
		c.Cluster = cluster.Name
	}
	if c.CAPTCluster, err = captClusterOf(ctx, reader, controlPlane); err != nil {
		return c, err
	}
	if c.Apply, err = ApplyInUse(ctx, reader, controlPlane); err != nil {
		return c, err
	}
	template := controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace)
	if c.Apply != nil {
		template = c.Apply.TemplateKey()
	}
	c.Template, err = PermittedTemplate(ctx, reader, template, controlPlane.Namespace)
	return c, err
}

// EKSClaimsOf reads what determines the EKS clusters of control planes.
func EKSClaimsOf(ctx context.Context, reader Reader, controlPlanes []controlplanev1.CAPTControlPlane) (claims []EKSClaim, err error) {
	for i := range controlPlanes {
		found, err := eksClaimOf(ctx, reader, &controlPlanes[i])
		if err != nil {
			return nil, err
		}
		claims = append(claims, found)
	}
	return claims, nil
}

// validateEKSName checks the name of the EKS cluster of a control plane. A control plane with a finalizer was moved or restored, or its cluster exists.
func validateEKSName(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	given, isNew := controlPlane.Spec.EKSClusterName, len(controlPlane.Finalizers) == 0
	if given == "" && !isNew {
		return findings, nil
	}
	own, err := eksClaimOf(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	if own.Apply != nil && given != "" && own.Name() != given {
		findings.Refuse(Forbidden(eksNamePath, "the control plane was created with the name %s. Set the field to %[1]s, or remove it", own.Name()))
	}
	if isNew && !own.exists() && own.Name() != "" {
		err = findings.include(validateNewEKSName(ctx, reader, &own))
	}
	return findings, err
}

func validateNewEKSName(ctx context.Context, reader Reader, own *EKSClaim) (findings Findings, err error) {
	if invalid := own.InvalidName(); invalid != nil {
		findings.Refuse(field.Required(eksNamePath, invalid.Error()))
	}
	others, err := reader.EKSClaims(ctx, own.Name())
	if conflict := own.Conflict(others); err == nil && conflict != nil {
		findings.Warn(eksNamePath, "%s. Nothing is created before", conflict)
	}
	return findings, cmp.Or(err, findings.include(validateNameInVPC(ctx, reader, own)))
}

// validateNameInVPC warns if the VPC was created for another EKS cluster, whose name the tags of its subnets may have.
func validateNameInVPC(ctx context.Context, reader Reader, own *EKSClaim) (findings Findings, err error) {
	if own.CAPTCluster == nil || !own.CAPTCluster.Spec.WorkspaceTemplateApplyRef.IsDefined() {
		return findings, nil
	}
	vpc, err := Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: own.CAPTCluster.Namespace, Name: own.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name})
	if err != nil || vpc == nil {
		return findings, err
	}
	if name := vpc.Spec.Variables.Text(naming.ClusterVariable); name != "" && name != own.Name() {
		findings.Warn(eksNamePath, "the VPC keeps %s %s, with which it was created. If its module tags subnets with kubernetes.io/cluster/<name>, recreate the Cluster",
			naming.ClusterVariable, name)
	}
	return findings, nil
}

// validateEKSNameOfVPC checks the name of the EKS cluster before a new CAPTCluster has a VPC. While the control plane is unknown, it may still get a name.
func validateEKSNameOfVPC(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (findings Findings, err error) {
	cluster, err := reader.ClusterOf(ctx, captCluster)
	if err != nil || cluster == nil || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" || len(captCluster.Finalizers) > 0 {
		return findings, err
	}
	controlPlane, err := controlPlaneOf(ctx, reader, cluster)
	switch {
	case err != nil:
		return findings, err
	case controlPlane == nil && !naming.IsEKSClusterName(cluster.Name):
		findings.Warn(namePath, "%s. Set spec.eksClusterName of CAPTControlPlane %s. The VPC is not created before", invalidEKSName(cluster.Name), cluster.Spec.ControlPlaneRef.Name)
	case controlPlane != nil:
		own, err := eksClaimOf(ctx, reader, controlPlane)
		if invalid := own.InvalidName(); err == nil && invalid != nil {
			findings.Refuse(field.Required(namePath, invalid.Error()))
		}
		return findings, err
	}
	return findings, nil
}
