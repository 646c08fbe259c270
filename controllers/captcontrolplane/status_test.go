// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/adoption"
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

// The table of status.md: what a control plane is, before it was ever ready and afterwards.
func TestStates(t *testing.T) {
	noApply := func(f *Facts) { f.Apply.Apply = nil }
	noVPC := func(f *Facts) { f.Infrastructure.Status.VPC.ID = "" }
	noCluster := func(f *Facts) { f.Cluster, f.Infrastructure, f.Apply.Apply = nil, nil, nil }
	paused := func(f *Facts) { f.Paused = "annotation" }
	for name, row := range map[string]struct {
		scene *scene
		state controlplanev1.State
		phase controlplanev1.Phase
	}{
		"no owner yet":                      {newScene(t).with(noCluster), "Pending", "Creating"},
		"paused before the start":           {newScene(t).with(noApply).with(paused), "Pending", "Creating"},
		"paused after the start":            {newScene(t).apply(working).with(paused), "Provisioning", "Creating"},
		"no VPC yet":                        {newScene(t).with(noApply).with(noVPC), "Validating", "Creating"},
		"an invalid version":                {newScene(t).with(noApply).with(func(f *Facts) { f.VersionError = assert.AnError }), "Validating", "Creating"},
		"about to be made":                  {newScene(t).with(noApply), "Provisioning", "Creating"},
		"being made":                        {newScene(t).apply(working), "Provisioning", "Creating"},
		"could not be made":                 {newScene(t).apply(failing), "Provisioning", "Creating"},
		"made, the endpoint is not written": {newScene(t), "Configuring", "Creating"},
		"made, no kubeconfig yet":           {newScene(t, builder.WithEndpoint(host, 443)), "Configuring", "Creating"},
		"made and configured":               {configured(t), "Ready", "Ready"},
		"an update":                         {onceReady(t).apply(working), "Configuring", "Creating"},
		"an update that fails":              {onceReady(t).apply(failing), "Degraded", "Ready"},
		"the VPC is gone":                   {onceReady(t).with(noVPC), "Degraded", "Ready"},
		"the owner is gone":                 {onceReady(t).with(func(f *Facts) { f.Cluster, f.Infrastructure = nil, nil }), "Degraded", "Ready"},
		"the kubeconfig is gone":            {onceReady(t).with(func(f *Facts) { f.Kubeconfig = kubeconfigsecret.Kubeconfig{Problem: "x", Reason: "KubeconfigMissing"} }), "Degraded", "Ready"},
		"the endpoint changed":              {onceReady(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": "other"})), "Degraded", "Ready"},
		"paused while it is ready":          {onceReady(t).with(paused), "Ready", "Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.scene.status()
			assert.Equal(t, row.state, got.State)
			assert.Equal(t, row.phase, got.Phase)
			ready := builder.Story(got.Conditions)["Ready"]
			assert.Equal(t, row.state == controlplanev1.StateReady, ready == "True Ready", ready)
		})
	}
}

func TestPhaseOfEveryState(t *testing.T) {
	for state, want := range map[controlplanev1.State][2]controlplanev1.Phase{ // Before and after it was initialized.
		"Pending": {"Creating", "Creating"}, "Validating": {"Creating", "Creating"}, "Provisioning": {"Creating", "Creating"},
		"Configuring": {"Creating", "Creating"}, "Ready": {"Ready", "Ready"}, "Degraded": {"Ready", "Ready"},
		"Recovering": {"Creating", "Ready"}, "Failed": {"Failed", "Failed"},
	} {
		assert.Equal(t, want, [2]controlplanev1.Phase{phase(state, false), phase(state, true)}, state)
	}
}

func TestConditions(t *testing.T) {
	creating := map[string]string{
		"Available": "False NotAvailable", "Initialized": "False NotInitialized", "Creating": "True Creating",
		"EndpointAvailable": "False WaitingForWorkspace", "KubeconfigReady": "False WaitingForWorkspace",
	}
	and := func(base map[string]string, more map[string]string) map[string]string {
		out := maps.Clone(base)
		maps.Copy(out, more)
		return out
	}
	for name, row := range map[string]struct {
		scene *scene
		want  map[string]string
	}{
		"ready": {configured(t), nil},
		"waiting for the VPC": {newScene(t).with(func(f *Facts) { f.Infrastructure.Status.VPC.ID, f.Apply.Apply = "", nil }), and(creating, map[string]string{
			"DependenciesReady": "False WaitingForInfrastructure", "Ready": "False WaitingForInfrastructure", "WorkspaceReady": "False Provisioning"})},
		"being made":        {newScene(t).apply(working), and(creating, map[string]string{"Ready": "False Provisioning", "WorkspaceReady": "False Provisioning"})},
		"could not be made": {newScene(t).apply(failing), and(creating, map[string]string{"Ready": "False ApplyFailed", "WorkspaceReady": "False ApplyFailed"})},
		"the user must decide": {newScene(t).with(func(f *Facts) { f.Apply.Apply, f.Apply.Candidates = nil, []adoption.Candidate{{Name: "x"}} }), and(creating, map[string]string{
			"DependenciesReady": "False AdoptionRequired", "AdoptionRequired": "True AdoptionRequired", "Ready": "False AdoptionRequired",
			"WorkspaceReady": "False Provisioning"})},
		"updating: still available": {onceReady(t).apply(working), map[string]string{
			"Ready": "False Provisioning", "WorkspaceReady": "False Provisioning", "Creating": "True Creating", "KubeconfigReady": "False WaitingForWorkspace"}},
		"update failed: still available": {onceReady(t).apply(failing), map[string]string{
			"Ready": "False ApplyFailed", "WorkspaceReady": "False ApplyFailed", "Degraded": "True Degraded", "KubeconfigReady": "False WaitingForWorkspace"}},
		"paused": {onceReady(t).with(func(f *Facts) { f.Paused = "annotation" }), map[string]string{"Paused": "True Paused"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{
				"Available": "True Available", "Ready": "True Ready", "Initialized": "True Initialized",
				"DependenciesReady": "True DependenciesReady", "WorkspaceReady": "True WorkspaceReady", "EndpointAvailable": "True EndpointKnown",
				"KubeconfigReady": "True KubeconfigReady",
			}
			maps.Copy(want, row.want)
			assert.Equal(t, want, row.scene.story())
		})
	}
}

// The fault for which the design notes were written.
func TestReadyIsNeverTrueBeforeTheEndpointIsKnown(t *testing.T) {
	for name, s := range map[string]*scene{
		"a Workspace that is up to date without outputs": configured(t).apply(builder.UpToDate(nil)),
		"an empty output":             configured(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": ""})),
		"an invalid output":           configured(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": "http://x/y"})),
		"an empty connection Secret":  newScene(t).apply(builder.UpToDate(nil)).with(func(f *Facts) { f.Connection = connection(nil) }),
		"an endpoint not written yet": newScene(t),
	} {
		t.Run(name, func(t *testing.T) {
			s.status()
			assert.NotEqual(t, controlplanev1.StateReady, s.controlPlane.Status.State)
			assert.Contains(t, builder.Story(s.controlPlane.Status.Conditions)["Ready"], "False")
			assert.Nil(t, s.controlPlane.Status.Initialization.ControlPlaneInitialized)
		})
	}
}

func TestEndpointAvailable(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		want  string
	}{
		"known":                         {configured(t), "True EndpointKnown"},
		"known, while an update runs":   {onceReady(t).apply(working), "True EndpointKnown"},
		"about to be written":           {newScene(t), "False WaitingForWorkspace"},
		"not known before it is made":   {newScene(t).apply(working), "False WaitingForWorkspace"},
		"no output":                     {newScene(t).apply(builder.UpToDate(nil)), "False EndpointMissing"},
		"an invalid output":             {newScene(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": "http://x"})), "False EndpointInvalid"},
		"another than before":           {configured(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": "other"})), "False EndpointChanged"},
		"only in the connection Secret": {configured(t).apply(builder.UpToDate(nil)).with(func(f *Facts) { f.Connection = connection(outputs()) }), "True EndpointKnown"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, row.scene.story()["EndpointAvailable"]) })
	}
}

func TestDefect20InitializedIsNeverRevoked(t *testing.T) {
	s := onceReady(t)
	for name, change := range map[string]func(){
		"an update that fails":  func() { s.apply(failing) },
		"the apply is gone":     func() { s.Apply.Apply = nil },
		"the Cluster is gone":   func() { s.Cluster, s.Infrastructure = nil, nil },
		"the connection Secret": func() { s.Connection = nil },
	} {
		change()
		s.status()
		assert.Equal(t, ptr.To(true), s.controlPlane.Status.Initialization.ControlPlaneInitialized, name)
		assert.Equal(t, "True Initialized", builder.Story(s.controlPlane.Status.Conditions)["Initialized"], name)
		assert.Equal(t, "True Available", builder.Story(s.controlPlane.Status.Conditions)["Available"], name)
	}
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

func TestConditionsWhileItIsDeleted(t *testing.T) {
	s := onceReady(t)
	builder.Deleting()(s.controlPlane)
	story := s.apply(builder.Deleting()).story()
	assert.Equal(t, "True WaitingForWorkspaceTemplateApplyDeletion", story["Deleting"])
	assert.Equal(t, "False Deleting", story["Ready"])
	assert.Equal(t, "False Deleting", story["Available"])
	assert.Equal(t, "True Initialized", story["Initialized"])
	s.Apply.Apply = nil
	assert.Equal(t, "True Deleting", s.story()["Deleting"])
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

func TestTransitionTimesStandStillWhileNothingChanges(t *testing.T) {
	s := onceReady(t)
	for i := range s.controlPlane.Status.Conditions {
		s.controlPlane.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	before := s.controlPlane.Status.DeepCopy()
	assert.Equal(t, *before, s.status())
}
