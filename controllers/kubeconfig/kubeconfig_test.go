/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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

const whole = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://eks.example.com"}}], users: [{name: u, user: {token: hunter2}}]}`

func TestAWholeKubeconfigPasses(t *testing.T) {
	require.NoError(t, kubeconfig.Check([]byte(whole)))
}

func TestWhatIsNoKubeconfig(t *testing.T) {
	for name, row := range map[string]struct{ data, want string }{
		"nothing":                     {"", "its current-context does not exist"},
		"text":                        {"hunter2", "it is not a kubeconfig"},
		"not YAML":                    {"{hunter2: [", "it is not a kubeconfig"},
		"base64 of one":               {base64.StdEncoding.EncodeToString([]byte(whole)), "it is not a kubeconfig"},
		"what the older CAPT's had":   {"apiVersion: v1\nkind: Config\n", "its current-context does not exist"},
		"a context that is not there": {"{apiVersion: v1, kind: Config, current-context: hunter2}", "its current-context does not exist"},
		"a cluster that is not there": {"{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: hunter2}}]}", "names no cluster with a server"},
		"a cluster without a server":  {"{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {}}]}", "names no cluster with a server"},
		"another kind of object":      {"{apiVersion: v1, kind: Secret, data: {value: hunter2}}", "it is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeconfig.Check([]byte(row.data))
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestAKubeconfigForExecCanBeUsedByAClient(t *testing.T) {
	data, err := kubeconfig.ForExec("demo", "us-gov-west-1", "https://[2001:db8::1]:443", builder.CA())
	require.NoError(t, err)
	require.NoError(t, kubeconfig.Check(data))

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

func TestAKubeconfigForExecIsTheSameEveryTime(t *testing.T) {
	first, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", builder.CA())
	require.NoError(t, err)
	for range 10 {
		again, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", builder.CA())
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

func TestACertificateAuthorityThatIsNone(t *testing.T) {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	pem, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	for name, row := range map[string]struct{ ca, want string }{
		"nothing":             {"", "not base64 of PEM"},
		"not base64":          {"hunter2!", "is not base64"},
		"PEM itself":          {string(pem), "is not base64"},
		"base64 twice":        {encode(builder.CA()), "not base64 of PEM"},
		"base64 of text":      {encode("hunter2"), "not base64 of PEM"},
		"PEM of nothing good": {encode("-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n"), "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", row.ca)
			require.ErrorContains(t, err, row.want)
			assert.Nil(t, data)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}
