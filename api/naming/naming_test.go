// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestNamesFollowTheScheme(t *testing.T) {
	for name, row := range map[string]struct{ got, want string }{
		"WorkspaceTemplateApply of a VPC": {naming.VPCWorkspaceTemplateApply("demo"), "demo-vpc"},
		"VPC":                             {naming.VPC("demo"), "demo-vpc"},
		"WorkspaceTemplateApply of a control plane":       {naming.ControlPlaneWorkspaceTemplateApply("demo"), "demo-eks-controlplane-apply"},
		"connection Secret of a control plane":            {naming.ControlPlaneConnectionSecret("demo"), "demo-eks-connection"},
		"connection Secret of a VPC":                      {naming.VPCConnectionSecret("demo"), "demo-vpc-connection"},
		"kubeconfig Secret of the contract":               {naming.KubeconfigSecret("demo"), secret.Name("demo", secret.Kubeconfig)},
		"kubeconfig Secret for users":                     {naming.UserKubeconfigSecret("demo"), "demo-user-kubeconfig"},
		"WorkspaceTemplateApply of a Fargate profile":     {naming.FargateWorkspaceTemplateApply("demo", "default"), "demo-default-fargate-apply"},
		"connection Secret of a Fargate profile":          {naming.FargateConnectionSecret("demo", "default"), "demo-default-fargate-connection"},
		"WorkspaceTemplateApply of a profile in capitals": {naming.FargateWorkspaceTemplateApply("demo", "Default"), "demo-default--euugq-fargate-apply"},
		"WorkspaceTemplateApply of a dashed profile":      {naming.FargateWorkspaceTemplateApply("demo", "kube_system"), "demo-kube-system--3ihba-fargate-apply"},
		"namespaced Workspace":                            {naming.Workspace(terraform.ScopeNamespaced, key("team", "demo-eks-controlplane-apply")), "demo-eks-controlplane"},
		"namespaced Workspace without the suffix":         {naming.Workspace(terraform.ScopeNamespaced, key("team", "demo-vpc")), "demo-vpc"},
		"Workspace of the default scope":                  {naming.Workspace("", key("team", "demo-vpc")), "demo-vpc"},
		"cluster-wide Workspace":                          {naming.Workspace(terraform.ScopeCluster, key("team", "demo-eks-controlplane-apply")), "team-demo-eks-controlplane-5csm7"},
		"Terraform workspace":                             {naming.ExternalName("", key("team", "demo-eks-controlplane-apply")), "team-demo-eks-controlplane-5csm7"},
		"Terraform workspace of a dotted name":            {naming.ExternalName("", key("team", "demo.vpc")), "team-demo-vpc-2j4i6"},
		"namespaced Workspace of an apply named apply":    {naming.Workspace(terraform.ScopeNamespaced, key("team", "apply")), "apply"},
		"claim": {naming.Claim(key("team", "demo-vpc")), "team/demo-vpc"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, row.got) })
	}
}

func TestLongestNamesThatAreNotTruncated(t *testing.T) {
	for name, row := range map[string]struct {
		longest int
		derived []func(string) string
	}{
		"CAPTCluster": {naming.MaxCAPTClusterNameLength, []func(string) string{
			naming.VPC, naming.VPCWorkspaceTemplateApply, naming.VPCConnectionSecret}},
		"CAPTControlPlane": {naming.MaxCAPTControlPlaneNameLength, []func(string) string{
			naming.ControlPlaneWorkspaceTemplateApply, naming.ControlPlaneConnectionSecret}},
	} {
		t.Run(name, func(t *testing.T) {
			fits, tooLong := strings.Repeat("n", row.longest), strings.Repeat("n", row.longest+1)
			cut := 0
			for _, derive := range row.derived {
				assert.True(t, strings.HasPrefix(derive(fits), fits+"-"))
				if !strings.HasPrefix(derive(tooLong), tooLong+"-") {
					cut++
				}
			}
			assert.Positive(t, cut, "one character more would fit as well")
		})
	}
}

// These names are different in EKS, but equal in object names, or different only by a hash.
func TestSimilarFargateProfilesGetDifferentNames(t *testing.T) {
	made := map[string][2]string{}
	for _, pair := range [][2]string{
		{"a", "b"}, {"a", "B"}, {"a", "b-c"}, {"a-b", "c"}, {"a", "b_c"}, {"a", "b--c"}, {"a-b", "C"}, {"a", "-b"}, {"a", "b-"}, {"a", "-"}, {"a", "_"}, {"a", "__"},
		{"a", "b-" + strings.Repeat("n", 90)}, {"a-b", strings.Repeat("n", 90)},
	} {
		for _, name := range []string{naming.FargateWorkspaceTemplateApply(pair[0], pair[1]), naming.FargateConnectionSecret(pair[0], pair[1])} {
			assert.NotContains(t, made, name, "%v", pair)
			assert.Empty(t, validation.IsDNS1123Subdomain(name), name)
			made[name] = pair
		}
	}
}

func TestTruncatedNamesKeepTheirSuffixAndRemainDifferent(t *testing.T) {
	made := naming.ControlPlaneWorkspaceTemplateApply(strings.Repeat("n", 253))
	require.Len(t, made, 253)
	assert.True(t, strings.HasSuffix(made, "-eks-controlplane-apply"), made)
	assert.True(t, strings.HasPrefix(made, strings.Repeat("n", 200)), made)

	stem := strings.Repeat("n", 252)
	assert.NotEqual(t, naming.VPCWorkspaceTemplateApply(stem+"a"), naming.VPCWorkspaceTemplateApply(stem+"b"))
	assert.NotEqual(t, naming.ExternalName("", key("team", stem+"a")), naming.ExternalName("", key("team", stem+"b")))
	assert.NotEqual(t, naming.Workspace(terraform.ScopeCluster, key("team", stem+"a")), naming.Workspace(terraform.ScopeCluster, key("team", stem+"b")))
}

// CAPT v0.3 gave a Workspace the name of its WorkspaceTemplateApply without "-apply". In a namespace this is still the rule, so that users
// know the name. The controller and admission detect a collision.
func TestTerraformWorkspacesOfXAndXApplyDoNotShareState(t *testing.T) {
	x, apply := key("team", "x"), key("team", "x-apply")
	assert.Equal(t, naming.Workspace(terraform.ScopeNamespaced, x), naming.Workspace(terraform.ScopeNamespaced, apply))
	assert.NotEqual(t, naming.ExternalName("", x), naming.ExternalName("", apply))
}

// The pairs are similar: they have the same parts in another order, with and without "-apply", short and long.
func TestTenThousandSimilarPairsGetDifferentNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	part := func() string {
		parts := []string{"a", "b", "a-b", "a.b", "x", "x-apply", "apply", "vpc", "a-vpc", strings.Repeat("n", 40), strings.Repeat("n", 41)}
		return parts[random.IntN(len(parts))]
	}
	name := func() string { return part() + "-" + part() + "-" + part() }
	for range 10_000 {
		one := key(strings.ReplaceAll(part(), ".", "-"), name())
		other := key(strings.ReplaceAll(part(), ".", "-"), name())
		if one == other {
			continue
		}
		require.NotEqual(t, naming.Workspace(terraform.ScopeCluster, one), naming.Workspace(terraform.ScopeCluster, other), "%s and %s", one, other)
		require.NotEqual(t, naming.ExternalName("", one), naming.ExternalName("", other), "%s and %s", one, other)
		if one.Name != other.Name {
			require.NotEqual(t, naming.VPCWorkspaceTemplateApply(one.Name), naming.VPCWorkspaceTemplateApply(other.Name))
			require.NotEqual(t, naming.ControlPlaneWorkspaceTemplateApply(one.Name), naming.ControlPlaneWorkspaceTemplateApply(other.Name))
		}
	}
}

// Two management clusters have the same backend, and objects with equal names.
func TestStatePrefixesKeepInstallationsApart(t *testing.T) {
	apply := key("team", "demo-vpc")
	states := map[string]bool{}
	for _, prefix := range []string{"", "one", "two", "one-team", strings.Repeat("p", naming.MaxStatePrefixLength)} {
		for _, name := range []string{"demo-vpc", strings.Repeat("n", 253)} {
			state := naming.ExternalName(prefix, key("team", name))
			assert.False(t, states[state], state)
			assert.Empty(t, validation.IsDNS1123Label(state), state)
			assert.True(t, strings.HasPrefix(state, prefix), state)
			states[state] = true
		}
	}
	assert.NotEqual(t, naming.ExternalName("one", apply), naming.ExternalName("", key("one-team", "demo-vpc")))
	assert.NotEqual(t, naming.ExternalName("one", key("team-a", "x")), naming.ExternalName("one-team", key("a", "x")))
}

func TestEachShardHasItsOwnLease(t *testing.T) {
	assert.Equal(t, "capt-manager-leader-election", naming.LeaderElectionLease("", ""), "upgrades keep their Lease")
	long := strings.Repeat("x", 63)
	seen := map[string]bool{}
	for _, shard := range [][2]string{
		{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"b", "a"}, {"a-b", ""}, {"", "a-b"}, {"", "Under_score.1"}, {long, long}, {long, ""}, {"", long},
	} {
		name := naming.LeaderElectionLease(shard[0], shard[1])
		assert.Empty(t, validation.IsDNS1123Subdomain(name), name)
		assert.False(t, seen[name], "%v shares %s", shard, name)
		seen[name] = true
		assert.Equal(t, name, naming.LeaderElectionLease(shard[0], shard[1]), "every replica of a shard finds the same")
	}
}

func TestNamesOfEKSClusters(t *testing.T) {
	for _, name := range []string{"a", "0a", "Team-1_blue", "a-", strings.Repeat("a", 100)} {
		assert.True(t, naming.IsEKSClusterName(name), name)
	}
	for _, name := range []string{"", "-a", "_a", "team1.blue", "ä", "a b", strings.Repeat("a", 101)} {
		assert.False(t, naming.IsEKSClusterName(name), name)
	}
}

// The log of provider-terraform names the Workspace of a plan without namespace and scope.
func TestNamesOfPreviewsAreUniqueAndCannotBeComputed(t *testing.T) {
	apply := func(namespace, name, uid string) metav1.Object {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
	}
	of := naming.PreviewWorkspace(terraform.ScopeNamespaced, apply("team", "demo-vpc", "a"))
	assert.Regexp(t, "^demo-vpc-preview-[a-z2-7]{16}$", of)
	assert.Equal(t, of, naming.PreviewWorkspace("", apply("other", "demo-vpc", "a")), "the hash does not depend on namespace and name")
	assert.NotEqual(t, of, naming.PreviewWorkspace(terraform.ScopeNamespaced, apply("team", "demo-vpc", "b")))
	assert.NotEqual(t, of, naming.PreviewWorkspace(terraform.ScopeCluster, apply("team", "demo-vpc", "a")))
}
