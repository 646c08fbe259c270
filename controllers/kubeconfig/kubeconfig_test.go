// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

func TestAKubeconfigForExecCanBeUsedByAClient(t *testing.T) {
	data, err := kubeconfig.ForExec("demo", "us-gov-west-1", "https://[2001:db8::1]:443", builder.CA())
	require.NoError(t, err)

	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	assert.Equal(t, "https://[2001:db8::1]:443", config.Host)
	require.NotNil(t, config.ExecProvider)
	assert.Equal(t, "aws", config.ExecProvider.Command)
	assert.Equal(t, []string{"eks", "get-token", "--cluster-name", "demo", "--region", "us-gov-west-1", "--output", "json"}, config.ExecProvider.Args)
	assert.Equal(t, "client.authentication.k8s.io/v1beta1", config.ExecProvider.APIVersion)
	assert.False(t, config.Insecure)

	// Decoded once: what a client gets is PEM (defect 17).
	want, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	assert.Equal(t, want, config.CAData)
}

func TestAKubeconfigForTokenCanBeUsedByAClient(t *testing.T) {
	data, err := kubeconfig.ForToken("demo", "https://eks.example.com:443", builder.CA(), "k8s-aws-v1.abc")
	require.NoError(t, err)
	require.NoError(t, kubeconfig.Check(data))

	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	assert.Equal(t, "https://eks.example.com:443", config.Host)
	assert.Equal(t, "k8s-aws-v1.abc", config.BearerToken)
	assert.Nil(t, config.ExecProvider)
	assert.False(t, config.Insecure)
	want, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	assert.Equal(t, want, config.CAData)
}

func TestAKubeconfigIsTheSameEveryTime(t *testing.T) {
	for name, make := range map[string]func() ([]byte, error){
		"exec": func() ([]byte, error) {
			return kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", builder.CA())
		},
		"token": func() ([]byte, error) {
			return kubeconfig.ForToken("demo", "https://eks.example.com:443", builder.CA(), "t")
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := make()
			require.NoError(t, err)
			for range 10 {
				again, err := make()
				require.NoError(t, err)
				require.Equal(t, string(first), string(again))
			}
		})
	}
}

// The name may come from an output, and the AWS CLI reads files that an argument names.
func TestForExecRefusesInvalidArguments(t *testing.T) {
	for _, arguments := range [][2]string{{"file:///etc/passwd", "us-east-1"}, {"--debug", "us-east-1"}, {"", "us-east-1"}, {"demo", "https://evil.example.com"}, {"demo", ""}} {
		_, err := kubeconfig.ForExec(arguments[0], arguments[1], "https://eks.example.com:443", builder.CA())
		require.ErrorContains(t, err, "is invalid", arguments)
	}
}
