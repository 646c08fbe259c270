// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/terraform"
)

// Row is a row of the table of what a Workspace of provider-terraform shows; see docs/provider-terraform.md.
type Row string

// The rows of the table, in its order.
const (
	Queued                Row = "queued, or provider down"
	Planning              Row = "init and plan running"
	FirstApplyRunning     Row = "first apply running"
	FirstApplyDone        Row = "first apply done"
	AtRest                Row = "next observation, no diff"
	FirstApplyFailed      Row = "first apply failed"
	Updating              Row = "update or drift being applied"
	UpdateFailed          Row = "update failed"
	PlanFailed            Row = "plan failed"
	ProviderConfigMissing Row = "ProviderConfig missing"
	WorkspacePaused       Row = "paused"
	Destroying            Row = "destroying"
	DestroyFailed         Row = "destroy failed"
	Interrupted           Row = "provider killed during first apply"
	ResourcesExist        Row = "first look at resources that exist"
)

// Secret is what no status, event or log may ever show: it stands in the blob at the end of the errors below.
const Secret = "H4sIAAAAAAAA/c0nfident1al"

// blob is how an error of Terraform ends.
const blob = ` To see the full error run: echo "` + Secret + `" | base64 -d | gunzip`

const (
	crossplaneFinalizer = "finalizer.managedresource.crossplane.io"
	externalName        = "crossplane.io/external-name"
	createPending       = "crossplane.io/external-create-pending"
	createSucceeded     = "crossplane.io/external-create-succeeded"
)

type show struct {
	named, found, begun, made, deleting bool
	ready, synced                       *metav1.Condition
}

func is(conditionType string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// rows says what a Workspace shows in each row, as provider-terraform v0.18 to v1.1 leaves it.
func rows() map[Row]show {
	ready := is("Ready", metav1.ConditionTrue, "Available", "")
	creating := is("Ready", metav1.ConditionFalse, "Creating", "")
	success := is("Synced", metav1.ConditionTrue, "ReconcileSuccess", "")
	failed := func(message string) *metav1.Condition {
		return is("Synced", metav1.ConditionFalse, "ReconcileError", message)
	}
	return map[Row]show{
		Queued:            {},
		Planning:          {named: true},
		FirstApplyRunning: {named: true, begun: true},
		FirstApplyDone:    {named: true, begun: true, made: true, ready: creating, synced: success},
		AtRest:            {named: true, begun: true, made: true, ready: ready, synced: success},
		FirstApplyFailed: {named: true, begun: true, ready: creating, synced: failed(
			"create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: creating EC2 VPC: VpcLimitExceeded." + blob)},
		Updating: {named: true, begun: true, made: true, ready: ready, synced: success},
		UpdateFailed: {named: true, begun: true, made: true, ready: ready, synced: failed(
			"update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: ThrottlingException." + blob)},
		PlanFailed: {named: true, begun: true, made: true, ready: ready, synced: failed(
			"observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Unsupported argument." + blob)},
		ProviderConfigMissing: {ready: nil, synced: failed(
			`connect failed: cannot get ProviderConfig: ProviderConfig.tf.upbound.io "aws" not found`)},
		WorkspacePaused: {named: true, begun: true, made: true, ready: ready,
			synced: is("Synced", metav1.ConditionFalse, "ReconcilePaused", "")},
		Destroying: {named: true, begun: true, made: true, deleting: true, ready: ready, synced: success},
		DestroyFailed: {named: true, begun: true, made: true, deleting: true,
			ready: is("Ready", metav1.ConditionFalse, "Deleting", ""), synced: failed(
				"delete failed: cannot destroy Terraform configuration: Terraform encountered an error. Summary: DependencyViolation." + blob)},
		ResourcesExist: {named: true, found: true, synced: success},
		Interrupted: {named: true, begun: true, synced: failed(
			"cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed")},
	}
}

// Rows lists the rows of the table, in its order.
func Rows() []Row {
	return []Row{
		Queued, Planning, FirstApplyRunning, FirstApplyDone, AtRest, FirstApplyFailed, Updating, UpdateFailed, PlanFailed,
		ProviderConfigMissing, WorkspacePaused, Destroying, DestroyFailed, Interrupted, ResourcesExist,
	}
}

// Workspace makes a live, namespaced Workspace in a row of the table. Its conditions moved a minute after it was created.
func Workspace(name string, row Row, options ...Option) *unstructured.Unstructured {
	shown, ok := rows()[row]
	if !ok {
		panic("builder: there is no row " + row)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	object.SetNamespace(Namespace)
	object.SetName(name)
	object.SetUID(UID(terraform.WorkspaceKind, name))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(Created))
	if shown.named {
		WithAnnotation(externalName, name)(object)
	}
	if shown.found || shown.begun {
		WithFinalizers(crossplaneFinalizer)(object)
	}
	if shown.begun {
		WithAnnotation(createPending, Created.Format(time.RFC3339))(object)
	}
	if shown.made {
		WithAnnotation(createSucceeded, Created.Format(time.RFC3339))(object)
	}
	if shown.deleting {
		Deleting()(object)
	}
	var conditions []any
	for _, condition := range []*metav1.Condition{shown.ready, shown.synced} {
		if condition != nil {
			conditions = append(conditions, shownCondition(condition, object.GetGeneration()))
		}
	}
	if conditions != nil {
		object.Object["status"] = map[string]any{"conditions": conditions}
	}
	if row == Updating {
		object.SetGeneration(2)
	}
	return apply(object, options)
}

// shownCondition is a condition as provider-terraform v1 writes it: the generation is on Synced only.
func shownCondition(condition *metav1.Condition, generation int64) map[string]any {
	out := map[string]any{
		"type": condition.Type, "status": string(condition.Status), "reason": condition.Reason,
		"lastTransitionTime": Created.Add(time.Minute).Format(time.RFC3339),
	}
	if condition.Message != "" {
		out["message"] = condition.Message
	}
	if condition.Type == "Synced" {
		out["observedGeneration"] = generation
	}
	return out
}

// OfV0 takes away what only provider-terraform v1 writes.
func OfV0() Option {
	return With(func(workspace *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(workspace.Object, "status", "conditions")
		for _, condition := range conditions {
			delete(condition.(map[string]any), "observedGeneration")
		}
		if len(conditions) > 0 {
			must(unstructured.SetNestedSlice(workspace.Object, conditions, "status", "conditions"))
		}
	})
}

// InClusterScope makes a Workspace cluster-wide.
func InClusterScope() Option {
	return With(func(workspace *unstructured.Unstructured) {
		workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
		workspace.SetNamespace("")
	})
}

// WithOutputs gives a Workspace outputs that are not sensitive, as JSON values.
func WithOutputs(outputs map[string]any) Option {
	return With(func(workspace *unstructured.Unstructured) {
		must(unstructured.SetNestedMap(workspace.Object, outputs, "status", "atProvider", "outputs"))
	})
}

// WithError gives the condition Synced another message.
func WithError(message string) Option {
	return With(func(workspace *unstructured.Unstructured) {
		must(unstructured.SetNestedSlice(workspace.Object, []any{shownCondition(
			is("Synced", metav1.ConditionFalse, "ReconcileError", message), workspace.GetGeneration(),
		)}, "status", "conditions"))
	})
}

// WrittenBy says that a field manager applied the spec of a Workspace at a time, and which of its fields.
func WrittenBy(manager string, when time.Time, fields string) Option {
	return With(func(workspace *unstructured.Unstructured) {
		written := metav1.NewTime(when)
		workspace.SetManagedFields(append(workspace.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: workspace.GetAPIVersion(),
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}, Time: &written,
		}))
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// WorkspaceDefinition is the CRD of a scope's Workspaces, as far as CAPT looks at it.
func WorkspaceDefinition(scope terraform.Scope) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "workspaces." + scope.GroupVersionKind().Group}}
}
