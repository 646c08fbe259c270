// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/test/builder"
)

func (s *scene) status() controlplanev1.CAPTControlPlaneStatus {
	status(s.controlPlane, s.Facts, s.plan())
	return s.controlPlane.Status
}

func (s *scene) story() map[string]string { return builder.Story(s.status().Conditions) }

var (
	working = builder.NotUpToDate(infrav1.ProvisioningReason, "")
	failing = builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")
)

// Recovering is not reported yet; the golden table has the other states.
func TestPhaseOfRecovering(t *testing.T) {
	assert.Equal(t, controlplanev1.PhaseCreating, phase("Recovering", false))
	assert.Equal(t, controlplanev1.PhaseReady, phase("Recovering", true))
}

// Cluster API takes an endpoint over once.
func TestAnOutdatedEndpointOfTheClusterIsReported(t *testing.T) {
	s := configured(t)
	message := func() string {
		return meta.FindStatusCondition(s.status().Conditions, controlplanev1.EndpointAvailableCondition).Message
	}
	assert.Empty(t, message(), "Cluster API has not taken it over yet")
	s.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 443}
	assert.Empty(t, message())
	s.Cluster.Spec.ControlPlaneEndpoint.Host = "earlier.example.com"
	assert.Contains(t, message(), "Cluster demo still has the endpoint earlier.example.com:443 of an earlier control plane. Set spec.controlPlaneEndpoint of the Cluster to "+host+":443")
	assert.Equal(t, controlplanev1.StateReady, s.controlPlane.Status.State)
	s.Cluster.Spec.ControlPlaneEndpoint.Host = "https://" + host
	assert.Equal(t, "spec.controlPlaneEndpoint.host of Cluster demo is the URL https://"+host+", which CAPT v0.3 wrote: clients cannot connect to a URL. Set spec.controlPlaneEndpoint of the Cluster to "+host+
		":443, or run captctl migrate apply with --fix-cluster-endpoints", message())
}

func TestFieldsOfStatus(t *testing.T) {
	s := configured(t, builder.WithGeneration(3))
	got := s.status()
	assert.Equal(t, int64(3), got.ObservedGeneration)
	assert.Equal(t, ptr.To(true), got.ExternalManagedControlPlane)
	assert.Equal(t, "v1.31.0", got.Version)
	assert.Equal(t, []clusterv1.StatusVersion{{Version: "v1.31.0"}}, got.Versions)
	assert.Equal(t, host+":443", got.Endpoint)
	assert.Equal(t, applyName, got.WorkspaceTemplateApply.Name)
	assert.Equal(t, "UpToDate", got.WorkspaceTemplateApply.State)
	assert.Equal(t, outputs(), got.WorkspaceTemplateApply.Outputs)
}

func TestReadyWithoutAKubeconfigForUsers(t *testing.T) {
	s := configured(t).with(func(f *Facts) { f.UserKubeconfig = kubeconfigsecret.Kubeconfig{Problem: "it belongs to another owner"} })
	got := s.status()
	assert.Equal(t, controlplanev1.StateReady, got.State)
	assert.Contains(t, meta.FindStatusCondition(got.Conditions, "KubeconfigReady").Message, "it belongs to another owner")
}

func TestVersionIsTheRunningOne(t *testing.T) {
	s := onceReady(t).apply(working)
	s.Version.Semantic = "v1.32.0"
	assert.Equal(t, "v1.31.0", s.status().Version, "while the update runs")
	s.apply(builder.UpToDate(outputs()))
	assert.Equal(t, "v1.32.0", s.status().Version)
	s.VersionError, s.Version.Semantic = assert.AnError, ""
	assert.Equal(t, "v1.32.0", s.status().Version, "a spec that is wrong changes nothing that runs")
}

func TestMessagesOfReady(t *testing.T) {
	message := func(s *scene) string {
		return meta.FindStatusCondition(s.status().Conditions, controlplanev1.ReadyCondition).Message
	}
	assert.Contains(t, message(newScene(t).with(func(f *Facts) { f.Cluster = nil })), "Create a Cluster whose spec.controlPlaneRef names it")
	assert.Contains(t, message(newScene(t).apply(builder.UpToDate(nil))), `its module has no output "cluster_endpoint". Add the output to the module`)
	assert.Contains(t, message(newScene(t).apply(failing)), "WorkspaceTemplateApply "+applyName+": VpcLimitExceeded")
	assert.Contains(t, message(newScene(t, builder.WithRegion("us-east-1"))), "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region")
}
