// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// secondCluster is the policy that refuses a new Cluster with a reference to an object to which another Cluster refers.
func (w *World) secondCluster(cluster *clusterv1.Cluster) error {
	for _, object := range w.store.of(clusterKind).objects {
		other := object.(*clusterv1.Cluster)
		if other.Namespace == cluster.Namespace && (other.Spec.ControlPlaneRef == cluster.Spec.ControlPlaneRef || other.Spec.InfrastructureRef == cluster.Spec.InfrastructureRef) {
			return apierrors.NewForbidden(schema.GroupResource{Group: clusterKind.Group, Resource: "clusters"}, cluster.Name, fmt.Errorf("another Cluster, %s, refers to the same objects", other.Name))
		}
	}
	return nil
}

// admit calls the webhooks of a process that serves them.
func (w *World) admit(request *write, old, object client.Object) (client.Object, error) {
	gvk := object.GetObjectKind().GroupVersionKind()
	if cluster, ok := object.(*clusterv1.Cluster); ok && old == nil {
		return object, w.secondCluster(cluster)
	}
	if !slices.Contains([]string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group}, gvk.Group) {
		return object, nil
	}
	if strings.HasSuffix(request.user, "capt") || request.user == "gc" {
		return object, nil // The match conditions of the webhooks exclude the manager.
	}
	path := "-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	p := w.manager
	if p == nil || p.dead || w.steps < w.hooksDown {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: no endpoints available for service", path))
	}
	active := w.active
	w.active = false
	defer func() { w.active = active }()
	review := reviewOf(request, old, object)
	object, err := p.mutate(path, &review, object)
	if err != nil {
		return nil, err
	}
	return object, p.validate(path, &review)
}

// reviewOf is what the API server sends to a webhook. old is nil for a new object.
func reviewOf(request *write, old, object client.Object) admission.Request {
	gvk := object.GetObjectKind().GroupVersionKind()
	review := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "00000000-0000-4000-9000-000000000000", Kind: metav1.GroupVersionKind(gvk), Name: object.GetName(), Namespace: object.GetNamespace(),
		Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: request.user}, DryRun: ptr.To(request.dryRun), Object: raw(object),
	}}
	if old != nil {
		review.Operation, review.OldObject = admissionv1.Update, raw(old)
	}
	return review
}

// mutate calls the mutating webhook of the object, if its kind has one. It returns the object with the patch of the webhook.
func (p *process) mutate(path string, review *admission.Request, object client.Object) (client.Object, error) {
	webhook, ok := p.hooks["/mutate"+path].(*admission.Webhook)
	if !ok {
		return object, nil
	}
	response := webhook.Handle(context.Background(), *review)
	if err := refusal(&response, path); err != nil {
		return nil, err
	}
	if len(response.Patch) == 0 {
		return object, nil
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	must(err)
	data, err := patch.Apply(review.Object.Raw)
	must(err)
	review.Object.Raw = data
	object = reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	must(json.Unmarshal(data, object))
	return object, nil
}

func (p *process) validate(path string, review *admission.Request) error {
	webhook, ok := p.hooks["/validate"+path].(*admission.Webhook)
	if !ok {
		return nil
	}
	response := webhook.Handle(context.Background(), *review)
	return refusal(&response, path)
}

func raw(object runtime.Object) runtime.RawExtension {
	data, err := json.Marshal(object)
	must(err)
	return runtime.RawExtension{Raw: data}
}

// refusal is the error that the API server makes of a response.
func refusal(response *admission.Response, path string) error {
	if response.Allowed {
		return nil
	}
	status := metav1.Status{Status: metav1.StatusFailure, Message: "denied by " + path}
	if response.Result != nil {
		status = *response.Result
		status.Status = metav1.StatusFailure
		status.Message = fmt.Sprintf("admission webhook %q denied the request: %s", path, status.Message)
	}
	return &apierrors.StatusError{ErrStatus: status}
}
