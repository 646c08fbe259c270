// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/owner"
)

// manager is the field manager of everything this controller applies.
const manager = naming.CAPTControlPlaneFieldManager

// Facts are everything a decision about a CAPTControlPlane rests on.
type Facts struct {
	Now time.Time
	// Cluster is nil until Cluster API made it the owner.
	Cluster *clusterv1.Cluster
	// Paused says why the object is paused; empty when it is not.
	Paused string
	// Infrastructure is the CAPTCluster of the Cluster; nil when it does not exist, or the Cluster has another provider's.
	Infrastructure *infrav1.CAPTCluster
	// Version is what spec.version means; VersionError says why it means nothing.
	Version      versions.KubernetesVersion
	VersionError error
	// Apply is the WorkspaceTemplateApply of the control plane.
	Apply owner.Facts
	// Template is the WorkspaceTemplate of the control plane, ProfileTemplates are those of its Fargate profiles.
	Template         owner.TemplateFacts
	ProfileTemplates []owner.TemplateFacts
	// Fargate is what is known of the Fargate profiles.
	Fargate fargate.Facts
	// Connection is the connection Secret; nil when it does not exist or is not needed yet.
	Connection *corev1.Secret
	// Kubeconfig and UserKubeconfig are what should be published, with what stands in the way of it.
	Kubeconfig, UserKubeconfig Published
	// Running is for how long the steps go on that have a timeout.
	Running Running
	// again is when to look again although nothing will wake us; zero is never.
	again time.Duration
	// tokens is what a kubeconfig with a token rests on.
	tokens tokenFacts
}

// lookAgain asks for another look after a while, for what no watch can tell. The soonest counts.
func (f *Facts) lookAgain(after time.Duration) {
	if f.again == 0 || after < f.again {
		f.again = after
	}
}

// Published is a kubeconfig Secret.
type Published struct {
	// Data is the kubeconfig it should hold; nil while there is none to publish.
	Data []byte
	// Reason and Problem say why there is none.
	Reason, Problem string
	// Note is what a person should know about Data although it can be used.
	Note string
	// Live is the Secret as it is; nil when it does not exist.
	Live *corev1.Secret
	// Written is true once the Secret holds Data.
	Written bool
}

// region is the one of the control plane, or that of its VPC.
func (f *Facts) region(controlPlane *controlplanev1.CAPTControlPlane) string {
	return owners.Region(controlPlane, f.Infrastructure)
}

// runningRegion is where the cluster is, which spec may no longer agree with.
func (f *Facts) runningRegion(controlPlane *controlplanev1.CAPTControlPlane) string {
	if region := f.Apply.Apply.Spec.Variables[naming.RegionVariable]; region != "" {
		return region
	}
	return f.region(controlPlane)
}

// infrastructureReady tells whether the VPC is there. Cluster API's word counts for other providers' infrastructure.
func (f *Facts) infrastructureReady() bool {
	if f.Cluster == nil || !ptr.Deref(f.Cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return false
	}
	return !f.hasCAPTCluster() || f.vpcID() != ""
}

// vpcID is the VPC of the CAPTCluster; empty while it is not known. A CAPTCluster that somebody else manages need not report
// what its spec says already.
func (f *Facts) vpcID() string {
	switch {
	case f.Infrastructure == nil:
		return ""
	case f.Infrastructure.Status.VPC.ID != "":
		return f.Infrastructure.Status.VPC.ID
	}
	return f.Infrastructure.Spec.VPC.ExistingID
}

// vpcSecretName is the Secret that describes the VPC; empty when nobody says which.
func (f *Facts) vpcSecretName() string {
	if f.Infrastructure == nil {
		return ""
	}
	return vpcSecret(f.Infrastructure)
}

func vpcSecret(captCluster *infrav1.CAPTCluster) string {
	switch vpc := captCluster.Spec.VPC; {
	case vpc.ConnectionSecretRef.IsDefined():
		return vpc.ConnectionSecretRef.Name
	case !vpc.Template.IsDefined():
		return ""
	}
	return naming.VPCConnectionSecret(captCluster.Name)
}

func (f *Facts) hasCAPTCluster() bool {
	ref := f.Cluster.Spec.InfrastructureRef
	return ref.Kind == "CAPTCluster" && ref.APIGroup == infrav1.GroupVersion.Group
}

// output of Terraform: published ones come from status, sensitive ones only from the connection Secret.
func (f *Facts) output(name string) string {
	if f.Apply.Apply != nil && f.Apply.Apply.Status.Outputs[name] != "" {
		return f.Apply.Apply.Status.Outputs[name]
	}
	if f.Connection != nil {
		return string(f.Connection.Data[name])
	}
	return ""
}

// runningVersion is what Terraform says that EKS runs, if it says so; else what it was asked for.
func (f *Facts) runningVersion() string {
	reported, err := versions.ParseKubernetesVersion(f.output(terraform.OutputClusterVersion))
	if err == nil && reported.EKS != f.Version.EKS {
		return reported.Semantic
	}
	return f.Version.Semantic
}

// endpoint is where the API server is, as Terraform says; the error says why that can not be told.
func (f *Facts) endpoint() (clusterv1.APIEndpoint, error) {
	text := f.output(terraform.OutputClusterEndpoint)
	if text == "" {
		return clusterv1.APIEndpoint{}, nil
	}
	host, port, err := terraform.ParseEndpoint(text)
	return clusterv1.APIEndpoint{Host: host, Port: port}, err
}
