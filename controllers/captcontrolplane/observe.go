// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/graphreader"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

func (r *Reconciler) observe(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, v engine.GateDecision) (*Facts, error) {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, controlPlane.ObjectMeta)
	if err != nil && !engine.Absent(err) {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	f := &Facts{
		Now: r.State.Now(), GateDecision: v, Cluster: cluster, Paused: desired.Paused(cluster, controlPlane), CreatesTokens: r.Tokens != nil, Recovers: r.Recovery != nil,
		Running: Running{VPC: notRunning, ControlPlane: notRunning, Secret: notRunning, Failing: notRunning}, EndpointProbe: controlPlane.Spec.EndpointProbe,
	}
	if r.Probes == nil {
		f.EndpointProbe = controlplanev1.EndpointProbeDisabled
	}
	if f.Clusters, err = engine.ReferringClusters(ctx, r.Client, controlPlane); err != nil {
		return nil, err
	}
	if err := r.observeInfrastructure(ctx, f); err != nil {
		return nil, err
	}
	if err := r.observeApplies(ctx, controlPlane, f); err != nil || cluster == nil {
		return f, err
	}
	r.observeTemplates(ctx, controlPlane, f)
	if err := r.observeSecrets(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	r.observeTimeouts(controlPlane, f)
	if err := r.observeProfiles(ctx, controlPlane, f); err != nil {
		return f, err
	}
	if err := r.observeEarlier(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	if err := r.observeHistory(ctx, controlPlane, f); err != nil {
		return f, err
	}
	return f, r.observeGraph(ctx, controlPlane, f)
}

// observeEarlier reads how long operations took with the same template, unless the control plane is at rest.
func (r *Reconciler) observeEarlier(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	s := &controlPlane.Status
	atRest := s.State == controlplanev1.StateReady && s.ObservedGeneration == controlPlane.Generation && f.Apply.UpToDate()
	if atRest || f.Paused != "" || !controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	f.Earlier, err = progress.Earlier(ctx, r.Client, owner.TemplateIndex, controlPlane)
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
	// Confirm with the API server that one is missing only if it may be created.
	reader := owner.Reader{Cached: r.Client, Uncached: r.Uncached, Gate: r.Gate, GateDecision: f.GateDecision, Confirm: f.Paused == "" && f.desired(controlPlane).InfrastructureReady()}
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	want := claim.ExpectationOfControlPlane(controlPlane, clusterName(controlPlane, f.Cluster))
	if f.Apply, err = reader.Observe(ctx, controlPlane, ref, want); err != nil {
		return err
	}
	if f.Apply.HeldBy, err = r.HeldByClusters(ctx, controlPlane); err != nil {
		return err
	}
	if f.Fargate, err = r.fargate().ObserveExisting(ctx, controlPlane); err != nil {
		return err
	}
	eksName := want.Variables[naming.ClusterVariable]
	if f.Apply.Apply != nil {
		eksName = f.Apply.Apply.Spec.Variables[naming.ClusterVariable]
	}
	if err := r.fargate().ObserveOrphans(ctx, controlPlane, eksName, &f.Fargate); err != nil {
		return err
	}
	return reader.ObserveDeletion(ctx, &f.Apply, controlPlane, ref, f.Fargate.ObsoleteApplies()...)
}

// observeTemplates reads the WorkspaceTemplates that the control plane refers to.
func (r *Reconciler) observeTemplates(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	lookup := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	at := controlPlane.Namespace
	f.Template = owner.ObserveTemplate(ctx, lookup, controlPlane.Spec.WorkspaceTemplateRef.Key(at), at, validation.ControlPlaneFields(controlPlane))
	for i := range controlPlane.Spec.FargateProfiles {
		ref := controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef
		fields := validation.FargateFields(field.NewPath("spec", "fargateProfiles").Index(i))
		f.ProfileTemplates = append(f.ProfileTemplates, owner.ObserveTemplate(ctx, lookup, ref.Key(at), at, fields))
	}
}

func (r *Reconciler) fargate() fargate.Reader {
	return fargate.Reader{Cached: r.Client, Uncached: r.Uncached, Gate: r.Gate}
}

// observeProfiles reads the Fargate profiles of spec, once the control plane has a Workspace.
func (r *Reconciler) observeProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	apply := f.Apply.Apply
	if !controlPlane.DeletionTimestamp.IsZero() || apply == nil || apply.Spec.WorkspaceName == "" {
		return nil
	}
	cluster := fargate.Cluster{EKSCluster: f.desired(controlPlane).EKSCluster(), UpToDate: f.Apply.UpToDate(), Connection: f.Connection}
	return r.fargate().ObserveSpec(ctx, controlPlane, cluster, &f.Fargate)
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

// clusterName returns the name of the Cluster; the value of the label if the Cluster no longer exists.
func clusterName(controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster) string {
	if cluster != nil {
		return cluster.Name
	}
	return controlPlane.Labels[clusterv1.ClusterNameLabel]
}

// observeSecrets reads the connection Secret and the kubeconfig Secrets, once Terraform has created the control plane. Before that, and
// while Terraform changes it, only the renewal of a token needs them, and the probes need the kubeconfig.
func (r *Reconciler) observeSecrets(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	if !f.needsKubeconfig(controlPlane) {
		return nil
	}
	upToDate := f.Apply.UpToDate()
	if f.Kubeconfig.Live, err = r.readSecret(ctx, controlPlane.Namespace, naming.KubeconfigSecret(f.Cluster.Name)); err != nil {
		return err
	}
	if !upToDate && (!f.CreatesTokens || !f.Kubeconfig.HoldsToken()) {
		return nil
	}
	if upToDate {
		if f.UserKubeconfig.Live, err = r.readSecret(ctx, controlPlane.Namespace, naming.UserKubeconfigSecret(f.Cluster.Name)); err != nil {
			return err
		}
	}
	if f.CreatesTokens {
		if f.NameConflict, err = kubeconfigsecret.NameConflict(ctx, r.Client, f.Apply.Apply); err != nil {
			return err
		}
	}
	return r.observeConnection(ctx, controlPlane, f)
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
	return f.Apply.Apply != nil && (f.CreatesTokens || probes)
}

// observeConnection reads the connection Secret that Terraform writes for the control plane.
func (r *Reconciler) observeConnection(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	if ref := f.Apply.Apply.Spec.WriteConnectionSecretToRef; ref != nil {
		f.Connection, err = r.readSecret(ctx, controlPlane.Namespace, ref.Name)
	}
	return err
}

// readSecret reads a Secret from the API server, because the cache has no values of Secrets; nil when it does not exist.
func (r *Reconciler) readSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return found, nil
}
