// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const (
	host      = "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com"
	applyName = "demo-eks-controlplane-apply"
)

// scene is a control plane with the facts about it. It begins with everything ready except the kubeconfigs.
type scene struct {
	*testing.T
	controlPlane *controlplanev1.CAPTControlPlane
	*Facts
	// unwritten is true when the WorkspaceTemplateApply differs from what is desired.
	unwritten bool
}

func vpc(options ...builder.Option) *infrav1.CAPTCluster {
	captCluster := builder.CAPTCluster("demo", options...)
	captCluster.Status.VPC.ID = "vpc-1"
	captCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "demo-vpc", WorkspaceName: "net"}
	return captCluster
}

func connection(data map[string]string) *corev1.Secret {
	return builder.SecretWith("demo-eks-connection", data)
}

func outputs() map[string]string {
	return map[string]string{"cluster_endpoint": "https://" + host, "cluster_name": "demo"}
}

func newScene(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	s := &scene{T: t, controlPlane: builder.CAPTControlPlane("demo", append([]builder.Option{builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)}, options...)...)}
	version, err := versions.ParseKubernetesVersion(s.controlPlane.Spec.Version)
	require.NoError(t, err)
	s.Facts = &Facts{
		Cluster:        builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		Infrastructure: vpc(),
		Version:        version,
		Apply:          owner.Facts{Apply: builder.WorkspaceTemplateApply(applyName, builder.UpToDate(outputs()))},
		Connection:     connection(map[string]string{"cluster_certificate_authority_data": builder.CA()}),
	}
	return s
}

func (s *scene) with(change func(f *Facts)) *scene {
	change(s.Facts)
	return s
}

// apply replaces the WorkspaceTemplateApply. Terraform has applied it if the control plane was Ready.
func (s *scene) apply(options ...builder.Option) *scene {
	s.Apply.Apply = builder.WorkspaceTemplateApply(applyName, options...)
	if ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		s.Apply.Apply.Status.Applied = metav1.ConditionTrue
	}
	return s
}

// configured is a scene in which endpoint and kubeconfigs are written.
func configured(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	s := newScene(t, append(options, builder.WithEndpoint(host, 443))...)
	written := kubeconfigsecret.Kubeconfig{Data: []byte("kubeconfig"), Written: true}
	s.Kubeconfig, s.UserKubeconfig = written, written
	return s
}

// onceReady is a control plane that was Ready before.
func onceReady(t *testing.T) *scene {
	t.Helper()
	s := configured(t)
	require.Equal(t, controlplanev1.StateReady, s.status().State)
	return s
}

// rawPlan is the plan for the facts.
func (s *scene) rawPlan() *Plan {
	s.Helper()
	p, err := plan(s.controlPlane, s.Facts)
	require.NoError(s, err)
	return p
}

// plan is the plan after the WorkspaceTemplateApply, if it exists, was written as desired.
func (s *scene) plan() *Plan {
	s.Helper()
	p := s.rawPlan()
	if p.Apply.Desired == nil || s.Apply.Apply == nil || s.unwritten {
		return p
	}
	desired := &infrav1.WorkspaceTemplateApply{}
	require.NoError(s, runtime.DefaultUnstructuredConverter.FromUnstructured(p.Apply.Desired.Object, desired))
	written, facts := s.Apply.Apply.DeepCopy(), *s.Facts
	written.Name, written.Labels, written.OwnerReferences, written.Spec = desired.Name, desired.Labels, desired.OwnerReferences, desired.Spec
	facts.Apply.Apply = written
	p, err := plan(s.controlPlane, &facts)
	require.NoError(s, err)
	return p
}

func (s *scene) step() owner.Step { return s.plan().Apply.Step }
