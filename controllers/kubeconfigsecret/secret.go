// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfigsecret publishes the kubeconfigs of a control plane: the Secret of Cluster API's contract, and the one for users.
package kubeconfigsecret

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/managedfields"
)

// fieldManager is the field manager of the Secrets.
const fieldManager = naming.CAPTControlPlaneFieldManager

// Kubeconfig is a kubeconfig with its Secret.
type Kubeconfig struct {
	// Live is the Secret; nil when it does not exist.
	Live *corev1.Secret
	// Data is the kubeconfig to publish; nil when there is none.
	Data []byte
	// Reason and Problem are the reason and the message why there is no Data.
	Reason, Problem string
	// Warning is what needs attention although the kubeconfig can be used.
	Warning string
	// Written is true when the Secret has Data, with the labels and the owner that the contract requires.
	Written bool
}

// HoldsToken reports whether the Secret holds a kubeconfig with a token of EKS.
func (k *Kubeconfig) HoldsToken() bool { return holdsToken(k.publishedData()) }

func holdsToken(data []byte) bool {
	_, holds := kubeconfig.Expiry(data)
	return holds
}

// publishedData returns the kubeconfig in the Secret.
func (k *Kubeconfig) publishedData() []byte {
	if k.Live == nil {
		return nil
	}
	return k.Live.Data[secret.KubeconfigDataName]
}

// Published returns the kubeconfig that the Secret of a control plane has; nil when there is none.
func (k *Kubeconfig) Published(controlPlane *controlplanev1.CAPTControlPlane) []byte {
	switch {
	case k.Written:
		return k.Data
	case k.Live != nil && metav1.IsControlledBy(k.Live, controlPlane):
		return k.publishedData()
	}
	return nil
}

// Mode is what a reconcile does about the kubeconfigs.
type Mode string

const (
	// Keep leaves the Secrets as they are.
	Keep Mode = ""
	// RenewToken renews a published token while Terraform runs or has failed: an update takes longer than a token is valid, and a failed
	// one may stay so for days. Nothing else changes before Terraform is done.
	RenewToken Mode = "RenewToken"
	// Publish determines both kubeconfigs.
	Publish Mode = "Publish"
)

// Plan is what one reconcile does.
type Plan struct {
	Mode    Mode
	Cluster Cluster
	// Write allows writes of the Secrets. A token is renewed without it, unless Paused.
	Write, Paused bool
	// NameConflict is true when another control plane has an EKS cluster of the same name for longer.
	NameConflict bool
	Now          time.Time
}

// Publisher writes kubeconfig Secrets.
type Publisher struct {
	Client client.Client
	// Tokens creates tokens; nil when this manager creates none.
	Tokens kubeconfig.Tokens
}

// Publish determines the kubeconfigs and writes them. It returns when they must be determined again; zero is never.
func (p Publisher) Publish(ctx context.Context, plan Plan, contract, user *Kubeconfig) (time.Duration, error) {
	source := &sources{Plan: plan, tokens: p.Tokens, published: contract.publishedData()}
	switch cluster := plan.Cluster; plan.Mode {
	case Keep:
		return 0, nil
	case RenewToken:
		source.renew(ctx, contract)
	case Publish:
		contract.resolve(cluster, func() ([]byte, string, error) { return source.contractKubeconfig(ctx) })
		user.resolve(cluster, source.execKubeconfig)
	}
	name := plan.Cluster.Name
	if renewed := !plan.Paused && contract.HoldsToken() && holdsToken(contract.Data); renewed || plan.Write {
		if err := p.write(ctx, plan.Cluster, naming.KubeconfigSecret(name), contract); err != nil {
			return source.requeueAfter, err
		}
	}
	if !plan.Write {
		return source.requeueAfter, nil
	}
	return source.requeueAfter, p.write(ctx, plan.Cluster, naming.UserKubeconfigSecret(name), user)
}

// renew determines a kubeconfig with a new token in place of one that is published.
func (s *sources) renew(ctx context.Context, contract *Kubeconfig) {
	wanted := s.Cluster.ControlPlane.Spec.Kubeconfig.Source
	if wanted == controlplanev1.KubeconfigOutput || wanted == controlplanev1.KubeconfigExec || !contract.HoldsToken() {
		return
	}
	contract.resolve(s.Cluster, func() ([]byte, string, error) { return s.tokenKubeconfig(ctx) })
	if wanted != controlplanev1.KubeconfigToken && contract.Data == nil {
		*contract = Kubeconfig{Live: contract.Live} // Auto uses another source when Terraform is done.
	}
}

// resolve determines the kubeconfig with source, unless the Secret belongs to another object, so that it could not be published. If source
// returns data and an error, the data is published and the error reported.
func (k *Kubeconfig) resolve(cluster Cluster, source func() (data []byte, reason string, err error)) {
	*k = Kubeconfig{Live: k.Live}
	if owner := k.otherOwner(cluster.ControlPlane); owner != "" {
		k.Reason = controlplanev1.KubeconfigConflictReason
		k.Problem = fmt.Sprintf("Secret %s belongs to %s and is not overwritten. If nothing uses the Secret, delete it; otherwise the Cluster needs another name", k.Live.Name, owner)
		return
	}
	data, reason, err := source()
	k.Data = data
	switch {
	case err != nil && data != nil:
		k.Warning = err.Error()
	case err != nil:
		k.Reason, k.Problem = reason, err.Error()
	}
	// Label and owner are part of the contract, so a Secret that lost them is written again.
	k.Written = k.Live != nil && data != nil && bytes.Equal(k.publishedData(), data) && !managedfields.Lost(k.Live, fieldManager) &&
		k.Live.Labels[clusterv1.ClusterNameLabel] == cluster.Name && metav1.IsControlledBy(k.Live, cluster.ControlPlane)
}

// otherOwner names the owner of the Secret if that is another object; else it is empty.
func (k *Kubeconfig) otherOwner(controlPlane *controlplanev1.CAPTControlPlane) string {
	if k.Live == nil {
		return ""
	}
	switch controller := metav1.GetControllerOf(k.Live); {
	case controller != nil && controller.UID != controlPlane.UID:
		return controller.Kind + " " + controller.Name
	case controller == nil && k.Live.Type != clusterv1.ClusterSecretType:
		return "another client (it has no owner, and is not of type cluster.x-k8s.io/secret)"
	}
	return ""
}

func (p Publisher) write(ctx context.Context, cluster Cluster, name string, k *Kubeconfig) error {
	if k.Data == nil || k.Written {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Writing kubeconfig", "Secret", klog.KRef(cluster.ControlPlane.Namespace, name))
	config, err := ssa.Unstructured(contractSecret(cluster, name, k.Data))
	if err != nil {
		return err
	}
	err = p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", name, err)
	}
	if err := managedfields.Restore(ctx, p.Client, config, fieldManager); err != nil {
		return err
	}
	k.Written = true
	return nil
}

// contractSecret is the Secret of a kubeconfig in the form of Cluster API's contract.
func contractSecret(cluster Cluster, name string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.ControlPlane.Namespace, Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(cluster.ControlPlane, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")),
			},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: data},
	}
}
