// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func raw(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	return runtime.RawExtension{Raw: text}
}

// answer is the response to a request for MachinePool workers, whose pool may have 1 to 5 nodes; empty if it is allowed.
func answer(t *testing.T, stored *clusterv1.MachinePool, change func(*admissionv1.AdmissionRequest)) string {
	t.Helper()
	existing := validation.Objects{builder.Cluster("demo"), builder.CAPTMachinePool("workers", builder.WithScaling(1, 5))}
	if stored != nil {
		existing = append(existing, stored)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "default", Name: "workers", Operation: admissionv1.Update}}
	change(&request.AdmissionRequest)
	response := machinePools{admission.NewDecoder(builder.Scheme()), existing}.Handle(t.Context(), request)
	if response.Allowed {
		return strings.Join(append([]string{""}, response.Warnings...), "Warning: ")
	}
	require.NotNil(t, response.Result)
	return string(response.Result.Reason) + ": " + response.Result.Message
}

func TestASizeOutOfTheLimitsIsAWarning(t *testing.T) {
	const text = `Warning: spec.replicas: MachinePool workers has 6 replicas, and its node group may have 1 to 5`
	create := func(replicas int32) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Create, raw(t, builder.MachinePool("workers", builder.WithReplicas(replicas)))
		}
	}
	update := func(from, to int32) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.OldObject = raw(t, builder.MachinePool("workers", builder.WithReplicas(from)))
			r.Object = raw(t, builder.MachinePool("workers", builder.WithReplicas(to), builder.WithLabel("a", "b")))
		}
	}
	assert.Empty(t, answer(t, nil, create(5)))
	assert.Contains(t, answer(t, nil, create(6)), text)
	assert.Empty(t, answer(t, nil, update(3, 4)))
	assert.Contains(t, answer(t, nil, update(3, 6)), text)
	assert.Empty(t, answer(t, nil, update(6, 6)), "it was stored before the limits were changed, and its labels can be changed")
}

// kubectl scale sends a Scale.
func TestKubectlScaleIsChecked(t *testing.T) {
	scale := func(replicas int32) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.SubResource, r.Object = "scale", raw(t, autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}})
		}
	}
	stored := builder.MachinePool("workers", builder.WithReplicas(3))
	assert.Empty(t, answer(t, stored, scale(5)))
	assert.Contains(t, answer(t, stored, scale(6)), "spec.replicas: Forbidden: MachinePool workers has 6 replicas")
	stored.Spec.Template.Spec.InfrastructureRef.Kind = "AWSManagedMachinePool"
	assert.Empty(t, answer(t, stored, scale(6)), "CAPT does not know the limits of others")
	assert.Empty(t, answer(t, nil, scale(6)), "the API server answers that it does not exist")
}

// The rule itself is tested in api/desired.
func TestANodeGroupOfAUserIsNotChangedByItsPool(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("eks"), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}))
	of := func(name, template string, variables map[string]string) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName(name), builder.WithVariables(variables),
			builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = template }))
	}
	reader := validation.Objects{
		builder.Cluster("demo"), controlPlane, builder.MachinePool("workers", builder.WithReplicas(3)), of("eks", "eks", map[string]string{"cluster_name": "demo"}),
		of("by-hand", "nodegroup", map[string]string{"cluster_name": "demo", "nodegroup_name": "workers", "desired_size": "2"}),
		builder.WorkspaceTemplate("nodegroup", builder.Consuming("desired_size", "nodegroup_name")),
	}
	pool := builder.CAPTMachinePool("workers", builder.WithApplyRef("by-hand"))
	webhook := validator[*infrav1.CAPTMachinePool]{reader: reader}
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
	_, err := webhook.ValidateCreate(ctx, pool)
	require.ErrorContains(t, err, `would change what Terraform applies: variable desired_size from "2" to "3"`)
	_, err = webhook.ValidateUpdate(ctx, builder.CAPTMachinePool("workers"), pool)
	require.ErrorContains(t, err, `variable desired_size from "2" to "3"`)
	scaled := builder.CAPTMachinePool("workers", builder.WithApplyRef("by-hand"), builder.WithVariables(map[string]string{"labels": "a"}))
	_, err = webhook.ValidateUpdate(ctx, pool, scaled)
	require.NoError(t, err, "what was refused before is not why another field cannot be changed")
}
