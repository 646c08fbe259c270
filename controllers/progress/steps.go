// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"

// Step is a step of an operation.
type Step string

const (
	// Validation: the Cluster, references, the version, the region and the template are checked.
	Validation Step = "Validation"
	// Infrastructure: the VPC is created.
	Infrastructure Step = "Infrastructure"
	// ControlPlane: Terraform applies the Workspace of the control plane.
	ControlPlane Step = "ControlPlane"
	// Endpoint: the endpoint is read from the outputs and published.
	Endpoint Step = "Endpoint"
	// Kubeconfig: the kubeconfig is written.
	Kubeconfig Step = "Kubeconfig"
	// FargateProfiles: Terraform applies the Workspaces of the Fargate profiles.
	FargateProfiles Step = "FargateProfiles"
	// APIServer: the API server answers for the first time, if spec.endpointProbe is Required.
	APIServer Step = "APIServer"
	// Done: all steps are complete.
	Done Step = "Done"
)

// Steps returns the steps of all operations in order.
func Steps() []Step {
	return []Step{Validation, Infrastructure, ControlPlane, Endpoint, Kubeconfig, FargateProfiles, APIServer, Done}
}

// Weights returns the percentage of an operation that each step contributes, in the order of Steps; docs/status.md has the same table.
func Weights() map[controlplanev1.Operation][]int32 {
	apply := []int32{5, 0, 80, 3, 2, 10, 0}
	return map[controlplanev1.Operation][]int32{
		controlplanev1.OperationCreation:             {5, 20, 60, 3, 2, 8, 2},
		controlplanev1.OperationUpdate:               apply,
		controlplanev1.OperationRecreation:           apply,
		controlplanev1.OperationFargateProfileUpdate: {5, 0, 0, 0, 0, 95, 0},
	}
}

// percentAt returns the percentage of an operation that is complete when a step begins.
func percentAt(operation controlplanev1.Operation, step Step) (percent int32) {
	for i, weight := range Weights()[operation] {
		if Steps()[i] == step {
			break
		}
		percent += weight
	}
	return percent
}
