// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeconfigSecret is a Secret of a Cluster with a kubeconfig for a server.
func kubeconfigSecret(t *testing.T, name, cluster, server string) client.Object {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["eks"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "secret-of-" + name}
	config.Contexts["me@eks"] = &clientcmdapi.Context{Cluster: "eks", AuthInfo: "me"}
	config.CurrentContext = "me@eks"
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}, Data: map[string][]byte{"value": data},
	}
}

func TestKubeconfigPrintsThatForUsers(t *testing.T) {
	env := aFleet()
	_, _, err := env.run(t, "kubeconfig", "team-a/good")
	require.EqualError(t, err, "the Cluster good has no kubeconfig yet; captctl describe team-a/good shows why")

	// The Secret of the Cluster good-user has the name of that for users of the Cluster good.
	env = aFleet()
	env.objects = append(env.objects, kubeconfigSecret(t, "good-user-kubeconfig", "good-user", "https://other"), kubeconfigSecret(t, "good-kubeconfig", "good", "https://good"))
	out, errOut, err := env.run(t, "kubeconfig", "team-a/good", "-v", "9")
	require.NoError(t, err)
	assert.Contains(t, out, "server: https://good")
	assert.Equal(t, "Warning: the Cluster has no kubeconfig for users. This is the one of Cluster API, whose credentials may expire soon\n", errOut)

	env = aFleet()
	env.objects = append(env.objects, kubeconfigSecret(t, "good-user-kubeconfig", "good", "https://good"), kubeconfigSecret(t, "good-kubeconfig", "good", "https://good"))
	out, errOut, err = env.run(t, "kubeconfig", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, "token: secret-of-good-user-kubeconfig")
	assert.Empty(t, errOut)
	_, _, err = env.run(t, "kubeconfig", "team-a/good", "--context-name", "demo")
	require.EqualError(t, err, "--context-name is for --merge")
}

func TestKubeconfigIsMergedWithoutLosingOthers(t *testing.T) {
	file := kubeconfig(t)
	require.NoError(t, os.Chmod(file, 0o644))
	merge := func(server string, arguments ...string) (string, error) {
		env := aFleet()
		env.objects = append(env.objects, kubeconfigSecret(t, "good-user-kubeconfig", "good", server))
		out, _, err := env.run(t, append([]string{"kubeconfig", "team-a/good", "--merge", "--kubeconfig", file}, arguments...)...)
		return out, err
	}
	out, err := merge("https://good")
	require.NoError(t, err)
	assert.Equal(t, "Context team-a/good was added to "+file+". Use it with: kubectl --context team-a/good\n", out)
	_, err = merge("https://good")
	require.NoError(t, err, "it is the same API server")
	_, err = merge("https://another")
	require.EqualError(t, err, "your kubeconfig has entries with the name team-a/good for another API server: choose another --context-name, or delete them with kubectl config")
	_, err = merge("https://another", "--context-name", "production")
	require.ErrorContains(t, err, "the name production for another API server")
	_, err = merge("https://another", "--context-name", "second")
	require.NoError(t, err)

	config, err := clientcmd.LoadFromFile(file)
	require.NoError(t, err)
	assert.Equal(t, "production", config.CurrentContext)
	assert.Equal(t, "here", config.Contexts["production"].Cluster)
	assert.Equal(t, "https://good", config.Clusters["team-a/good"].Server)
	assert.Equal(t, "https://another", config.Clusters["second"].Server)
	assert.Equal(t, "secret-of-good-user-kubeconfig", config.AuthInfos["second"].Token)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// Users who may write Secrets in the namespace could otherwise run commands, and read files, as the user of captctl.
func TestAKubeconfigThatRunsCommandsOrReadsFilesIsNotUsed(t *testing.T) {
	file := kubeconfig(t)
	for fields, refused := range map[string]bool{
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token, --cluster-name, good]}": false,
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [eks, get-token]}":                        true,
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [s3, ls]}":                               true,
		"exec: {command: aws, args: [eks, get-token], env: [{name: AWS_CONFIG_FILE, value: x}]}":                          true,
		"tokenFile: /home/me/secret":          true,
		"client-key: /home/me/secret":         true,
		"client-certificate: /home/me/secret": true,
		"auth-provider: {name: x}":            true,
	} {
		secret := kubeconfigSecret(t, "good-user-kubeconfig", "good", "https://good").(*corev1.Secret)
		secret.Data["value"] = []byte(strings.Replace(string(secret.Data["value"]), "token: secret-of-good-user-kubeconfig", fields, 1))
		for _, arguments := range [][]string{nil, {"--merge", "--kubeconfig", file}} {
			env := aFleet()
			env.objects = append(env.objects, secret)
			_, _, err := env.run(t, append([]string{"kubeconfig", "team-a/good"}, arguments...)...)
			if !refused {
				require.NoError(t, err, fields)
				continue
			}
			require.EqualError(t, err, "the kubeconfig in Secret good-user-kubeconfig of namespace team-a is not used: it runs a command other than aws eks get-token, or reads files of yours. CAPT publishes none like it: find out who wrote it", fields)
		}
	}
}
