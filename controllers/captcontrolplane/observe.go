// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/graphreader"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

func (r *Reconciler) observe(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, v engine.GateDecision) (*Facts, error) {
	observed, err := r.ObserveClusters(ctx, controlPlane, v)
	if err != nil {
		return nil, err
	}
	f := &Facts{
		Observed: observed, CreatesTokens: r.Tokens != nil, EndpointProbe: controlPlane.Spec.EndpointProbe,
	}
	if r.Probes == nil {
		f.EndpointProbe = controlplanev1.EndpointProbeDisabled
	}
	if err := r.observeInfrastructure(ctx, f); err != nil {
		return nil, err
	}
	if err := r.observeApplies(ctx, controlPlane, f); err != nil || f.Cluster == nil {
		return f, err
	}
	r.observeTemplates(ctx, controlPlane, f)
	if err := r.observeOthers(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	if err := r.observeSecrets(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	r.observeTimeouts(controlPlane, f)
	if err := r.observeProfiles(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	if err := r.ObserveEarlier(ctx, ownerOf(controlPlane), &f.Observed, &controlplanev1.CAPTControlPlaneList{}); err != nil {
		return nil, err
	}
	if err := r.observeHistory(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	return f, r.observeGraph(ctx, controlPlane, f)
}

// observeOthers reads what may prevent the creation of the EKS cluster, or the change of its version: other control planes, and node groups.
func (r *Reconciler) observeOthers(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	switch {
	case f.Apply.MayCreate(controlPlane, f.Paused):
		f.OtherClaims, err = r.OtherClaims(ctx, controlPlane, claim.EKSClusterName(controlPlane, f.Cluster.Name))
	case f.Apply.Live != nil && f.Apply.Live.Spec.Variables.Text(naming.VersionVariable) != f.desired(controlPlane).Version.EKS:
		f.NodeGroups, err = r.NodeGroups(ctx, client.ObjectKeyFromObject(f.Cluster))
	}
	return err
}

// observeGraph reads what the control plane depends on, and what depends on it.
func (r *Reconciler) observeGraph(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	if !controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	f.Graph = &graph.Objects{
		ControlPlane: controlPlane, Cluster: f.Cluster, CAPTCluster: f.Infrastructure, Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{},
	}
	for _, template := range f.templates() {
		if template.Unreadable == nil {
			f.Graph.Templates[template.Key] = template.Template
		}
	}
	return r.graph().Observe(ctx, f.Graph)
}

func (r *Reconciler) graph() graphreader.Reader {
	return graphreader.Reader{Cache: r.Cache, Namespace: r.Namespace}
}

// observeApplies reads the WorkspaceTemplateApplies of the control plane and of its Fargate profiles.
func (r *Reconciler) observeApplies(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	want := claim.ExpectationOfControlPlane(controlPlane, f.ClusterName(controlPlane))
	reader := r.Reader(f.GateDecision, f.Paused == "" && f.desired(controlPlane).InfrastructureReady())
	if f.Apply, err = reader.Observe(ctx, controlPlane, ref, want); err != nil {
		return err
	}
	if f.Fargate, err = r.fargate().ObserveExisting(ctx, controlPlane); err != nil {
		return err
	}
	eksName := want.Variables[naming.ClusterVariable]
	if f.Apply.Live != nil {
		eksName = f.Apply.Live.Spec.Variables.Text(naming.ClusterVariable)
	}
	if err := r.fargate().ObserveOrphans(ctx, controlPlane, eksName, &f.Fargate); err != nil {
		return err
	}
	return r.ObserveDeletion(ctx, &f.Apply, controlPlane, ref, f.Fargate.ObsoleteApplies()...)
}

// observeTemplates reads the WorkspaceTemplates that the control plane refers to.
func (r *Reconciler) observeTemplates(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	f.Template = r.ObserveTemplate(ctx, controlPlane, controlPlane.Spec.WorkspaceTemplateRef, append(validation.ControlPlaneFields(controlPlane), validation.NetworkFields(f.Cluster)...))
	for i := range controlPlane.Spec.FargateProfiles {
		fields := validation.FargateFields(field.NewPath("spec", "fargateProfiles").Index(i))
		f.ProfileTemplates = append(f.ProfileTemplates, r.ObserveTemplate(ctx, controlPlane, controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef, fields))
	}
}

func (r *Reconciler) fargate() fargate.Reader {
	return fargate.Reader{Reconciler: &r.Reconciler}
}

// observeProfiles reads the Fargate profiles of spec, once the control plane has a Workspace.
func (r *Reconciler) observeProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	apply := f.Apply.Live
	if apply == nil || apply.Spec.WorkspaceName == "" {
		return nil
	}
	cluster := fargate.Cluster{EKSCluster: f.desired(controlPlane).EKSCluster(), UpToDate: f.Apply.UpToDate(), Connection: f.Connection}
	if err := r.fargate().ObserveSpec(ctx, controlPlane, cluster, &f.Fargate); err != nil {
		return err
	}
	for i := range f.Fargate.Profiles {
		if profile := &f.Fargate.Profiles[i]; profile.Apply.Live != nil {
			profile.Running = r.Elapsed(ownerOf(controlPlane), f.Now, "fargate/"+profile.Name, controlplanev1.FargateProfileFailedReason, profile.Apply.Live.Status.StartedTime)
		}
	}
	return nil
}

// observeInfrastructure reads the CAPTCluster of the Cluster; it stays nil if the Cluster has another kind of infrastructure.
func (r *Reconciler) observeInfrastructure(ctx context.Context, f *Facts) (err error) {
	if f.Cluster == nil || !desired.HasCAPTCluster(f.Cluster) {
		return nil
	}
	key := client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Cluster.Spec.InfrastructureRef.Name}
	if f.Infrastructure, err = engine.Get(ctx, r.Client, key, &infrav1.CAPTCluster{}); err != nil {
		return fmt.Errorf("reading CAPTCluster %s: %w", key.Name, err)
	}
	return nil
}

// observeSecrets reads the connection Secret and the kubeconfig Secrets, once Terraform has created the control plane. Before that, and
// while Terraform changes it, only the renewal of a token needs them, and the probes need the kubeconfig.
func (r *Reconciler) observeSecrets(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	if !f.needsKubeconfig(controlPlane) {
		return nil
	}
	upToDate := f.Apply.UpToDate()
	if f.Kubeconfig.Live, err = r.ReadSecret(ctx, controlPlane.Namespace, naming.KubeconfigSecret(f.Cluster.Name)); err != nil {
		return err
	}
	if !upToDate && (!f.CreatesTokens || !f.Kubeconfig.HoldsToken()) {
		return nil
	}
	if upToDate {
		if f.UserKubeconfig.Live, err = r.userKubeconfig(ctx, controlPlane, f); err != nil {
			return err
		}
	}
	if f.NameConflict, err = kubeconfigsecret.NameConflict(ctx, r.Client, f.Apply.Live); err != nil {
		return err
	}
	if ref := f.Apply.Live.Spec.WriteConnectionSecretToRef; ref != nil { // Terraform writes it.
		f.Connection, err = r.ReadSecret(ctx, controlPlane.Namespace, ref.Name)
	}
	return err
}

// userKubeconfig reads the kubeconfig for users. Most clusters have none, so the API server is not asked about one that the cache does not have: if it was created a
// moment ago, it is written as it is.
func (r *Reconciler) userKubeconfig(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (*corev1.Secret, error) {
	name := naming.UserKubeconfigSecret(f.Cluster.Name)
	if cached, err := r.Secrets.Metadata(ctx, client.ObjectKey{Namespace: controlPlane.Namespace, Name: name}); cached == nil {
		return nil, err
	}
	return r.ReadSecret(ctx, controlPlane.Namespace, name)
}

// needsKubeconfig reports whether the kubeconfig Secret must be read.
func (f *Facts) needsKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) bool {
	switch {
	case !controlPlane.DeletionTimestamp.IsZero():
		return false
	case f.Apply.UpToDate():
		return true
	}
	probes := f.EndpointProbe != controlplanev1.EndpointProbeDisabled && ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false)
	return f.Apply.Live != nil && (f.CreatesTokens || probes)
}

// fieldManager is the field manager of everything this controller applies.
const fieldManager = naming.CAPTControlPlaneFieldManager

// Facts are what a reconcile observed, and the results of its writes.
type Facts struct {
	owner.Observed
	// Infrastructure is the CAPTCluster of the Cluster; nil when it does not exist, or the Cluster uses another provider.
	Infrastructure *infrav1.CAPTCluster
	// OtherClaims are the control planes that may have the EKS cluster of this one; read before it is created.
	OtherClaims []validation.EKSClaim
	// NodeGroups are those of the Cluster; read before its version changes.
	NodeGroups []validation.NodeGroup
	// ProfileTemplates are the WorkspaceTemplates of the Fargate profiles.
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
	// RunningVPC and RunningSecret are for how long the control plane waits for a VPC that CAPT creates, and for a Secret; nil while it does not.
	RunningVPC, RunningSecret *time.Duration
	// EndpointProbe is spec.endpointProbe; Disabled if this manager probes no API servers. Probed are the results.
	EndpointProbe controlplanev1.EndpointProbe
	Probed        health.Probed
	// EndpointKept is true once it was decided that spec.controlPlaneEndpoint stays as it is.
	EndpointKept bool
	// History is read only if recovery could recreate the control plane.
	History *recovery.History
	// templateRevision is the revision of the template, once it was computed.
	templateRevision string
}

// graphWithWrites adds to Graph what this reconcile wrote, which the cache may not have yet, and returns it.
func (f *Facts) graphWithWrites(p *Plan) *graph.Objects {
	applies := []*infrav1.WorkspaceTemplateApply{p.Apply.Live}
	for i := range p.Fargate.Profiles {
		applies = append(applies, p.Fargate.Profiles[i].Apply.Live)
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

// vpcReplaced returns the condition that is True while Terraform reports another VPC than the one that the control plane was created in.
func (f *Facts) vpcReplaced() engine.Condition {
	if f.Infrastructure == nil || f.Apply.Live == nil {
		return owner.VPCReplaced(&infrav1.CAPTCluster{})
	}
	return owner.VPCReplaced(f.Infrastructure)
}

// infrastructureUnreported reports whether Cluster API has not reported the state of the infrastructure yet, although no problem is known: an
// object that was moved or restored has no status.
func (f *Facts) infrastructureUnreported() bool {
	unreported := f.Cluster.Status.Initialization.InfrastructureProvisioned == nil
	if f.Infrastructure == nil {
		return unreported && !desired.HasCAPTCluster(f.Cluster)
	}
	return unreported && !reasons.IsProblem(conditions.GetReason(f.Infrastructure, infrav1.ReadyCondition))
}

func (f *Facts) outputs() kubeconfigsecret.Outputs {
	return kubeconfigsecret.Outputs{Connection: f.Connection, Published: f.Apply.Live.Status.Outputs, Declared: f.declaredOutputs()}
}

// declaredOutputs are those of the inline module that Terraform has applied; nil if they are not known, as with another revision of the template.
func (f *Facts) declaredOutputs() map[string]bool {
	template := f.Template.Template
	if template == nil {
		return nil
	}
	if f.templateRevision == "" {
		f.templateRevision = rollout.HashOf(template)
	}
	if f.Apply.Live.Status.WrittenTemplateRevision != f.templateRevision {
		return nil
	}
	return modules.OutputsOf(template)
}

// runningVersion is the version that EKS runs according to Terraform or, without that output, the requested one.
func (f *Facts) runningVersion(requested validation.KubernetesVersion) string {
	reported, err := validation.ParseKubernetesVersion(f.outputs().Output(terraform.OutputClusterVersion))
	if err == nil && reported.EKS != requested.EKS {
		return reported.Semantic
	}
	return requested.Semantic
}
