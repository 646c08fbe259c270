// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestLegacyCAPTClusterNeedsNoAnnotation(t *testing.T) {
	hub := captClusters.returns(t, `
metadata: {name: demo}
spec:
  region: ap-northeast-1
  vpcTemplateRef: {name: vpc-template, namespace: default}
  vpcConfig: {name: main}
  retainVpcOnDelete: true
  workspaceTemplateApplyName: demo-vpc
status:
  ready: true
  vpcId: vpc-1
  vpcWorkspaceName: demo-vpc
  workspaceTemplateStatus: {ready: true, lastAppliedRevision: "7", workspaceName: demo-vpc, lastAppliedTime: "2026-01-02T03:04:05Z"}
`)
	assert.Empty(t, preserved(hub))
	assert.Equal(t, infrav1.VPCTemplate{
		Ref: infrav1.WorkspaceTemplateReference{Name: "vpc-template", Namespace: "default"}, Name: "main",
		DeletionPolicy: infrav1.DeletionPolicyRetain,
	}, hub.Spec.VPC.Template)
	assert.Equal(t, "demo-vpc", hub.Spec.WorkspaceTemplateApplyRef.Name)
	assert.Equal(t, ptr.To(true), hub.Status.Initialization.Provisioned)
	assert.Equal(t, "vpc-1", hub.Status.VPC.ID)
	assert.Equal(t, "demo-vpc", hub.Status.WorkspaceTemplateApply.Name)
	assert.Equal(t, "demo-vpc", hub.Status.WorkspaceTemplateApply.WorkspaceName)
}

func TestSourcesOfTheVPC(t *testing.T) {
	template := infrav1.VPCTemplate{Ref: infrav1.WorkspaceTemplateReference{Name: "t"}}
	deleted := template
	deleted.DeletionPolicy = infrav1.DeletionPolicyDelete
	const existing = `{spec: {region: us-gov-west-1, existingVpcId: vpc-12}}`
	for manifest, want := range map[string]infrav1.VPC{
		existing: {ExistingID: "vpc-12"},
		`{spec: {region: eu-west-1, retainVpcOnDelete: true, vpcConfig: {}}}`:      {},
		`{spec: {region: r, vpcTemplateRef: {name: t}}}`:                           {Template: template},
		`{spec: {region: r, vpcTemplateRef: {name: t}, retainVpcOnDelete: false}}`: {Template: deleted},
		// Nothing was made yet: what exists is neither made nor destroyed.
		`{spec: {region: eu-west-1, existingVpcId: vpc-12, vpcTemplateRef: {name: t}, retainVpcOnDelete: true, vpcConfig: {name: nn}}}`: {ExistingID: "vpc-12"},
		// A WorkspaceTemplateApply in use says what the VPC was made from.
		`{spec: {region: eu-west-1, existingVpcId: vpc-12, vpcTemplateRef: {name: t}, workspaceTemplateApplyName: x-vpc}}`: {Template: template},
	} {
		assert.Equal(t, want, captClusters.returns(t, manifest).Spec.VPC, manifest)
	}
	assert.Empty(t, preserved(captClusters.returns(t, existing)))
}

func TestFailureDomainsAreConverted(t *testing.T) {
	hub := captClusters.returns(t, `{status: {failureDomains: {c: {}, a: {controlPlane: true}, b: {attributes: {k: v}}, "": {}}}}`)
	names := []string{}
	for _, domain := range hub.Status.FailureDomains {
		names = append(names, domain.Name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names, "in a fixed order, without the one that v1beta2 does not allow")
	assert.Equal(t, map[string]string{"k": "v"}, hub.Status.FailureDomains[1].Attributes)

	captClusters.keeps(t, `{spec: {region: r, vpc: {existingID: vpc-1}}, status: {failureDomains: [{name: c}, {name: a, controlPlane: true}]}}`)
}

func TestFailureOfACAPTClusterIsThatOfConditionFailed(t *testing.T) {
	hub := captClusters.returns(t, `
metadata: {creationTimestamp: "2026-01-02T03:04:05Z"}
spec: {region: r, vpcTemplateRef: {name: t}}
status:
  failureReason: Create failed!
  failureMessage: no more VPCs
  conditions: [{type: VPCReady, status: "False", reason: "", message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]
`)
	failed := meta.FindStatusCondition(hub.Status.Conditions, infrav1.FailedCondition)
	assert.Equal(t, metav1.ConditionTrue, failed.Status)
	assert.Equal(t, "Createfailed", failed.Reason)
	assert.Equal(t, "no more VPCs", failed.Message)

	meta.SetStatusCondition(&hub.Status.Conditions, metav1.Condition{Type: infrav1.FailedCondition, Status: metav1.ConditionFalse, Reason: infrav1.NotFailedReason})
	resolved := captClusters.toSpoke(t, hub)
	assert.Nil(t, resolved.Status.FailureReason)
	assert.Nil(t, resolved.Status.FailureMessage)

	meta.SetStatusCondition(&hub.Status.Conditions, metav1.Condition{Type: infrav1.FailedCondition, Status: metav1.ConditionTrue, Reason: infrav1.VPCReadyTimeoutReason, Message: "why"})
	spoke := captClusters.toSpoke(t, hub)
	assert.Equal(t, infrav1.VPCReadyTimeoutReason, ptr.Deref(spoke.Status.FailureReason, ""))
	assert.Equal(t, "why", ptr.Deref(spoke.Status.FailureMessage, ""))
}

func TestInvalidConditionsAreCorrected(t *testing.T) {
	hub := captClusters.returns(t, `
status:
  conditions:
  - {type: VPCReady, status: "True", reason: "", message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: VPCReady, status: "False", reason: Second, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}
`)
	assert.Len(t, hub.Status.Conditions, 1)
	assert.Equal(t, "NoReasonReported", hub.Status.Conditions[0].Reason)
	assert.Equal(t, metav1.ConditionTrue, hub.Status.Conditions[0].Status)
}

func TestEndpointAnnotationIsNotStored(t *testing.T) {
	spoke := captClusters.keeps(t, `{spec: {region: r, vpc: {existingID: vpc-1}}, status: {endpoint: "10.0.0.1:6443"}}`)
	assert.Equal(t, "10.0.0.1:6443", spoke.Annotations[infrav1beta1.EndpointAnnotation])
	assert.Empty(t, preserved(spoke))
	assert.Empty(t, captClusters.toHub(t, spoke).Annotations)

	spoke.Annotations[infrav1beta1.EndpointAnnotation] = "10.6.6.6:443"
	assert.Equal(t, "10.0.0.1:6443", captClusters.toHub(t, spoke).Status.Endpoint, "users can write annotations")
}

func TestV1Beta2FieldsOfACAPTClusterSurviveV1Beta1(t *testing.T) {
	spoke := captClusters.keeps(t, `
metadata: {name: demo, annotations: {a: b}}
spec:
  region: eu-central-1
  vpc: {template: {ref: {name: t}, variables: {cidr: 10.0.0.0/16}, deletionPolicy: Delete}}
  workspaceTemplateApplyRef: {name: demo-vpc}
status:
  observedGeneration: 3
  workspaceTemplateApply: {name: other, ready: false}
`)
	assert.Equal(t, "b", spoke.Annotations["a"])

	spoke.Spec.VPCTemplateRef.Name = "another"
	hub := captClusters.toHub(t, spoke)
	assert.Equal(t, "another", hub.Spec.VPC.Template.Ref.Name, "a change in v1beta1 wins")
	assert.Equal(t, "10.0.0.0/16", hub.Spec.VPC.Template.Variables.Text("cidr"), "and keeps what it does not concern")
}
