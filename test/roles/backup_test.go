// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// The CronJob of config/backup runs with the account and the roles of its manifests, as in a Pod.
func TestTheCronJobBacksUpWithItsRole(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Template(fixture.VPCTemplate, fixture.VPCModule, "vpc_name"), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "kept", "variables: {vpc_name: kept}"))
	env.Await(&infrav1.WorkspaceTemplateApply{}, "kept", infrav1.ReadyCondition, "True", infrav1.UpToDateReason)

	objects, err := manifests.Load("../../config/backup")
	require.NoError(t, err)
	job := &batchv1.CronJob{}
	for _, object := range objects {
		switch object.GetKind() {
		case "CronJob":
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job))
		case "ServiceAccount":
			object.SetNamespace(sandbox.ManagerNamespace) // kustomize sets it.
			fixture.Apply(t, env.Client, object)
		case "ClusterRole", "ClusterRoleBinding":
			fixture.Apply(t, env.Client, object)
		}
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = sandbox.ManagerNamespace, pod.ServiceAccountName
	request, container := &authenticationv1.TokenRequest{}, pod.Containers[0]
	require.NoError(t, env.Client.SubResource("token").Create(t.Context(), account, request))
	volume, kubeconfig := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: env.Config().Host, CertificateAuthorityData: env.Config().CAData, CertificateAuthority: env.Config().CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: request.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}
	require.NoError(t, clientcmd.WriteToFile(config, kubeconfig))

	began := time.Now()
	require.Equal(t, []string{"/captctl"}, container.Command[:1])
	require.Equal(t, []corev1.VolumeMount{{Name: "backup", MountPath: "/backup"}}, container.VolumeMounts)
	command := exec.CommandContext(t.Context(), env.Binary(sandbox.Captctl))
	for _, argument := range container.Command[1:] {
		command.Args = append(command.Args, strings.NewReplacer("$(POD_NAME)", "capt-backup-1", "/backup/", volume+"/").Replace(argument))
	}
	command.Env = []string{"KUBECONFIG=" + kubeconfig} // There is no home directory.
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, output)
	require.FileExists(t, filepath.Join(volume, "capt-backup-1.json.gz"))
	printed, err := exec.CommandContext(t.Context(), "gzip", "-dc", filepath.Join(volume, "capt-backup-1.json.gz")).Output()
	require.NoError(t, err)
	assert.Contains(t, string(printed), env.Namespace+"/kept")
	left, err := os.ReadDir(volume)
	require.NoError(t, err)
	assert.Len(t, left, 1)

	used := &usage{}
	used.add(t, shared.Sandbox, "system:serviceaccount:"+sandbox.ManagerNamespace+":"+account.Name, began)
	used.requireExact(t, rightsIn(t, "../../config/backup"), "capt-backup")
}
