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

package admission

// config/webhook/manifests.yaml is generated from here. Operations are create and update, never delete: an outage must not
// block deletion. Rules name resources without subresources, so status is never gated. A request in v1beta1 arrives in
// v1beta2, which is what matchPolicy=Equivalent means.
//
// What the generator does not know is in the patch beside the generated file: objects that are being deleted are skipped.

// +kubebuilder:webhookconfiguration:mutating=true,name=capt-mutating-webhook-configuration
// +kubebuilder:webhookconfiguration:mutating=false,name=capt-validating-webhook-configuration

// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-captcluster,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=create;update,versions=v1beta2,name=default.captcluster.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=create;update,versions=v1beta2,name=default.workspacetemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplateapply,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=create;update,versions=v1beta2,name=default.workspacetemplateapply.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded
// +kubebuilder:webhook:path=/mutate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=create;update,versions=v1beta2,name=default.captcontrolplane.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system,reinvocationPolicy=IfNeeded

// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=create;update,versions=v1beta2,name=validation.captcluster.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-captclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=captclustertemplates,verbs=create;update,versions=v1beta2,name=validation.captclustertemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=create;update,versions=v1beta2,name=validation.workspacetemplate.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-workspacetemplateapply,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=create;update,versions=v1beta2,name=validation.workspacetemplateapply.infrastructure.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=create;update,versions=v1beta2,name=validation.captcontrolplane.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
// +kubebuilder:webhook:path=/validate-controlplane-cluster-x-k8s-io-v1beta2-captcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,verbs=create;update,versions=v1beta2,name=validation.captcontrolplanetemplate.controlplane.cluster.x-k8s.io,admissionReviewVersions=v1,serviceName=capt-webhook-service,serviceNamespace=capt-system
