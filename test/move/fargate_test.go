// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// Names of what belongs to the Fargate profile.
const (
	profile          = "demo-batch-fargate-apply"
	profileWorkspace = "demo-batch-fargate"
)

const profileModule = `
variable "profile_name" { type = string }
variable "private_subnets" { type = list(string) }
resource "terraform_data" "profile" { input = var.profile_name }
`

// withProfile is everything with a Fargate profile, and what that needs to know of VPC and control plane.
func withProfile() []string {
	env := documents(terraform.ScopeNamespaced)
	all := everything(env.Scope)
	all[0] = env.VPCTemplate(fixture.VPCModule + "output \"vpc_config\" {\n  value = \"private_subnets = [\\\"subnet-1\\\"]\"\n}\n")
	all[1] = controlPlaneTemplate(env.Scope, controlPlaneModule+`
output "cluster_name" { value = var.cluster_name }
output "cluster_certificate_authority_data" { value = "Y2E=" }
`)
	return append(all, env.Template("fargate", profileModule, "profile_name")+
		"        varFiles: [{source: SecretKey, secretKeyRef: {name: '${vpc_connection_secret}', key: vpc_config}}]\n")
}

// A profile goes along with its cluster: it is neither made nor destroyed, and known by what it says itself, since status is lost.
func TestAFargateProfileMovesWithItsCluster(t *testing.T) {
	env := newEnvironment(t)
	env.labeled()
	env.apply(source, withProfile()...)
	env.awaitReady(source, "v1.34.0")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.change(source, controlPlane, "demo", func() {
		controlPlane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{
			Name: "batch", Selectors: []controlplanev1.FargateSelector{{Namespace: "batch"}}, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		}}
	})
	env.awaitCondition(source, controlPlane, "demo", controlplanev1.FargateProfileReadyCondition, "")
	env.awaitReady(source, "v1.34.0")
	env.awaitBlock(profile, "until-paused")
	env.read(source, controlPlane, "demo")
	statuses := controlPlane.Status.FargateProfiles
	require.Len(t, statuses, 1)
	t.Parallel()

	began := time.Now()
	env.startMove().wait()
	env.requireMoved()
	env.awaitReady(target, "v1.34.0")
	env.awaitCondition(target, controlPlane, "demo", controlplanev1.FargateProfileReadyCondition, "")
	env.read(target, controlPlane, "demo")
	controlPlane.Status.FargateProfiles[0].LastTransitionTime = statuses[0].LastTransitionTime // The time of the move.
	require.Equal(t, statuses, controlPlane.Status.FargateProfiles)
	require.True(t, controllerutil.ContainsFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer))
	env.requireUnnoticed(began)

	owner := &clusterv1.Cluster{}
	env.read(target, owner, "demo")
	require.NoError(t, target.Delete(t.Context(), owner))
	env.awaitGone(target, owner, "demo")
	require.Equal(t, []string{"destroy " + profileWorkspace, "destroy " + eksWorkspace, "destroy " + vpcWorkspace}, env.done(began))
	require.Zero(t, env.cloud())
}
