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
	"fmt"
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

// with is a kubeconfig whose cluster and user have more fields, as YAML in flow style.
func with(cluster, user string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://eks.example.com", %s}}], users: [{name: u, user: {%s}}]}`, cluster, user)
}

var whole = with("", "token: hunter2")

// Valid ones have no error.
func TestKubeconfigs(t *testing.T) {
	const contexts = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: "
	for name, row := range map[string]struct{ data, want string }{
		"a token":                     {whole, ""},
		"a client certificate":        {with("", "client-certificate-data: aHVudGVyMg==, client-key-data: aHVudGVyMg=="), ""},
		"a password":                  {with("", "username: u, password: hunter2"), ""},
		"a proxy":                     {with("proxy-url: \"http://proxy.example.com\"", "token: hunter2"), ""},
		"a user that is nowhere":      {contexts + "{server: \"https://eks.example.com\"}}]}", ""},
		"nothing":                     {"", "current-context of the kubeconfig does not exist"},
		"text":                        {"hunter2", "the value is not a kubeconfig"},
		"not YAML":                    {"{hunter2: [", "the value is not a kubeconfig"},
		"base64 of one":               {base64.StdEncoding.EncodeToString([]byte(whole)), "the value is not a kubeconfig"},
		"kubeconfig of CAPT v0.3":     {"apiVersion: v1\nkind: Config\n", "current-context of the kubeconfig does not exist"},
		"a context that is not there": {"{apiVersion: v1, kind: Config, current-context: hunter2}", "current-context of the kubeconfig does not exist"},
		"a cluster that is not there": {"{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: hunter2}}]}", "has no cluster with a server"},
		"a cluster without a server":  {contexts + "{}}]}", "has no cluster with a server"},
		"another kind of object":      {"{apiVersion: v1, kind: Secret, data: {value: hunter2}}", "the value is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeconfig.Check([]byte(row.data))
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// Cluster API would run the command, or read the file, in its own Pod.
func TestAKubeconfigThatReachesIntoThePodOfItsUserIsRefused(t *testing.T) {
	exec := func(text string) string {
		return "exec: {apiVersion: client.authentication.k8s.io/v1beta1, " + text + "}"
	}
	for name, row := range map[string]struct{ cluster, user, want string }{
		"another command":              {"", exec("command: hunter2"), "exec"},
		"another authenticator":        {"", exec("command: aws-iam-authenticator, args: [token, -i, hunter2]"), "exec"},
		"a shell":                      {"", exec("command: sh, args: [-c, hunter2]"), "exec"},
		"aws in a place of its own":    {"", exec("command: ./aws, args: [eks, get-token, --cluster-name, hunter2]"), "exec"},
		"aws with another program":     {"", exec("command: aws, args: [eks, get-token, --cluster-name, demo], env: [{name: PATH, value: /hunter2}]"), "exec"},
		"aws with another role":        {"", exec("command: aws, args: [eks, get-token, --cluster-name, demo, --role-arn, hunter2]"), "exec"},
		"aws with another endpoint":    {"", exec("command: aws, args: [eks, get-token, --cluster-name, demo, --endpoint-url, hunter2]"), "exec"},
		"aws that reads a file":        {"", exec("command: aws, args: [eks, get-token, --cluster-name, \"file:///hunter2\"]"), "exec"},
		"aws with an option for value": {"", exec("command: aws, args: [eks, get-token, --cluster-name, --debug]"), "exec"},
		"aws with half an option":      {"", exec("command: aws, args: [eks, get-token, --cluster-name]"), "exec"},
		"aws that does something else": {"", exec("command: aws, args: [eks, delete-cluster, --cluster-name, demo]"), "exec"},
		"a plugin":                     {"", "auth-provider: {name: hunter2}", "auth-provider"},
		"a token in a file":            {"", "tokenFile: /hunter2", "tokenFile"},
		"a token, and one in a file":   {"", "token: hunter2, tokenFile: /hunter2", "tokenFile"},
		"a certificate in a file":      {"", "client-certificate: /hunter2", "client-certificate"},
		"a key in a file":              {"", "client-key: /hunter2", "client-key"},
		"an authority in a file":       {"certificate-authority: /hunter2", "token: hunter2", "certificate-authority"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeconfig.Check([]byte(with(row.cluster, row.user)))
			require.ErrorIs(t, err, kubeconfig.ErrUnsafe)
			require.ErrorContains(t, err, "it has "+row.want)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestAUserThatTheCurrentContextDoesNotNameIsLookedAtToo(t *testing.T) {
	data := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://eks.example.com"}}, {name: other, cluster: {server: "https://eks.example.com"%s}}],
users: [{name: u, user: {token: hunter2}}, {name: other, user: {%s}}]}`
	require.NoError(t, kubeconfig.Check(fmt.Appendf(nil, data, "", "token: hunter2")))
	require.ErrorIs(t, kubeconfig.Check(fmt.Appendf(nil, data, "", "tokenFile: /hunter2")), kubeconfig.ErrUnsafe)
	require.ErrorIs(t, kubeconfig.Check(fmt.Appendf(nil, data, ", certificate-authority: /hunter2", "token: hunter2")), kubeconfig.ErrUnsafe)
}

// Users have such kubeconfigs in their outputs, and may want them published; Auto finds something better.
func TestAKubeconfigThatRunsGetTokenIsRecognized(t *testing.T) {
	made, err := kubeconfig.ForExec("demo", "us-east-1", "https://eks.example.com:443", builder.CA())
	require.NoError(t, err)
	for name, data := range map[string]string{
		"ours":                      string(made),
		"as the AWS CLI writes it":  with("", "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [--region, us-east-1, eks, get-token, --cluster-name, demo, --output, json]}"),
		"as Terraform examples are": with("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token, --cluster-name, demo]}"),
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeconfig.Check([]byte(data))
			require.ErrorIs(t, err, kubeconfig.ErrGetToken)
			require.NotErrorIs(t, err, kubeconfig.ErrUnsafe)
		})
	}
}

// Such a token was published, and renewed only when Terraform happened to run.
func TestAKubeconfigWithATokenOfEKSIsRecognized(t *testing.T) {
	require.ErrorIs(t, kubeconfig.Check([]byte(with("", "token: "+token(t, "demo", "us-east-1")))), kubeconfig.ErrShortLived)
}

func FuzzReadingAKubeconfigNeverPanics(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(with("", "token: k8s-aws-v1.aHR0cHM6Ly9zdHMuZXhhbXBsZS5jb20vP1gtQW16LURhdGU9MjAyNjAxMDFUMDAwMDAwWg")))
	f.Add([]byte(with("", "exec: {command: aws, args: [eks, get-token, --region]}")))
	f.Add([]byte(with("", "exec: null")))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, hasToken := kubeconfig.Expiry(data)
		if err := kubeconfig.Check(data); err == nil && hasToken {
			t.Fatal("a token of EKS passed as one that lasts")
		}
	})
}
