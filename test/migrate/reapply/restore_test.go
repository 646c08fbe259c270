// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package reapply_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// The README of a backup is followed step by step: for a cluster that was edited, and for one that has lost objects. Its commands are taken from
// the archive, so that they work as printed.
func TestABackupIsRestoredAsItsReadmeSays(t *testing.T) {
	env := newEnvironment(t, "reference-set", "helpers-present")
	plan := env.host.Plan()
	env.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	before := env.workspaces(env.settled(t))
	env.shell("tar -xzf capt-migrate-" + plan.ID + ".tar.gz")
	text, err := os.ReadFile(filepath.Join(env.host.Dir, "README.md"))
	require.NoError(t, err)
	readme := string(text)
	does := func(command, file string) string {
		t.Helper()
		require.Contains(t, readme, "\n       "+command+"\n")
		return env.shell(strings.ReplaceAll(command, "FILE", file))
	}

	// 2. and 3.
	require.Contains(t, readme, "captctl migrate rollback "+plan.ID+" --cluster NAMESPACE/NAME\n")
	env.host.Run(migrate.Done, "rollback", plan.ID, "--cluster=reference-set/reference-set-demo", "--yes")
	require.Contains(t, readme, `"--watch-filter=none"`)
	require.NoError(t, env.StartControllers(t.Context(), "--watch-filter=none"))
	began := time.Now()

	// 4. An object that was edited.
	plane := &controlplanev1.CAPTControlPlane{}
	key := types.NamespacedName{Namespace: "reference-set", Name: "reference-set-demo"}
	require.NoError(t, env.Admin.Get(t.Context(), key, plane))
	was := plane.DeepCopy()
	plane.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"edited": "yes"}
	require.NoError(t, env.Admin.Update(t.Context(), plane))
	file := "objects/CAPTControlPlane.controlplane.cluster.x-k8s.io/reference-set/reference-set-demo.json"
	require.Contains(t, env.refused("kubectl diff -f "+file), "controlPlaneEndpoint")
	does("kubectl replace -f FILE", file)
	does("kubectl replace --subresource=status -f FILE", file)
	require.NoError(t, env.Admin.Get(t.Context(), key, plane))
	require.Equal(t, was.Spec.AdditionalTags, plane.Spec.AdditionalTags)

	// A WorkspaceTemplateApply keeps the variables that the manager added.
	file = "objects/WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io/reference-set/reference-set-demo-vpc.json"
	assert.Contains(t, env.refused("kubectl replace -f "+file), "Terraform would destroy the cloud resources of Workspace")
	env.shell(`jq '.spec.variables.region = "` + env.variable("reference-set", "reference-set-demo-vpc", "region") + `"' ` + file + " > kept.json")
	does("kubectl replace -f FILE", "kept.json")

	// 5. Objects that were deleted.
	lost := types.NamespacedName{Namespace: "helpers-present", Name: "helpers-present-demo-vpc"}
	env.lose(&infrav1.WorkspaceTemplateApply{}, lost)
	workspace := types.NamespacedName{Name: lost.Name}
	env.lose(fixture.NewWorkspace(terraform.ScopeCluster, workspace), workspace)
	for _, file := range []string{
		"objects/Workspace.tf.upbound.io/_cluster/helpers-present-demo-vpc.json",
		"objects/WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io/helpers-present/helpers-present-demo-vpc.json",
	} {
		does("jq 'del(.metadata.uid, .metadata.ownerReferences)' FILE > restored.json", file)
		does("kubectl create -f restored.json", "")
		does("kubectl replace --subresource=status -f restored.json", "")
	}

	// 6.
	require.Contains(t, readme, "captctl migrate check\n")
	env.host.Run(migrate.Done, "check")
	require.NoError(t, env.StartControllers(t.Context()))
	env.host.Plan()
	env.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	assert.Equal(t, before, env.workspaces(env.settled(t)))
	writes := fixture.AuditEvents(t, env.Sandbox, audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Resource: "workspaces", Since: began})
	assert.Empty(t, writes, "Terraform would run")
}

// shell runs a command of the README in the directory of the archive.
func (env *environment) shell(command string) string {
	env.Helper()
	output, err := env.command(command).CombinedOutput()
	require.NoError(env, err, "%s: %s", command, output)
	return string(output)
}

// refused runs a command that fails.
func (env *environment) refused(command string) string {
	env.Helper()
	output, err := env.command(command).CombinedOutput()
	require.Error(env, err, "%s: %s", command, output)
	return string(output)
}

func (env *environment) command(command string) *exec.Cmd {
	cmd := exec.CommandContext(env.Context(), "bash", "-c", command)
	cmd.Dir = env.host.Dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(), "PATH="+filepath.Dir(env.Binary(sandbox.Kubectl))+":"+os.Getenv("PATH"))
	return cmd
}

// workspaces are the names and specs of all Workspaces: one that was restored has another UID.
func (env *environment) workspaces(fleet map[string]string) map[string]any {
	env.Helper()
	found := map[string]any{}
	require.NoError(env, migrate.Each(env.Context(), env.Admin, terraform.ScopeCluster.GroupVersionKind(), "", func(object *unstructured.Unstructured) error {
		require.Contains(env, fleet, host.Name(object))
		found[object.GetName()] = []any{object.Object["spec"], object.GetAnnotations()}
		return nil
	}))
	return found
}

func (env *environment) variable(namespace, name, variable string) string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.Admin.Get(env.Context(), types.NamespacedName{Namespace: namespace, Name: name}, apply))
	require.NotEmpty(env, apply.Spec.Variables.Text(variable))
	return apply.Spec.Variables.Text(variable)
}

// lose removes an object without the controllers that would notice it.
func (env *environment) lose(object client.Object, key types.NamespacedName) {
	env.Helper()
	require.NoError(env, env.Admin.Get(env.Context(), key, object))
	change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"annotations":{"capt.cluster.x-k8s.io/allow-delete":"true"}}}`))
	require.NoError(env, env.Admin.Patch(env.Context(), object, change))
	require.NoError(env, env.Admin.Delete(env.Context(), object))
}
