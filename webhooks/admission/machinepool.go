// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/validation"
)

// machinePoolPath is the path of the webhook for MachinePools.
const machinePoolPath = "/validate-cluster-x-k8s-io-v1beta2-machinepool"

// machinePools is the validating webhook for MachinePools of Cluster API whose infrastructure is a CAPTMachinePool, and for their subresource scale, which
// kubectl scale uses.
type machinePools struct {
	decoder admission.Decoder
	reader  validation.Reader
}

func (m machinePools) Handle(ctx context.Context, request admission.Request) admission.Response {
	old, machinePool, err := m.objects(ctx, request)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	var errs, before field.ErrorList
	if machinePool != nil {
		errs, err = desired.ValidateMachinePool(ctx, m.reader, machinePool)
	}
	if err == nil && len(errs) > 0 && old != nil {
		before, err = desired.ValidateMachinePool(ctx, m.reader, old)
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(machinePool, err))
	}
	errs, warnings := correctable(request, without(errs, before))
	if len(errs) == 0 {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	refused := apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("MachinePool").GroupKind(), request.Name, errs).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refused}}
}

// correctable makes warnings of errors that another object of the same commit may correct: a GitOps tool checks each object before it applies the first one,
// and would hold back all. The controller reports what is left. kubectl scale changes nothing else.
func correctable(request admission.Request, errs field.ErrorList) (refused field.ErrorList, warnings []string) {
	var findings validation.Findings
	for _, err := range errs {
		if request.SubResource == "" && (err.Field == "spec.replicas" || err.Field == "spec.template.spec.version") {
			findings.AddWarnings(field.ErrorList{err})
		} else {
			findings.Refuse(err)
		}
	}
	return findings.Errors, findings.Warnings
}

// objects returns the MachinePool before and after a request; nil if it did not, or does not exist.
func (m machinePools) objects(ctx context.Context, request admission.Request) (old, machinePool *clusterv1.MachinePool, err error) {
	if request.SubResource == "scale" {
		var scale autoscalingv1.Scale
		if err := json.Unmarshal(request.Object.Raw, &scale); err != nil {
			return nil, nil, err
		}
		if old, err = validation.Get[*clusterv1.MachinePool](ctx, m.reader, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}); err != nil || old == nil {
			return nil, nil, err
		}
		machinePool = old.DeepCopy()
		machinePool.Spec.Replicas = &scale.Spec.Replicas
		return old, machinePool, nil
	}
	machinePool = &clusterv1.MachinePool{}
	if err := m.decoder.DecodeRaw(request.Object, machinePool); err != nil {
		return nil, nil, err
	}
	if request.Operation == admissionv1.Update {
		old = &clusterv1.MachinePool{}
		err = m.decoder.DecodeRaw(request.OldObject, old)
	}
	return old, machinePool, err
}
