/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package captcontrolplane

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// publish works out the kubeconfigs: the one of Cluster API's contract, and the one for people.
func (f *Facts) publish(controlPlane *controlplanev1.CAPTControlPlane) {
	f.Kubeconfig.resolve(func() ([]byte, string, error) { return f.contractKubeconfig(controlPlane) })
	f.UserKubeconfig.resolve(func() ([]byte, string, error) { return f.execKubeconfig(controlPlane) })
	f.Kubeconfig.guard(controlPlane, f.Cluster.Name)
	f.UserKubeconfig.guard(controlPlane, f.Cluster.Name)
}

func (p *Published) resolve(source func() ([]byte, string, error)) {
	data, reason, err := source()
	if err != nil {
		p.Reason, p.Problem = reason, err.Error()
		return
	}
	p.Data = data
}

// guard refuses to overwrite the kubeconfig Secret of another control plane, and tells whether ours needs to be written.
func (p *Published) guard(controlPlane *controlplanev1.CAPTControlPlane, cluster string) {
	if p.Live == nil || p.Data == nil {
		return
	}
	owner := ""
	switch controller := metav1.GetControllerOf(p.Live); {
	case controller != nil && controller.UID != controlPlane.UID:
		owner = controller.Kind + " " + controller.Name
	case controller == nil && p.Live.Type != clusterv1.ClusterSecretType:
		owner = "somebody else"
	default:
		// The label and the owner are part of the contract, so a Secret that lost them is written anew.
		p.Written = bytes.Equal(p.Live.Data[secret.KubeconfigDataName], p.Data) &&
			p.Live.Labels[clusterv1.ClusterNameLabel] == cluster && metav1.IsControlledBy(p.Live, controlPlane)
		return
	}
	p.Data, p.Written = nil, false
	p.Reason = controlplanev1.KubeconfigConflictReason
	p.Problem = fmt.Sprintf("Secret %s belongs to %s and is not overwritten; delete it, or rename the Cluster", p.Live.Name, owner)
}

// contractKubeconfig is the Terraform output when it can be used, else one that asks AWS for credentials.
func (f *Facts) contractKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	output := []byte(nil)
	if f.Connection != nil {
		output = f.Connection.Data[terraform.OutputKubeconfig]
	}
	source := controlPlane.Spec.Kubeconfig.Source
	unusable := kubeconfig.Check(output)
	switch {
	case source == controlplanev1.KubeconfigToken:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("spec.kubeconfig.source is Token, but this manager has no AWS credentials to make tokens with; use Output or Exec")
	case source == controlplanev1.KubeconfigExec, source != controlplanev1.KubeconfigOutput && unusable != nil:
		return f.execKubeconfig(controlPlane)
	case len(output) == 0:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the connection Secret has no output %q; add it to the module, or set spec.kubeconfig.source to Exec", terraform.OutputKubeconfig)
	case unusable != nil:
		return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q can not be used: %w", terraform.OutputKubeconfig, unusable)
	}
	return output, "", nil
}

func (f *Facts) execKubeconfig(controlPlane *controlplanev1.CAPTControlPlane) ([]byte, string, error) {
	endpoint, err := f.endpoint()
	if err != nil || endpoint.IsZero() {
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the endpoint of the API server is not known")
	}
	ca := f.output(terraform.OutputClusterCA)
	if ca == "" {
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("the connection Secret has no output %q; add it to the module", terraform.OutputClusterCA)
	}
	name := f.output(terraform.OutputClusterName)
	if name == "" {
		name = f.Apply.Apply.Spec.Variables[naming.ClusterVariable]
	}
	data, err := kubeconfig.ForExec(name, f.runningRegion(controlPlane), "https://"+endpoint.String(), ca)
	if err != nil {
		return nil, controlplanev1.KubeconfigInvalidReason, err
	}
	return data, "", nil
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
