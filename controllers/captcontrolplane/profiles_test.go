// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// profile is a Fargate profile with its WorkspaceTemplateApply.
func profile(name string, options ...builder.Option) fargate.Profile {
	apply := builder.WorkspaceTemplateApply("demo-"+name+"-fargate-apply", options...)
	return fargate.Profile{Name: name, Apply: owner.Facts{Apply: apply}, Existing: apply}
}

func of(profiles ...fargate.Profile) func(s *scene) {
	return func(s *scene) { s.Fargate = fargate.Facts{Profiles: profiles} }
}

// resolved are profiles whose references were read. It lacks the Secret of the VPC.
func resolved(profiles ...fargate.Profile) func(s *scene) {
	return func(s *scene) {
		of(profiles...)(s)
		s.Fargate.Cluster = &fargate.Cluster{Connection: s.Connection, VPCSecretName: "demo-vpc-connection"}
		s.controlPlane.Spec.FargateProfiles = make([]controlplanev1.FargateProfile, len(profiles))
	}
}

// obsolete is a profile that spec no longer has.
func obsolete(options ...builder.Option) func(s *scene) {
	return func(s *scene) { s.Fargate.Obsolete = []fargate.Profile{profile("old", options...)} }
}

func and(first, then func(s *scene)) func(s *scene) {
	return func(s *scene) { first(s); then(s) }
}

// profiles are what can be the case with Fargate profiles, when all else is there.
func profiles() []fact {
	ready := profile("a", builder.UpToDate(nil))
	unmade := fargate.Profile{Name: "a"}
	return []fact{
		{"profiles ready", of(ready, profile("b", builder.UpToDate(nil)))},
		{"a profile is about to be made", of(unmade)},
		{"a profile is being made", of(ready, profile("b", working))},
		{"a queued profile", of(profile("a", builder.NotUpToDate(infrav1.QueuedReason, "turn")))},
		{"a Secret is missing for a profile", resolved(unmade)},
		{"a profile failed, another is being made", of(profile("a", failing), profile("b", working))},
		{"a profile belongs to another owner", resolved(fargate.Profile{Name: "a", Apply: owner.Facts{Conflict: "it belongs to other"}})},
		{"a profile is being deleted", and(of(ready), obsolete(builder.Deleting()))},
		{"the last profile is about to be deleted", obsolete(builder.UpToDate(nil))},
	}
}

func TestConditionsOfProfilesAreRemovedWithTheLastProfile(t *testing.T) {
	s := configured(t)
	of(profile("a", builder.UpToDate(nil)))(s)
	assert.Equal(t, "True FargateProfileReady", s.story()["FargateProfileReady"])
	s.Fargate = fargate.Facts{}
	got := s.status()
	for _, conditionType := range fargate.Types() {
		assert.NotContains(t, builder.Story(got.Conditions), conditionType)
	}
	assert.Empty(t, got.FargateProfiles)
}

func TestAProfileHasNoTimeoutOfTheConnectionSecret(t *testing.T) {
	s := configured(t)
	of(profile("a", working))(s)
	s.Running.Secret = longestTimeout
	assert.Equal(t, controlplanev1.StateConfiguring, s.status().State)
	assert.Zero(t, s.nextTimeout(s.controlPlane, s.plan()))
}

// An adopted one keeps its name, and another EKS cluster may have the name of the Cluster.
func TestAProfileBelongsToTheExistingEKSCluster(t *testing.T) {
	cluster := builder.Cluster("demo", builder.WithInfrastructureProvisioned())
	held := builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)
	controlPlane := builder.CAPTControlPlane("demo", held, builder.OwnedBy(cluster), builder.WithApplyRef(applyName), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	}))
	older := builder.WithVariables(map[string]string{"cluster_name": "older"})
	network := builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`})
	w := newWorld(t, cluster, vpc(), controlPlane, network,
		builder.WorkspaceTemplateApply(applyName, builder.OwnedBy(controlPlane), ofTemplate("eks"), older, builder.WithWorkspaceName("eks")))
	w.reconcile()
	w.terraformMade()
	secret := read(w, "demo-eks-connection", &corev1.Secret{})
	secret.Data["cluster_name"], secret.Data["cluster_endpoint"] = []byte("older"), []byte("https://"+host)
	require.NoError(t, w.Client.Update(t.Context(), secret))

	for range 2 {
		w.reconcile()
		profile := read(w, "demo-a-fargate-apply", &infrav1.WorkspaceTemplateApply{})
		require.NotNil(t, profile)
		assert.Equal(t, "older", profile.Spec.Variables["cluster_name"])
		assert.NotContains(t, w.story(), "FargateProfileFailed")
	}
}

// What the control plane waits for, its profiles wait for, too: one that spec has got meanwhile is not ready.
func TestProfilesAreNotReadyWhileTheControlPlaneIsBlocked(t *testing.T) {
	cluster := builder.Cluster("demo", builder.WithInfrastructureProvisioned())
	asking := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Version = "what?"
		for _, name := range []string{"a", "b"} {
			c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, controlplanev1.FargateProfile{Name: name})
		}
	})
	controlPlane := builder.CAPTControlPlane("demo", builder.OwnedBy(cluster), builder.WithApplyRef(applyName), asking)
	w := newWorld(t, cluster, vpc(), controlPlane,
		builder.WorkspaceTemplateApply(applyName, builder.OwnedBy(controlPlane), ofTemplate("eks"), builder.WithWorkspaceName("eks"), builder.UpToDate(outputs())),
		builder.WorkspaceTemplateApply("demo-a-fargate-apply", builder.OwnedBy(controlPlane), ofTemplate("fargate"), builder.UpToDate(nil),
			builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "a"})))
	w.reconcile()
	assert.Equal(t, "False InvalidVersion", w.story()["DependenciesReady"])
	assert.Equal(t, "False WaitingForWorkspace", w.story()["FargateProfileReady"])
	require.Len(t, w.get().Status.FargateProfiles, 1)
	assert.Equal(t, "a", w.get().Status.FargateProfiles[0].Name)
}
