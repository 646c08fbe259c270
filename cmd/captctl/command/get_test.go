// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
)

func TestGetShowsNamedClusters(t *testing.T) {
	for _, arguments := range [][]string{{"get", "team-a/growing"}, {"get", "growing", "--namespace", "team-a"}} {
		out, _, err := aFleet().run(t, arguments...)
		require.NoError(t, err)
		assert.Contains(t, out, "growing")
		assert.NotContains(t, out, "good")
		assert.Contains(t, out, "\n1 Cluster: 1 Configuring\n")
	}
	out, _, err := aFleet().run(t, "get", "team-a/growing", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, "\n2 Clusters: 1 Configuring, 1 Ready\n")
}

func TestGetSelectsClustersByLabel(t *testing.T) {
	env := aFleet()
	for _, object := range env.objects {
		if cluster, is := object.(*clusterv1.Cluster); is {
			cluster.Labels = map[string]string{"environment": map[bool]string{true: "production", false: "test"}[cluster.Name == "good"]}
		}
	}
	out, _, err := env.run(t, "get", "-l", "environment=production")
	require.NoError(t, err)
	assert.Contains(t, out, "\n1 Cluster: 1 Ready\n")
	out, _, err = env.run(t, "get", "-l", "environment in (staging)")
	require.NoError(t, err)
	assert.Equal(t, "No Clusters of CAPT have labels that match environment in (staging).\n", out)
}

func TestGetRejectsArgumentsThatContradictEachOther(t *testing.T) {
	for arguments, want := range map[string]string{
		"team-a/good -l a=b": "use either names of Clusters", "--retained -l a=b": "use either names of Clusters", "team-a/good --retained": "use either names of Clusters",
		"team-a/good -A": "use either names of Clusters", "-l a=b=c": "--selector: ", "a/b/c": "must be CLUSTER or NAMESPACE/CLUSTER",
	} {
		_, _, err := aFleet().run(t, append([]string{"get"}, strings.Fields(arguments)...)...)
		assert.ErrorContains(t, err, want, arguments)
	}
}

func TestGetSuggestsSimilarNames(t *testing.T) {
	for argument, want := range map[string]string{
		"team-a/brokn": "did you mean team-a/broken?", "broken": "did you mean team-a/broken?", "team-b/goood": "did you mean team-a/good?", "zzz": "captctl get lists all Clusters",
	} {
		_, _, err := aFleet().run(t, "get", argument)
		assert.ErrorContains(t, err, want, argument)
	}
}

func TestClustersThatNeedAnActionAreFirstAndNamed(t *testing.T) {
	env := aFleet()
	env.objects = append(env.objects, capt("zoo", infrav1.StateConfiguring, func(c *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "the change waits for an approval")
		c.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "the change waits for an approval")
	})...)
	out, _, err := env.run(t, "get")
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	assert.Contains(t, lines[1], "broken")
	assert.Contains(t, lines[2], "zoo")
	assert.Contains(t, lines[3], "good")
	assert.Contains(t, out, "\nNeeds action: team-a/broken, team-a/zoo\n")
	assert.Contains(t, env.painted(t, 200, "get"), "\x1b[38;5;196mbroken\x1b[0m")

	painted := env.painted(t, 70, "get")
	assert.Contains(t, painted, "\x1b[38;5;130mWaitingForApproval\x1b[0m")
	assert.Contains(t, painted, "\n    the change waits for an approval\n")
	assert.Contains(t, painted, "\n    \x1b[38;5;243mwaiting for Terraform to apply a change\x1b[0m\n", "it needs no action")
	assert.Contains(t, env.painted(t, 100, "describe", "team-a/zoo"), "Cause:\x1b[0m\x1b[38;5;130m WorkspaceTemplateApply zoo-eks: WaitingForApproval")

	out, _, err = env.run(t, "get", "-o", "json")
	require.NoError(t, err)
	var list fleet.ClusterList
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	assert.Equal(t, "good", list.Clusters[1].Name, "documents are sorted by name")
	assert.True(t, list.Clusters[3].NeedsAction)
}

func TestAnErrorThatTheProviderRetriesNeedsNoActionYet(t *testing.T) {
	env := &environment{objects: capt("demo", infrav1.StateProvisioning, func(_ *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.ApplyFailedReason, "Rate exceeded")
		apply.Status.LastFailureClass = string(failure.ClassThrottle)
	})}
	out, _, err := env.run(t, "get")
	require.NoError(t, err)
	assert.NotContains(t, out, "Needs action")
}

func TestTwoSpellingsOfAVersionAreNoChange(t *testing.T) {
	for _, spelling := range []string{"1.31", "v1.31", "1.31.0", "v1.31.0"} {
		env := &environment{objects: capt("demo", infrav1.StateReady, func(c *controlplanev1.CAPTControlPlane, _ *infrav1.WorkspaceTemplateApply) {
			c.Status.Version, c.Spec.Version = "v1.31.0", spelling
		})}
		out, _, err := env.run(t, "get")
		require.NoError(t, err)
		assert.NotContains(t, out, "->", spelling)
	}
}

// The cause is red, and what is not ready because of it is gray.
func TestDescribeShowsTheCauseAmongTheObjects(t *testing.T) {
	painted := aFleet().painted(t, 120, "describe", "team-a/broken")
	assert.Regexp(t, `WorkspaceTemplateApply/broken-eks +.\[38;5;130mFalse.\[0m +.\[38;5;196mApplyFailed`, painted)
	assert.Regexp(t, `CAPTControlPlane/broken +.\[38;5;243mFalse.\[0m +.\[38;5;243mApplyFailed`, painted)
}

// claimed is a Workspace that CAPT created for a WorkspaceTemplateApply.
func claimed(name, vpc string, scope terraform.Scope) *unstructured.Unstructured {
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(scope.GroupVersionKind())
	workspace.SetName(name)
	if scope == terraform.ScopeNamespaced {
		workspace.SetNamespace("team-a")
	}
	workspace.SetUID("uid-of-workspace")
	workspace.SetCreationTimestamp(before(90))
	workspace.SetAnnotations(map[string]string{naming.ClaimAnnotation: "team-a/" + name})
	_ = unstructured.SetNestedField(workspace.Object, vpc, "status", "atProvider", "outputs", "vpc_id") // It has no such field.
	return workspace
}

func TestGetListsWhatWasRetained(t *testing.T) {
	env := aFleet()
	other := claimed("foreign", "vpc-3", terraform.ScopeNamespaced)
	other.SetAnnotations(nil)
	env.objects = append(env.objects, claimed("old-vpc", "vpc-1", terraform.ScopeNamespaced), claimed("older-vpc", "vpc-2", terraform.ScopeCluster), claimed("good-eks", "", terraform.ScopeNamespaced), other)
	out, _, err := env.run(t, "get", "--retained")
	require.NoError(t, err)
	table, next, _ := strings.Cut(out, "\n\n")
	assert.Equal(t, strings.TrimLeft(`
NAMESPACE   NAME        WORKSPACE   VPC     ENDPOINT   DESTROYING   AGE
team-a      old-vpc     old-vpc     vpc-1   -          -            90m
team-a      older-vpc   older-vpc   vpc-2   -          -            90m`, "\n"), table)
	assert.Contains(t, next, naming.AdoptWorkspaceAnnotation)
	assert.Contains(t, strings.Join(strings.Fields(next), " "), "Destroy none whose WorkspaceTemplateApply is in another management cluster now")

	out, _, err = aFleet().run(t, "get", "--retained")
	require.NoError(t, err)
	assert.Equal(t, "No Workspaces were retained.\n", out)
}
