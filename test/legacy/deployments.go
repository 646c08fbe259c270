// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/test/sandbox"
)

// Deployments that CAPT v0.3 installs: one for each of the two providers that it is for clusterctl.
func Deployments(replicas int32) []*appsv1.Deployment {
	var deployments []*appsv1.Deployment
	for _, provider := range []string{"control-plane", "infrastructure"} {
		name := "appthrust-capt-controller-manager-" + provider
		pod := map[string]string{
			"cluster.x-k8s.io/provider": provider + "-capt", "cluster.x-k8s.io/v1beta1": "v1beta1", "control-plane": "controller-manager",
		}
		labels := maps.Clone(pod)
		labels["app.kubernetes.io/managed-by"], labels["app.kubernetes.io/name"] = "kustomize", "capt"
		deployments = append(deployments, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: pod},
					Spec: corev1.PodSpec{
						ServiceAccountName: name,
						Containers:         []corev1.Container{{Name: "manager", Image: "ghcr.io/appthrust/capt:v0.3.0"}},
					},
				},
			},
		})
	}
	return deployments
}
