// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

// then is when everything happened.
const then = "2025-03-01T10:00:00Z"

// condition has the form of Crossplane; others have a message, too.
func condition(conditionType, status, reason, message string) map[string]any {
	c := map[string]any{"type": conditionType, "status": status, "reason": reason, "lastTransitionTime": then}
	if message != "" {
		c["message"] = message
	}
	if conditionType == "Synced" {
		c["observedGeneration"] = int64(1)
	}
	return c
}

const failure = "create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: creating EKS Cluster: LimitExceeded"

// initFailure is what provider-terraform reports when a module cannot be initialized.
const initFailure = "connect failed: cannot initialize Terraform configuration: Terraform encountered an error. Summary: Invalid provider source string"

// endpointFailure is a lost conflict, which CAPT v0.3 takes for a failure for good.
const endpointFailure = "Failed to update control plane endpoint: Operation cannot be fulfilled on captcontrolplanes.controlplane.cluster.x-k8s.io: the object has been modified"

// outcome is how Terraform ended.
type outcome int

const (
	succeeded outcome = iota
	applyFailed
	initFailed
)

func workspaceConditions(of outcome) []any {
	switch of {
	case initFailed:
		return []any{condition("Synced", "False", "ReconcileError", initFailure)}
	case applyFailed:
		return []any{condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", failure)}
	default:
		return []any{condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")}
	}
}

func workspaceStatus(outputs map[string]string, of outcome) map[string]any {
	status := map[string]any{"conditions": workspaceConditions(of), "atProvider": map[string]any{}}
	if of == succeeded {
		status["atProvider"] = atProvider(outputs)
	}
	return status
}

// atProvider has the outputs that are not sensitive.
func atProvider(outputs map[string]string) map[string]any {
	at, plain := map[string]any{"checksum": "d5b59506d7edcc50529b14198dc1c2b4"}, map[string]any{}
	for name, value := range outputs {
		if name != "kubeconfig" {
			plain[name], at["outputs"] = value, plain
		}
	}
	return at
}

func applyStatus(workspace string, of outcome) map[string]any {
	return map[string]any{
		"applied": true, "workspaceName": workspace, "lastAppliedTime": then, "conditions": workspaceConditions(of),
	}
}

func networkStatus(vpcID string, existing bool) map[string]any {
	made, template := condition("VPCReady", "True", "VPCCreated", "VPC has been successfully created"), map[string]any{"ready": true}
	if existing {
		made = condition("VPCReady", "True", "ExistingVPCUsed", "Using existing VPC")
	} else {
		template["lastAppliedRevision"] = "2025-03-01 09:58:11 +0000 UTC"
	}
	return map[string]any{"ready": true, "vpcId": vpcID, "conditions": []any{made}, "workspaceTemplateStatus": template}
}

func (c *Cluster) controlPlaneStatus(outputs map[string]string) map[string]any {
	const revision = "2025-03-01 09:58:13 +0000 UTC"
	available := map[string]any{"ready": true, "state": "Available", "atProvider": atProvider(outputs)}
	switch {
	case c.ApplyFailed:
		return map[string]any{
			"ready": false, "initialized": false, "phase": "Failed", "failureReason": "WorkspaceError", "failureMessage": failure,
			"conditions":      []any{condition("Ready", "False", "WorkspaceError", failure)},
			"workspaceStatus": map[string]any{"ready": false, "state": "Creating"},
		}
	case c.NeverReady:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": false, "phase": "Creating",
			"conditions":      []any{condition("Ready", "False", "Creating", "Control plane is being created")},
			"workspaceStatus": map[string]any{"atProvider": map[string]any{}},
		}
	case c.EndpointFailed:
		return map[string]any{
			"ready": false, "initialized": false, "secretsReady": true, "phase": "Failed",
			"failureReason": "EndpointUpdateFailed", "failureMessage": endpointFailure,
			"conditions":              []any{condition("Ready", "False", "EndpointUpdateFailed", endpointFailure)},
			"workspaceStatus":         available,
			"workspaceTemplateStatus": map[string]any{"ready": false, "lastAppliedRevision": revision, "lastFailureMessage": endpointFailure},
		}
	}
	return map[string]any{
		"ready": true, "initialized": true, "secretsReady": true, "phase": "Ready",
		"conditions":              []any{condition("Ready", "True", "Ready", "Control plane is ready")},
		"workspaceStatus":         available,
		"workspaceTemplateStatus": map[string]any{"ready": true, "lastAppliedRevision": revision},
	}
}
