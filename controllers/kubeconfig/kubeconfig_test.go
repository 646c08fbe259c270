// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

// restConfig is what a client gets. The certificate authority is decoded once, to PEM (defect 17).
func restConfig(t *testing.T, data []byte) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	assert.False(t, config.Insecure)
	assert.Equal(t, decoded(t), string(config.CAData))
	return config
}

func TestAKubeconfigForExecCanBeUsedByAClient(t *testing.T) {
	data, err := kubeconfig.ForExec("demo", "us-gov-west-1", "https://[2001:db8::1]:443", builder.CA())
	require.NoError(t, err)
	config := restConfig(t, data)
	assert.Equal(t, "https://[2001:db8::1]:443", config.Host)
	require.NotNil(t, config.ExecProvider)
	assert.Equal(t, "aws", config.ExecProvider.Command)
	assert.Equal(t, []string{"eks", "get-token", "--cluster-name", "demo", "--region", "us-gov-west-1", "--output", "json"}, config.ExecProvider.Args)
	assert.Equal(t, "client.authentication.k8s.io/v1beta1", config.ExecProvider.APIVersion)
}

func TestAKubeconfigForTokenCanBeUsedByAClient(t *testing.T) {
	var all []string
	for range 2 {
		data, err := kubeconfig.ForToken("demo", "https://eks.example.com:443", builder.CA(), "k8s-aws-v1.abc")
		require.NoError(t, err)
		require.NoError(t, kubeconfig.Check(data))
		config := restConfig(t, data)
		assert.Equal(t, "https://eks.example.com:443", config.Host)
		assert.Equal(t, "k8s-aws-v1.abc", config.BearerToken)
		assert.Nil(t, config.ExecProvider)
		all = append(all, string(data))
	}
	assert.Equal(t, all[0], all[1], "at rest nothing is written")
}

// The name may come from an output, and the AWS CLI reads files that an argument names.
func TestForExecRefusesInvalidArguments(t *testing.T) {
	for _, arguments := range [][2]string{{"file:///etc/passwd", "us-east-1"}, {"--debug", "us-east-1"}, {"", "us-east-1"}, {"demo", "https://evil.example.com"}, {"demo", ""}} {
		_, err := kubeconfig.ForExec(arguments[0], arguments[1], "https://eks.example.com:443", builder.CA())
		require.ErrorContains(t, err, "is invalid", arguments)
	}
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func decoded(t *testing.T) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	return string(text)
}

func TestInvalidCertificateAuthorities(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	block := func(kind string, headers map[string]string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: bytes}))
	}
	good := decoded(t)
	read, _ := pem.Decode([]byte(good))
	const cut = "-----BEGIN CERTIFICATE-----\nhunter2\n"

	for name, row := range map[string]struct{ ca, want string }{
		"nothing":                            {"", "not base64-encoded PEM"},
		"not base64":                         {"hunter2!", "is not valid base64"},
		"PEM itself":                         {good, "is not valid base64"},
		"base64 twice":                       {encode(builder.CA()), "not base64-encoded PEM"},
		"base64 of text":                     {encode("hunter2"), "not base64-encoded PEM"},
		"PEM of nothing good":                {encode(block("CERTIFICATE", nil, []byte("hunter2"))), "block 1 of the certificate authority has a certificate that cannot be parsed"},
		"a chain that is bad later":          {encode(good + good + block("CERTIFICATE", nil, []byte("hunter2"))), "block 3 of the certificate authority has a certificate that cannot be parsed"},
		"a private key":                      {encode(block("PRIVATE KEY", nil, der)), "block 1 of the certificate authority is a private key"},
		"a private key behind":               {encode(good + block("EC PRIVATE KEY", nil, der)), "block 2 of the certificate authority is a private key"},
		"a private key before":               {encode(block("RSA PRIVATE KEY", nil, der) + good), "block 1 of the certificate authority is a private key"},
		"a request":                          {encode(good + block("CERTIFICATE REQUEST", nil, []byte("hunter2"))), "block 2 of the certificate authority is not a certificate"},
		"PEM headers":                        {encode(block("CERTIFICATE", map[string]string{"Who": "hunter2"}, read.Bytes)), "block 1 of the certificate authority has PEM headers"},
		"a block that is cut off":            {encode(cut), "block 1 of the certificate authority is not complete"},
		"a block that is cut off at first":   {encode(cut + good), "block 1 of the certificate authority is not complete"},
		"a block that is cut off in between": {encode(good + cut + good), "block 2 of the certificate authority is not complete"},
		"a block that is cut off at last":    {encode(good + cut), "block 2 of the certificate authority is not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			exec, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", row.ca)
			require.ErrorContains(t, err, row.want)
			assert.Nil(t, exec)
			assert.NotContains(t, err.Error(), "hunter2")

			token, again := kubeconfig.ForToken("demo", "https://eks.example.com:443", row.ca, "hunter2")
			require.EqualError(t, again, err.Error())
			assert.Nil(t, token)
		})
	}
}

func TestAChainWithWordsBetweenItsCertificatesIsPublishedAsItIs(t *testing.T) {
	good := decoded(t)
	chain := "The root:\n" + good + "\n# The one before:\n" + good + "\n"
	data, err := kubeconfig.ForToken("demo", "https://eks.example.com:443", encode(chain), "t")
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	assert.Equal(t, chain, string(config.CAData))
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM(config.CAData))
}
