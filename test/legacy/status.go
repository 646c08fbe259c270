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

package legacy

import (
	"maps"
)

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

func workspaceConditions(failed bool) []any {
	if failed {
		return []any{condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", failure)}
	}
	return []any{condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")}
}

func workspaceStatus(outputs map[string]string, failed bool) map[string]any {
	status := map[string]any{"conditions": workspaceConditions(failed)}
	if !failed {
		status["atProvider"] = map[string]any{"checksum": "d5b59506d7edcc50529b14198dc1c2b4", "outputs": plainOutputs(outputs)}
	}
	return status
}

// plainOutputs are those that are not sensitive.
func plainOutputs(outputs map[string]string) map[string]any {
	values := map[string]any{}
	for name, value := range maps.All(outputs) {
		if name != "kubeconfig" {
			values[name] = value
		}
	}
	return values
}

func applyStatus(workspace string, failed bool) map[string]any {
	return map[string]any{
		"applied": true, "workspaceName": workspace, "lastAppliedTime": then, "conditions": workspaceConditions(failed),
	}
}

func networkStatus(vpcID string, existing bool) map[string]any {
	status := map[string]any{
		"ready": true, "vpcId": vpcID,
		"conditions": []any{condition("VPCReady", "True", "VPCCreated", "VPC has been successfully created")},
	}
	if !existing {
		status["workspaceTemplateStatus"] = map[string]any{"ready": true, "lastAppliedRevision": "2025-03-01 09:58:11 +0000 UTC"}
	}
	return status
}

func controlPlaneStatus(outputs map[string]string, failed bool) map[string]any {
	if failed {
		return map[string]any{
			"ready": false, "initialized": false, "phase": "Failed", "failureReason": "WorkspaceError", "failureMessage": failure,
			"conditions":      []any{condition("Ready", "False", "WorkspaceError", failure)},
			"workspaceStatus": map[string]any{"ready": false, "state": "Creating"},
		}
	}
	return map[string]any{
		"ready": true, "initialized": true, "secretsReady": true, "phase": "Ready",
		"conditions": []any{condition("Ready", "True", "Ready", "Control plane is ready")},
		"workspaceStatus": map[string]any{
			"ready": true, "state": "Available", "atProvider": map[string]any{"checksum": "d5b59506d7edcc50529b14198dc1c2b4", "outputs": plainOutputs(outputs)},
		},
		"workspaceTemplateStatus": map[string]any{"ready": true, "lastAppliedRevision": "2025-03-01 09:58:13 +0000 UTC"},
	}
}
