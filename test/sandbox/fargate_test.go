// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/eks"
)

// selecting is a variable with quotes, braces and a text that Terraform could evaluate as a reference.
const selecting = `[{"namespace":"default"},{"labels":{"team":"${b}"},"namespace":"kube-system"}]`

func TestSampleFargateProfileIsReplacedAsInEKS(t *testing.T) {
	t.Parallel()
	server := eks.Server{Dir: shared.Dir(), Name: "profiles"}
	vpc := newModule(t, shared, "vpc-template.yaml", map[string]string{"cluster_name": "profiles", "vpc_name": "demo-vpc", "region": "eu-central-1"})
	vpc.with(0, nil, "apply", "-auto-approve")
	fargate := newModule(t, shared, "fargate-template.yaml", map[string]string{
		"cluster_name": "profiles", "profile_name": "default", "region": "eu-central-1", "selectors": selecting, "tags": `{"team":"a"}`})
	network := vpc.outputs()["vpc_config"].Value.(string)

	// Without a network or a cluster, the error says what is missing.
	fargate.file = "vpc_id = \"vpc-1\"\n"
	require.Contains(t, words(fargate.with(1, nil, "apply", "-auto-approve")), "vpc_config in the connection Secret of the VPC names none")
	fargate.file = network
	require.Contains(t, fargate.with(1, nil, "apply", "-auto-approve"), "No cluster found for name: profiles")

	require.NoError(t, server.Start(t.Context(), "1.36"))
	fargate.with(0, nil, "apply", "-auto-approve")
	before := fargate.outputs()
	require.Equal(t, "profiles:default", before["fargate_profile_id"].Value)
	require.Equal(t, "ACTIVE", before["fargate_profile_status"].Value)
	require.ElementsMatch(t, []eks.FargateSelector{{Namespace: "default"}, {Namespace: "kube-system", Labels: map[string]string{"team": "${b}"}}},
		onlyProfile(t, server).Selectors)
	require.Len(t, onlyProfile(t, server).Subnets, 3)
	fargate.with(0, map[string]string{"selectors": `[{"namespace":"kube-system","labels":{"team":"${b}"}},{"namespace":"default"}]`},
		"plan", "-detailed-exitcode")

	// Only tags are changed in place.
	fargate.with(0, map[string]string{"tags": `{"team":"b"}`}, "apply", "-auto-approve")
	after := fargate.outputs()
	require.Equal(t, before["fargate_profile_arn"], after["fargate_profile_arn"])
	require.Equal(t, map[string]any{"team": "b"}, after["fargate_profile_tags"].Value)
	fargate.with(0, map[string]string{"selectors": `[{"namespace":"default"}]`}, "apply", "-auto-approve")
	require.NotEqual(t, before["fargate_profile_arn"], fargate.outputs()["fargate_profile_arn"])
	require.Equal(t, []eks.FargateSelector{{Namespace: "default"}}, onlyProfile(t, server).Selectors)

	// It can be destroyed without the network.
	fargate.file = ""
	fargate.with(0, nil, "destroy", "-auto-approve")
	profiles, err := server.FargateProfiles()
	require.NoError(t, err)
	require.Empty(t, profiles)
	require.NoError(t, server.Stop(t.Context()))
}

func onlyProfile(t *testing.T, server eks.Server) eks.FargateProfile {
	t.Helper()
	profiles, err := server.FargateProfiles()
	require.NoError(t, err)
	require.Len(t, profiles, 1)
	return profiles[0]
}
