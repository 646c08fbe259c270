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
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// The README of a backup is followed step by step: for a cluster that was edited, and for one that has lost objects. Its commands are taken from
// the archive, so that they work as printed.
func TestABackupIsRestoredAsItsReadmeSays(t *testing.T) {
	w := newWorld(t, "reference-set", "helpers-present")
	plan := w.host.Plan()
	w.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	before := w.workspaces(w.settled(t))
	w.shell("tar -xzf capt-migrate-" + plan.ID + ".tar.gz")
	text, err := os.ReadFile(filepath.Join(w.host.Dir, "README.md"))
	require.NoError(t, err)
	readme := string(text)
	does := func(command, file string) string {
		t.Helper()
		require.Contains(t, readme, "\n       "+command+"\n")
		return w.shell(strings.ReplaceAll(command, "FILE", file))
	}

	// 2. and 3.
	require.Contains(t, readme, "captctl migrate rollback "+plan.ID+" --cluster NAMESPACE/NAME\n")
	w.host.Run(migrate.Done, "rollback", plan.ID, "--cluster=reference-set/reference-set-demo", "--yes")
	require.Contains(t, readme, `"--watch-filter=none"`)
	require.NoError(t, w.StartControllers(t.Context(), "--watch-filter=none"))
	began := time.Now()

	// 4. An object that was edited.
	plane := &controlplanev1.CAPTControlPlane{}
	key := types.NamespacedName{Namespace: "reference-set", Name: "reference-set-demo"}
	require.NoError(t, w.Admin.Get(t.Context(), key, plane))
	was := plane.DeepCopy()
	plane.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"edited": "yes"}
	require.NoError(t, w.Admin.Update(t.Context(), plane))
	file := "objects/CAPTControlPlane.controlplane.cluster.x-k8s.io/reference-set/reference-set-demo.json"
	require.Contains(t, w.refused("kubectl diff -f "+file), "controlPlaneEndpoint")
	does("kubectl replace -f FILE", file)
	does("kubectl replace --subresource=status -f FILE", file)
	require.NoError(t, w.Admin.Get(t.Context(), key, plane))
	require.Equal(t, was.Spec.AdditionalTags, plane.Spec.AdditionalTags)

	// A WorkspaceTemplateApply keeps the variables that the manager added.
	file = "objects/WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io/reference-set/reference-set-demo-vpc.json"
	assert.Contains(t, w.refused("kubectl replace -f "+file), "Terraform would destroy the cloud resources of Workspace")
	w.shell(`jq '.spec.variables.region = "` + w.variable("reference-set", "reference-set-demo-vpc", "region") + `"' ` + file + " > kept.json")
	does("kubectl replace -f FILE", "kept.json")

	// 5. Objects that were deleted.
	lost := types.NamespacedName{Namespace: "helpers-present", Name: "helpers-present-demo-vpc"}
	w.lose(&infrav1.WorkspaceTemplateApply{}, lost)
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	w.lose(workspace, types.NamespacedName{Name: lost.Name})
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
	w.host.Run(migrate.Done, "check")
	require.NoError(t, w.StartControllers(t.Context()))
	w.host.Plan()
	w.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	assert.Equal(t, before, w.workspaces(w.settled(t)))
	events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Resource: "workspaces", Since: began})
	require.NoError(t, err)
	assert.Empty(t, events, "Terraform would run")
}

// shell runs a command of the README in the directory of the archive.
func (w *world) shell(command string) string {
	w.Helper()
	output, err := w.command(command).CombinedOutput()
	require.NoError(w, err, "%s: %s", command, output)
	return string(output)
}

// refused runs a command that fails.
func (w *world) refused(command string) string {
	w.Helper()
	output, err := w.command(command).CombinedOutput()
	require.Error(w, err, "%s: %s", command, output)
	return string(output)
}

func (w *world) command(command string) *exec.Cmd {
	cmd := exec.CommandContext(w.Context(), "bash", "-c", command)
	cmd.Dir = w.host.Dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig(), "PATH="+filepath.Dir(w.Binary(sandbox.Kubectl))+":"+os.Getenv("PATH"))
	return cmd
}

// workspaces are the names and specs of all Workspaces: one that was restored has another UID.
func (w *world) workspaces(fleet map[string]string) map[string]any {
	w.Helper()
	found := map[string]any{}
	require.NoError(w, migrate.Each(w.Context(), w.Admin, terraform.ScopeCluster.GroupVersionKind(), "", func(object *unstructured.Unstructured) error {
		require.Contains(w, fleet, host.Name(object))
		found[object.GetName()] = []any{object.Object["spec"], object.GetAnnotations()}
		return nil
	}))
	return found
}

func (w *world) variable(namespace, name, variable string) string {
	w.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(w, w.Admin.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: name}, apply))
	require.NotEmpty(w, apply.Spec.Variables[variable])
	return apply.Spec.Variables[variable]
}

// lose removes an object without the controllers that would notice it.
func (w *world) lose(object client.Object, key types.NamespacedName) {
	w.Helper()
	require.NoError(w, w.Admin.Get(w.Context(), key, object))
	change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"annotations":{"capt.cluster.x-k8s.io/allow-delete":"true"}}}`))
	require.NoError(w, w.Admin.Patch(w.Context(), object, change))
	require.NoError(w, w.Admin.Delete(w.Context(), object))
}
