// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

func (r *Reconciler) observe(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane) (*Facts, error) {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, controlPlane.ObjectMeta)
	if err != nil && !engine.Absent(err) {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	f := &Facts{
		Now: r.Clock.Now(), Cluster: cluster, Paused: engine.Paused(cluster, controlPlane),
		Running: Running{VPC: notRunning, ControlPlane: notRunning, Secret: notRunning},
	}
	f.Version, f.VersionError = versions.ParseKubernetesVersion(controlPlane.Spec.Version)

	want := adoption.OfControlPlane(controlPlane, clusterName(controlPlane, cluster))
	if err := r.observeApplies(ctx, controlPlane, want, f); err != nil || cluster == nil {
		return f, err
	}
	if err := r.observeInfrastructure(ctx, f); err != nil {
		return nil, err
	}
	r.observeTemplates(ctx, controlPlane, f)
	if decide(controlPlane, f) == Provision {
		if err := f.Apply.Confirm(ctx, r.Uncached, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, want); err != nil {
			return nil, err
		}
	}
	name := want.SchemeName
	if ref := controlPlane.Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
		name = ref.Name
	}
	if blocked(controlPlane, f) == nil {
		if err := f.desire(r.Client, controlPlane, name); err != nil {
			return nil, err
		}
	}
	if err := r.observeSecrets(ctx, controlPlane, f); err != nil {
		return nil, err
	}
	r.observeTimeouts(controlPlane, f)
	return f, r.observeProfiles(ctx, controlPlane, f)
}

// observeApplies looks for the WorkspaceTemplateApplies of the control plane and of its Fargate profiles.
func (r *Reconciler) observeApplies(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, want adoption.Expectation, f *Facts) (err error) {
	if f.Apply, err = owner.Observe(ctx, r.Client, r.Uncached, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, want); err != nil {
		return err
	}
	if f.Fargate, err = r.fargate().Existing(ctx, controlPlane); err != nil {
		return err
	}
	f.Fargate.Paused = f.Paused
	eksName := want.Variables[naming.ClusterVariable]
	if f.Apply.Apply != nil {
		eksName = f.Apply.Apply.Spec.Variables[naming.ClusterVariable]
	}
	if err := r.fargate().Strays(ctx, controlPlane, eksName, &f.Fargate); err != nil {
		return err
	}
	return f.Apply.ObserveDeletion(ctx, r.Client, controlPlane, controlPlane.Spec.WorkspaceTemplateApplyRef, f.Fargate.LeavingApplies()...)
}

// observeTemplates looks at the WorkspaceTemplates that the control plane refers to. Of a namespace that the cache does not hold,
// no watch reports a change.
func (r *Reconciler) observeTemplates(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	lookup := workspacetemplate.Lookup{Cached: r.Client, Uncached: r.Uncached, Namespace: r.Namespace}
	at := controlPlane.Namespace
	f.Template = owner.ObserveTemplate(ctx, lookup, controlPlane.Spec.WorkspaceTemplateRef.Key(at), at, consumption.ControlPlaneFields(controlPlane))
	for i := range controlPlane.Spec.FargateProfiles {
		ref := controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateRef
		fields := consumption.FargateFields(field.NewPath("spec", "fargateProfiles").Index(i))
		f.ProfileTemplates = append(f.ProfileTemplates, owner.ObserveTemplate(ctx, lookup, ref.Key(at), at, fields))
	}
	if f.templateBlocks(controlPlane) != nil && f.Template.Unwatched(at) {
		f.lookAgain(owner.TemplateInterval)
	}
}

func (r *Reconciler) fargate() fargate.Readers {
	return fargate.Readers{Cached: r.Client, Uncached: r.Uncached}
}

// observeProfiles looks at the Fargate profiles, once there is a control plane for them to stand on.
func (r *Reconciler) observeProfiles(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	apply := f.Apply.Apply
	if !controlPlane.DeletionTimestamp.IsZero() || blocked(controlPlane, f) != nil || apply == nil || apply.Spec.WorkspaceName == "" {
		return nil
	}
	on := fargate.Foundation{
		ClusterName: f.Cluster.Name, EKSName: apply.Spec.Variables[naming.ClusterVariable], Region: f.runningRegion(controlPlane), Workspace: apply.Spec.WorkspaceName, Ready: f.Apply.Ready(manager),
		Connection: f.Connection, ConnectionName: naming.ControlPlaneConnectionSecret(controlPlane.Name), VPCSecretName: f.vpcSecretName(),
	}
	if ref := apply.Spec.WriteConnectionSecretToRef; ref != nil {
		on.ConnectionName = ref.Name
	}
	return r.fargate().Observe(ctx, controlPlane, on, &f.Fargate)
}

func (r *Reconciler) observeInfrastructure(ctx context.Context, f *Facts) (err error) {
	if !f.hasCAPTCluster() {
		return nil
	}
	key := client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Cluster.Spec.InfrastructureRef.Name}
	if f.Infrastructure, err = engine.Get(ctx, r.Client, key, &infrav1.CAPTCluster{}); err != nil {
		return fmt.Errorf("reading CAPTCluster %s: %w", key.Name, err)
	}
	return nil
}

// clusterName is that of the Cluster, which one that is gone already has left in a label.
func clusterName(controlPlane *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster) string {
	if cluster != nil {
		return cluster.Name
	}
	return controlPlane.Labels[clusterv1.ClusterNameLabel]
}

// observeSecrets reads the connection Secret and the kubeconfig Secrets, once Terraform has made the control plane. Before,
// and while Terraform changes it, they matter only to a token that must be renewed.
func (r *Reconciler) observeSecrets(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	ready := f.Apply.Ready(manager)
	if !controlPlane.DeletionTimestamp.IsZero() || !ready && (r.Tokens == nil || f.Apply.Apply == nil) {
		return nil
	}
	if f.Kubeconfig.Live, err = r.secret(ctx, controlPlane.Namespace, naming.KubeconfigSecret(f.Cluster.Name)); err != nil {
		return err
	}
	if !ready && !holdsToken(f.Kubeconfig.value()) {
		return nil
	}
	if err := errors.Join(r.observeConnection(ctx, controlPlane, f), r.observeTokens(ctx, f)); err != nil {
		return err
	}
	if !ready {
		f.renew(controlPlane)
		return nil
	}
	if f.UserKubeconfig.Live, err = r.secret(ctx, controlPlane.Namespace, naming.UserKubeconfigSecret(f.Cluster.Name)); err != nil {
		return err
	}
	f.publish(controlPlane)
	return nil
}

func (r *Reconciler) observeConnection(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	if ref := f.Apply.Apply.Spec.WriteConnectionSecretToRef; ref != nil {
		f.Connection, err = r.secret(ctx, controlPlane.Namespace, ref.Name)
	}
	return err
}

// secret reads a Secret past the cache, which does not hold values; nil when it does not exist.
func (r *Reconciler) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return found, nil
}
