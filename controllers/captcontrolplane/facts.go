// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/recovery"
)

// fieldManager is the field manager of everything this controller applies.
const fieldManager = naming.CAPTControlPlaneFieldManager

// Facts are what a reconcile observed, and the results of its writes.
type Facts struct {
	Now time.Time
	// GateDecision is about the control plane.
	GateDecision engine.GateDecision
	// Cluster is nil until Cluster API has set the owner reference.
	Cluster *clusterv1.Cluster
	// Paused is why the object is paused; empty when it is not.
	Paused string
	// Clusters refer to the control plane.
	Clusters []*clusterv1.Cluster
	// Infrastructure is the CAPTCluster of the Cluster; nil when it does not exist, or the Cluster uses another provider.
	Infrastructure *infrav1.CAPTCluster
	// Apply is the WorkspaceTemplateApply of the control plane.
	Apply owner.Facts
	// Template is the WorkspaceTemplate of the control plane, ProfileTemplates are those of its Fargate profiles.
	Template         desired.TemplateFacts
	ProfileTemplates []desired.TemplateFacts
	// Fargate are the Fargate profiles.
	Fargate fargate.Facts
	// Connection is the connection Secret; nil when it does not exist or is not needed.
	Connection *corev1.Secret
	// Kubeconfig and UserKubeconfig are the kubeconfig Secrets.
	Kubeconfig, UserKubeconfig kubeconfigsecret.Kubeconfig
	// CreatesTokens is true when this manager creates tokens, NameConflict when another control plane has an EKS cluster of the same
	// name for longer.
	CreatesTokens, NameConflict bool
	// Graph has the objects of the dependency graph; nil while the control plane has no Cluster, or is being deleted.
	Graph *graph.Objects
	// Running is the duration of the operations that have a timeout.
	Running Running
	// Earlier are the durations of operations of other control planes with the same template; nil at rest.
	Earlier progress.Durations
	// EndpointProbe is spec.endpointProbe; Disabled if this manager probes no API servers. Probed are the results.
	EndpointProbe controlplanev1.EndpointProbe
	Probed        health.Probed
	// Recovers is true if this manager recovers control planes. History is read only if it could recreate this one.
	Recovers bool
	History  *recovery.History
	// Recovered is true once this reconcile has started the recovery action of the plan; RecoveryProblem is why it could not.
	Recovered       bool
	RecoveryProblem string
	// requeueAfter is the time until the next reconcile without an event; zero means none.
	requeueAfter time.Duration
}

// graphWithWrites adds to Graph what this reconcile wrote, which the cache may not have yet, and returns it.
func (f *Facts) graphWithWrites() *graph.Objects {
	applies := []*infrav1.WorkspaceTemplateApply{f.Apply.Apply}
	for i := range f.Fargate.Profiles {
		applies = append(applies, f.Fargate.Profiles[i].Apply.Apply)
	}
	for _, apply := range applies {
		if apply != nil {
			f.Graph.Put(apply)
		}
	}
	if f.Kubeconfig.Written {
		f.Graph.Secrets.Insert(naming.KubeconfigSecret(f.Cluster.Name))
	}
	if f.UserKubeconfig.Written {
		f.Graph.Secrets.Insert(naming.UserKubeconfigSecret(f.Cluster.Name))
	}
	return f.Graph
}

// requeueWithin requests a reconcile after a duration at the latest; zero requests none.
func (f *Facts) requeueWithin(after time.Duration) {
	if after > 0 && (f.requeueAfter == 0 || after < f.requeueAfter) {
		f.requeueAfter = after
	}
}

// vpcReplaced returns the condition that is True while Terraform reports another VPC than the one that the control plane was created in.
func (f *Facts) vpcReplaced() engine.Condition {
	if f.Infrastructure == nil || f.Apply.Apply == nil {
		return engine.False(infrav1.VPCReplacedCondition, infrav1.VPCNotReplacedReason, "")
	}
	return owner.VPCReplaced(f.Infrastructure)
}

// infrastructureUnreported reports whether Cluster API has not reported the state of the infrastructure yet, although no problem is known: an
// object that was moved or restored has no status.
func (f *Facts) infrastructureUnreported() bool {
	unreported := f.Cluster != nil && f.Cluster.Status.Initialization.InfrastructureProvisioned == nil
	if f.Infrastructure == nil {
		return unreported && !desired.HasCAPTCluster(f.Cluster)
	}
	return unreported && !infrav1.RequiresUserAction(conditions.GetReason(f.Infrastructure, infrav1.ReadyCondition))
}

// outputs of Terraform.
func (f *Facts) outputs() kubeconfigsecret.Outputs {
	outputs := kubeconfigsecret.Outputs{Connection: f.Connection}
	if f.Apply.Apply != nil {
		outputs.Published = f.Apply.Apply.Status.Outputs
	}
	return outputs
}

// runningVersion is the version that EKS runs according to Terraform or, without that output, the requested one.
func (f *Facts) runningVersion(requested validation.KubernetesVersion) string {
	reported, err := validation.ParseKubernetesVersion(f.outputs().Output(terraform.OutputClusterVersion))
	if err == nil && reported.EKS != requested.EKS {
		return reported.Semantic
	}
	return requested.Semantic
}
