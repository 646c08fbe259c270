// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// neverInitialized is a control plane whose first apply fails.
func neverInitialized() *History {
	h := &History{
		ControlPlane: &controlplanev1.CAPTControlPlane{}, Cluster: &clusterv1.Cluster{}, CAPTCluster: &infrav1.CAPTCluster{}, Apply: &infrav1.WorkspaceTemplateApply{},
		Origin: func(*infrav1.WorkspaceTemplateApply) string { return "" },
	}
	h.ControlPlane.Status.ObservedGeneration = 1
	h.ControlPlane.CreationTimestamp = metav1.NewTime(start)
	h.Apply.UID, h.Apply.CreationTimestamp = "apply", metav1.NewTime(start.Add(time.Minute))
	h.Apply.Annotations = map[string]string{naming.ExternalNameAnnotation: "state", naming.ExternalNameUIDAnnotation: "apply"}
	h.Apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "workspace"}
	return h
}

// evidence are all signs that a control plane was initialized, or may have been.
func evidence() map[string]func(*History) {
	return map[string]func(*History){
		"endpoint in spec":        func(h *History) { h.ControlPlane.Spec.ControlPlaneEndpoint.Host = "https://x" },
		"initialized":             func(h *History) { h.ControlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true) },
		"version in status":       func(h *History) { h.ControlPlane.Status.Version = "v1.33.0" },
		"endpoint in status":      func(h *History) { h.ControlPlane.Status.Endpoint = "x:443" },
		"status lost":             func(h *History) { h.ControlPlane.Status = controlplanev1.CAPTControlPlaneStatus{} },
		"Secret":                  func(h *History) { h.Secret = "demo-kubeconfig" },
		"no Cluster":              func(h *History) { h.Cluster = nil },
		"endpoint of the Cluster": func(h *History) { h.Cluster.Spec.ControlPlaneEndpoint.Port = 443 },
		"initialized Cluster":     func(h *History) { h.Cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true) },
		"no apply":                func(h *History) { h.Apply = nil },
		"applied":                 func(h *History) { h.Apply.Status.Applied = metav1.ConditionTrue },
		"applied revision":        func(h *History) { h.Apply.Status.LastAppliedRevision = "1" },
		"a state that existed":    func(h *History) { h.Apply.Spec.TerraformState.Name = "shop" },
		"outputs":                 func(h *History) { h.Apply.Status.Outputs = map[string]string{"cluster_endpoint": "x"} },
		"apply lost its status":   func(h *History) { h.Apply.Status = infrav1.WorkspaceTemplateApplyStatus{} },
		"moved or restored":       func(h *History) { h.Apply.UID = "another" },
		"no record of its state":  func(h *History) { h.Apply.Annotations = nil },
		"older than the owner":    func(h *History) { h.Apply.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour)) },
		"another origin":          func(h *History) { h.Origin = func(*infrav1.WorkspaceTemplateApply) string { return "another version" } },
		"retained":                func(h *History) { h.Apply.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain },
		"protected":               func(h *History) { h.ControlPlane.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled },
		"protected CAPTCluster":   func(h *History) { h.CAPTCluster.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled },
		"applied Workspace":       func(h *History) { h.Workspace = "Workspace demo is Ready" },
		"no control plane":        func(h *History) { h.ControlPlane = nil },
		"versions in status":      func(h *History) { h.ControlPlane.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.33.0"}} },
		"applied once":            func(h *History) { h.Apply.Status.LastAppliedTime = ptr.To(metav1.NewTime(start)) },
		"version of the Cluster": func(h *History) {
			h.Cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.33.0"}}}
		},
		"summary of an applied revision": func(h *History) {
			h.ControlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{}
			h.ControlPlane.Status.WorkspaceTemplateApply.LastAppliedRevision = "1"
		},
		"summary of an apply": func(h *History) {
			h.ControlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{}
			h.ControlPlane.Status.WorkspaceTemplateApply.LastAppliedTime = ptr.To(metav1.NewTime(start))
		},
		"summary of earlier apply": func(h *History) {
			h.ControlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{Outputs: map[string]string{"a": "b"}}
		},
	}
}

var allowDestroy = infrav1.RecoveryAction{
	Type: infrav1.RecoveryRecreateWorkspace, Parameters: map[string]string{infrav1.AllowDestroyParameter: "true"},
}

func TestEachEvidenceAloneRefuses(t *testing.T) {
	assert.Empty(t, RefuseRecreation(allowDestroy, neverInitialized()))
	first := neverInitialized()
	first.CAPTCluster, first.Cluster.Status.ControlPlane = nil, &clusterv1.ClusterControlPlaneStatus{}
	first.ControlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{}
	assert.Empty(t, RefuseRecreation(allowDestroy, first), "what is reported before the first apply does not prove that it existed")
	assert.NotEmpty(t, RefuseRecreation(infrav1.RecoveryAction{}, neverInitialized()))
	assert.NotEmpty(t, RefuseRecreation(allowDestroy, nil))
	for name, add := range evidence() {
		t.Run(name, func(t *testing.T) {
			h := neverInitialized()
			add(h)
			assert.NotEmpty(t, RefuseRecreation(allowDestroy, h))
		})
	}
}

// randomHistory returns a history with any combination of evidence, and whether there is some.
func randomHistory(random *rand.Rand) (*History, bool) {
	h, some := neverInitialized(), false
	signs := evidence()
	for _, name := range slices.Sorted(maps.Keys(signs)) {
		if h.Apply != nil && h.Cluster != nil && h.ControlPlane != nil && random.IntN(12) == 0 {
			signs[name](h)
			some = true
		}
	}
	return h, some
}
