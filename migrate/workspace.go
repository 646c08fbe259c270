// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capt-provider/capt/api/terraform"
)

// WorkspaceRecord records what a Workspace was when the plan was created.
type WorkspaceRecord struct {
	ObjectRef  `json:",inline"`
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"` // Hash of spec, labels, annotations and finalizers: SHA-256, as 64 hexadecimal digits.
}

// earlierHash is how many digits of a hash the plans of earlier versions have.
const earlierHash = 16

// IsUnchanged reports whether a Workspace is still as it was recorded. A plan of an earlier version has fewer digits, but a change of spec also increases
// the generation (decision 38).
func (r WorkspaceRecord) IsUnchanged(now WorkspaceRecord) bool {
	if len(r.Hash) == earlierHash {
		now.Hash = now.Hash[:earlierHash]
	}
	return r == now
}

// RecordWorkspace records a Workspace, with a hash of what a migration must not change: spec, labels, annotations and finalizers.
func RecordWorkspace(workspace *unstructured.Unstructured) (WorkspaceRecord, error) {
	data, err := json.Marshal(struct {
		Spec                any
		Labels, Annotations map[string]string
		Finalizers          []string
	}{workspace.Object["spec"], workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers()})
	if err != nil {
		return WorkspaceRecord{}, fmt.Errorf("encoding Workspace %s: %w", workspace.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return WorkspaceRecord{ObjectRef: RefOf(workspace), Generation: workspace.GetGeneration(), Hash: hex.EncodeToString(sum[:])}, nil
}

// WhyNotUpToDate is why a Workspace is not up to date; empty if it is. It has reasons only: messages of Terraform may hold secrets.
func WhyNotUpToDate(workspace *unstructured.Unstructured) string {
	if workspace.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	var typed terraform.WorkspaceStatus
	status, _ := workspace.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed); err != nil {
		return "its status cannot be read"
	}
	for _, kind := range []string{"Synced", "Ready"} {
		switch c := meta.FindStatusCondition(typed.Conditions, kind); {
		case c == nil:
			return kind + " is unknown"
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s is %s (%s)", kind, c.Status, c.Reason)
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration(): // Before v1 the provider reports no generation.
			return "its last change is not applied yet"
		}
	}
	return ""
}
