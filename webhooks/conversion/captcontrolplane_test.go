// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestTimeoutsAreConverted(t *testing.T) {
	hub := controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t},
  controlPlaneConfig: {region: r, timeouts: {controlPlaneTimeout: 45, vpcReadyTimeout: 20}}}}`)
	assert.Equal(t, controlplanev1.Timeouts{
		ControlPlaneSeconds: 2700, VPCReadySeconds: 1200,
	}, hub.Spec.Timeouts)
	assert.Empty(t, preserved(hub))

	hub = controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t},
  controlPlaneConfig: {region: r, timeouts: {controlPlaneTimeout: 9000}}}}`)
	assert.Equal(t, int32(86400), hub.Spec.Timeouts.ControlPlaneSeconds, "v1beta2 allows a day")
	assert.Zero(t, hub.Spec.Timeouts.VPCReadySeconds, "absent is the default in both versions")
	controlPlanes.returns(t, `{spec: {version: "", workspaceTemplateRef: {name: ""}, controlPlaneConfig: {region: "", timeouts: {}}}}`)
}

func TestPartialMinutesSurviveV1Beta1(t *testing.T) {
	spoke := controlPlanes.keeps(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, timeouts: {controlPlaneSeconds: 1801, secretSeconds: 42}}}`)
	assert.Equal(t, 31, *spoke.Spec.ControlPlaneConfig.Timeouts.ControlPlaneTimeout, "rounded up: nothing times out earlier")

	spoke.Spec.ControlPlaneConfig.Timeouts.ControlPlaneTimeout = ptr.To(40)
	hub := controlPlanes.toHub(t, spoke)
	assert.Equal(t, int32(2400), hub.Spec.Timeouts.ControlPlaneSeconds, "a change in v1beta1 wins")
	assert.Equal(t, int32(42), hub.Spec.Timeouts.SecretSeconds)
}

func TestEndpointWithASchemeIsConvertedUnchanged(t *testing.T) {
	hub := controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, controlPlaneEndpoint: {host: "https://a.eks.amazonaws.com", port: 443}}}`)
	assert.Equal(t, "https://a.eks.amazonaws.com", hub.Spec.ControlPlaneEndpoint.Host)
	assert.Empty(t, preserved(hub))

	hub = controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, controlPlaneEndpoint: {host: "", port: 0}}}`)
	assert.True(t, hub.Spec.ControlPlaneEndpoint.IsZero(), "an endpoint that is not known yet is none")
}

func TestAbsentEndpointAccessIsDisabled(t *testing.T) {
	hub := controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t},
  controlPlaneConfig: {region: r, endpointAccess: {private: true, publicCIDRs: [10.0.0.0/8]}}}}`)
	assert.Equal(t, controlplanev1.EndpointDisabled, hub.Spec.EndpointAccess.Public, "v1beta2's default would open a private cluster to the world")
	assert.Equal(t, controlplanev1.EndpointEnabled, hub.Spec.EndpointAccess.Private)
	assert.Empty(t, hub.Spec.EndpointAccess.PublicCIDRs, "v1beta2 does not allow them without a public endpoint")

	hub = controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t},
  controlPlaneConfig: {region: r, endpointAccess: {public: true, publicCIDRs: [10.0.0.0/8, 10.0.0.0/8]}}}}`)
	assert.Len(t, hub.Spec.EndpointAccess.PublicCIDRs, 1, "nor one of them twice")
}

func TestWorkspaceTemplateApplyNameIsAReference(t *testing.T) {
	hub := controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, workspaceTemplateApplyName: demo-eks}}`)
	assert.Equal(t, "demo-eks", hub.Spec.WorkspaceTemplateApplyRef.Name)
	hub = controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, workspaceTemplateApplyName: ""}}`)
	assert.Zero(t, hub.Spec.WorkspaceTemplateApplyRef, "an empty reference is none")
}

func TestFailureReasonAndMessageBecomeTheFailedCondition(t *testing.T) {
	hub := controlPlanes.returns(t, `
metadata: {creationTimestamp: "2026-01-02T03:04:05Z"}
status: {phase: Failed, secretsReady: false, failureReason: Timeout, failureMessage: too late}
`)
	failed := meta.FindStatusCondition(hub.Status.Conditions, infrav1.FailedCondition)
	assert.Equal(t, []any{metav1.ConditionTrue, "Timeout", "too late"}, []any{failed.Status, failed.Reason, failed.Message})

	failed.Status, failed.Reason, failed.Message = metav1.ConditionFalse, infrav1.NotFailedReason, ""
	spoke := controlPlanes.toSpoke(t, hub)
	assert.Nil(t, spoke.Status.FailureReason)
	assert.Nil(t, spoke.Status.FailureMessage)

	controlPlanes.returns(t, `{status: {secretsReady: false, failureReason: "", failureMessage: only a message}}`)
	controlPlanes.returns(t, `{status: {secretsReady: false, failureReason: "not legal!"}}`)
}

func TestReadyInitializedAndSecretsReadyAreConverted(t *testing.T) {
	hub := controlPlanes.returns(t, `
metadata: {creationTimestamp: "2026-01-02T03:04:05Z"}
status: {ready: true, initialized: true, secretsReady: true, phase: Ready}
`)
	assert.Equal(t, ptr.To(true), hub.Status.Initialization.ControlPlaneInitialized)
	assert.Equal(t, ptr.To(true), hub.Status.ExternalManagedControlPlane)
	assert.True(t, meta.IsStatusConditionTrue(hub.Status.Conditions, "Ready"))
	assert.True(t, meta.IsStatusConditionTrue(hub.Status.Conditions, "KubeconfigReady"))
	assert.Empty(t, preserved(hub), "the conditions say what the fields say, and become fields again")
	assert.Empty(t, controlPlanes.toSpoke(t, hub).Status.Conditions)

	spoke := controlPlanes.keeps(t, `
spec: {version: "1.31", workspaceTemplateRef: {name: t}, endpointProbe: BestEffort}
status:
  conditions:
  - {type: Available, status: "True", reason: Available, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: Ready, status: "False", reason: Degraded, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}
`)
	assert.Equal(t, ptr.To(true), spoke.Status.Ready, "the API server can be used")
}

// Fields of v1beta1 become conditions with the creation time of the object. Other conditions may be equal to these.
func TestConditionsAsOldAsTheirControlPlaneSurviveV1Beta1(t *testing.T) {
	const ready = `{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}`
	const secrets = `{type: KubeconfigReady, status: "True", reason: KubeconfigReady, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}`
	const other = `{type: Other, status: "True", reason: Any, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}`
	for _, conditions := range []string{
		ready, secrets, ready + "," + secrets, secrets + "," + ready, other + "," + secrets, secrets + "," + other, ready + "," + other,
	} {
		controlPlanes.keeps(t, `
metadata: {creationTimestamp: "2026-01-02T03:04:05Z"}
spec: {version: "1.31", workspaceTemplateRef: {name: t}, endpointProbe: BestEffort}
status: {conditions: [`+conditions+`]}
`)
		controlPlanes.returns(t, `
metadata: {creationTimestamp: "2026-01-02T03:04:05Z"}
status: {ready: true, secretsReady: true, conditions: [`+conditions+`]}
`)
	}
}

func TestWorkspaceStatusOfALegacyControlPlaneSurvives(t *testing.T) {
	hub := controlPlanes.returns(t, `
spec: {version: "1.31", workspaceTemplateRef: {name: t}, workspaceTemplateApplyName: demo-eks}
status:
  ready: true
  secretsReady: true
  conditions: [{type: Ready, status: "True", reason: Ready, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  workspaceStatus: {ready: true, state: Available, atProvider: {checksum: c, outputs: {cluster_name: demo, list: [1, {a: null}]}}}
  workspaceTemplateStatus: {ready: true, lastAppliedRevision: "7", outputs: {cluster_name: demo}}
`)
	assert.Equal(t, "Available", hub.Status.WorkspaceTemplateApply.State)
	assert.Equal(t, "demo-eks", hub.Status.WorkspaceTemplateApply.Name)
	assert.Equal(t, map[string]string{"cluster_name": "demo"}, hub.Status.WorkspaceTemplateApply.Outputs)
}

func TestFargateProfilesKeepTheirReferencesWhenEditedInV1Beta1(t *testing.T) {
	spoke := controlPlanes.keeps(t, `
spec:
  version: "1.31"
  workspaceTemplateRef: {name: t}
  fargateProfiles:
  - {name: a, selectors: [{namespace: x}], workspaceTemplateRef: {name: f}, workspaceTemplateApplyRef: {name: demo-a}}
  - {name: b, selectors: [{namespace: yy, labels: {k: v}}], workspaceTemplateRef: {name: f}, workspaceTemplateApplyRef: {name: demo-b}}
status:
  fargateProfiles:
  - {name: a, ready: "True", workspaceTemplateApplyName: demo-a}
  - {name: b, ready: "False", failureReason: r, failureMessage: m}
  - {name: removed, ready: "False", workspaceTemplateApplyName: demo-removed}
`)
	statuses := `[{"name": "a", "ready": true, "workspaceTemplateApplyName": "demo-a"}, {"name": "b", "ready": false, "failureReason": "r", "failureMessage": "m"},
		{"name": "removed", "ready": false, "workspaceTemplateApplyName": "demo-removed"}]`
	assert.JSONEq(t, statuses, text(t, spoke.Status.FargateProfileStatuses))
	added := spoke.Spec.AdditionalFargateProfiles[0]
	added.Name = "added"
	spoke.Spec.AdditionalFargateProfiles = append(spoke.Spec.AdditionalFargateProfiles[1:], added)
	spoke.Spec.AdditionalFargateProfiles[0].Selectors[0].Namespace = "z"
	hub := controlPlanes.toHub(t, spoke)
	assert.Len(t, hub.Spec.FargateProfiles, 2)
	assert.Equal(t, "demo-b", hub.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef.Name)
	assert.Equal(t, "z", hub.Spec.FargateProfiles[0].Selectors[0].Namespace)
	assert.Zero(t, hub.Spec.FargateProfiles[1].WorkspaceTemplateApplyRef, "v1beta1 has no references")
	assert.JSONEq(t, statuses, text(t, controlPlanes.toSpoke(t, hub).Status.FargateProfileStatuses))
}

// The API server would remove a null in place of the list.
func TestAProfileWithoutSelectorsHasAnEmptyListInBothVersions(t *testing.T) {
	hub := controlPlanes.returns(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, additionalFargateProfiles: [{name: a, selectors: [], workspaceTemplateRef: {name: f}}]}}`)
	assert.Contains(t, text(t, hub), `"selectors":[]`)
	spoke := controlPlanes.keeps(t, `{spec: {version: "1.31", workspaceTemplateRef: {name: t}, fargateProfiles: [{name: a, selectors: [], workspaceTemplateRef: {name: f}}]}}`)
	assert.Contains(t, text(t, spoke), `"selectors":[]`)
}

func TestTemplateKeepsFieldsOfASingleCluster(t *testing.T) {
	hub := controlPlaneTemplates.returns(t, `
spec:
  template:
    metadata: {name: nn, labels: {a: b}, annotations: {}, finalizers: [f]}
    spec:
      version: "1.31"
      workspaceTemplateRef: {name: t}
      controlPlaneEndpoint: {host: h, port: 443}
      workspaceTemplateApplyName: x
      controlPlaneConfig: {region: eu-west-1}
`)
	assert.Equal(t, "eu-west-1", hub.Spec.Template.Spec.Region)
	assert.Equal(t, map[string]string{"a": "b"}, hub.Spec.Template.ObjectMeta.Labels)
	controlPlaneTemplates.returns(t, `{spec: {template: {metadata: {}}}}`)
	controlPlaneTemplates.keeps(t, `{spec: {template: {spec: {workspaceTemplateRef: {name: t}, kubeconfig: {source: Exec}, variables: {a: b}}}}}`)
}
