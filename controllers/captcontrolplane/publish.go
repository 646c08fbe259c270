// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// source gives a kubeconfig, or says why there is none, in a reason and in words. One with an error is to be published,
// and the error to be told.
type source func() (data []byte, reason string, err error)

// publish works out the kubeconfigs: the one of Cluster API's contract, and the one for people.
func (f *Facts) publish(controlPlane *controlplanev1.CAPTControlPlane) {
	f.Kubeconfig.resolve(controlPlane, f.Cluster.Name, func() ([]byte, string, error) { return f.contractKubeconfig(controlPlane) })
	f.UserKubeconfig.resolve(controlPlane, f.Cluster.Name, func() ([]byte, string, error) { return f.execKubeconfig(controlPlane) })
}

// renew keeps a token alive that was published before, whatever Terraform does at the moment: an upgrade takes longer than
// a token lives, and one that failed may stay so for days. Nothing else is changed before Terraform is done.
func (f *Facts) renew(controlPlane *controlplanev1.CAPTControlPlane) {
	wanted := controlPlane.Spec.Kubeconfig.Source
	if wanted == controlplanev1.KubeconfigOutput || wanted == controlplanev1.KubeconfigExec || !holdsToken(f.Kubeconfig.value()) {
		return
	}
	f.Kubeconfig.resolve(controlPlane, f.Cluster.Name, func() ([]byte, string, error) { return f.tokenKubeconfig(controlPlane) })
	if wanted != controlplanev1.KubeconfigToken && f.Kubeconfig.Data == nil {
		f.Kubeconfig = Published{Live: f.Kubeconfig.Live} // Auto has something else, but not before Terraform is done.
	}
}

// resolve asks the source, unless the Secret is another control plane's: nothing is made that could not be published.
func (p *Published) resolve(controlPlane *controlplanev1.CAPTControlPlane, cluster string, from source) {
	*p = Published{Live: p.Live}
	if owner := p.otherOwner(controlPlane); owner != "" {
		p.Reason = controlplanev1.KubeconfigConflictReason
		p.Problem = fmt.Sprintf("Secret %s belongs to %s and is not overwritten; delete it, or rename the Cluster", p.Live.Name, owner)
		return
	}
	data, reason, err := from()
	p.Data = data
	switch {
	case err != nil && data != nil:
		p.Note = err.Error()
	case err != nil:
		p.Reason, p.Problem = reason, err.Error()
	}
	// The label and the owner are part of the contract, so a Secret that lost them is written again.
	p.Written = p.Live != nil && data != nil && bytes.Equal(p.value(), data) && !engine.Disowned(p.Live, manager) &&
		p.Live.Labels[clusterv1.ClusterNameLabel] == cluster && metav1.IsControlledBy(p.Live, controlPlane)
}

// otherOwner names whose the Secret is when it is somebody else's; else it is empty.
func (p *Published) otherOwner(controlPlane *controlplanev1.CAPTControlPlane) string {
	if p.Live == nil {
		return ""
	}
	switch controller := metav1.GetControllerOf(p.Live); {
	case controller != nil && controller.UID != controlPlane.UID:
		return controller.Kind + " " + controller.Name
	case controller == nil && p.Live.Type != clusterv1.ClusterSecretType:
		return "somebody else"
	}
	return ""
}

// value is the kubeconfig that the Secret holds.
func (p *Published) value() []byte {
	if p.Live == nil {
		return nil
	}
	return p.Live.Data[secret.KubeconfigDataName]
}

// renewal tells whether a token is to take the place of another one, which can wait for nothing.
func (p *Published) renewal() bool {
	return !p.Written && holdsToken(p.value()) && holdsToken(p.Data)
}

func holdsToken(data []byte) bool {
	_, holds := kubeconfig.Expiry(data)
	return holds
}

// kubeconfigSecret is the Secret of a kubeconfig in the form of Cluster API's contract.
func kubeconfigSecret(controlPlane *controlplanev1.CAPTControlPlane, cluster, name string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: controlPlane.Namespace, Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(controlPlane, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")),
			},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: data},
	}
}
