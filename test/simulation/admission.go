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
			return apierrors.NewForbidden(schema.GroupResource{Group: clusterKind.Group, Resource: "clusters"}, cluster.Name, fmt.Errorf("Cluster %s refers to the same objects", other.Name))
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
	review := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "00000000-0000-4000-9000-000000000000", Kind: metav1.GroupVersionKind(gvk), Name: object.GetName(), Namespace: object.GetNamespace(),
		Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: request.user}, DryRun: ptr.To(request.dryRun), Object: raw(object),
	}}
	if old != nil {
		review.Operation, review.OldObject = admissionv1.Update, raw(old)
	}
	if mutate, ok := p.hooks["/mutate"+path].(*admission.Webhook); ok {
		response := mutate.Handle(context.Background(), review)
		if err := refusal(&response, path); err != nil {
			return nil, err
		}
		if len(response.Patch) > 0 {
			patch, err := jsonpatch.DecodePatch(response.Patch)
			must(err)
			data, err := patch.Apply(review.Object.Raw)
			must(err)
			review.Object.Raw = data
			object = reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
			must(json.Unmarshal(data, object))
		}
	}
	if validate, ok := p.hooks["/validate"+path].(*admission.Webhook); ok {
		response := validate.Handle(context.Background(), review)
		if err := refusal(&response, path); err != nil {
			return nil, err
		}
	}
	return object, nil
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
