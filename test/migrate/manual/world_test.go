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

package manual_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// migrator is the user that runs captctl. It may do nothing at first.
const migrator = sandbox.CaptctlUser

// world is a fleet of the older CAPT, and a folder with what an operator has: CAPT's repository, programs, and the manifests in Git.
type world struct {
	*testing.T
	*legacy.World
	folder    string
	objects   []unstructured.Unstructured
	templates int
}

func (w *world) begin() {
	w.Helper()
	require.NoError(w, sandbox.Build(w.Context(), w.Output(), sandbox.Kubectl, sandbox.Captctl))
	started, err := legacy.Start(w.Context(), sandbox.Options{})
	require.NoError(w, err)
	w.World, w.folder = started, w.TempDir()
	w.Cleanup(func() { require.NoError(w, w.Stop(context.Background())) })
	w.withdraw()
	w.provide()
	w.fill()
}

// withdraw takes away the rights that other tests begin with.
func (w *world) withdraw() {
	w.Helper()
	roles, err := manifests.Load("../../../config/rbac/captctl.yaml")
	require.NoError(w, err)
	for _, role := range roles {
		require.NoError(w, w.Admin.Delete(w.Context(), object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "test-"+role.GetName())))
		require.NoError(w, w.Admin.Delete(w.Context(), object("rbac.authorization.k8s.io/v1", "ClusterRole", "", role.GetName())))
	}
}

// provide puts the programs into a folder of their own. captctl is called by its user, who does not wait until the fleet, which was
// made just now, has been quiet for a minute.
func (w *world) provide() {
	w.Helper()
	config, err := filepath.Abs("../../../config")
	require.NoError(w, err)
	require.NoError(w, os.Symlink(config, filepath.Join(w.folder, "config")))
	bin := filepath.Join(w.folder, "bin")
	require.NoError(w, os.Mkdir(bin, 0o700))
	require.NoError(w, os.Symlink(w.Binary(sandbox.Kubectl), filepath.Join(bin, "kubectl")))
	script := fmt.Sprintf(`#!/bin/bash
case "$2" in preflight|apply|resume|rollback|finalize) set -- "$@" --quiet=1ms ;; esac
exec %q --kubeconfig=%q "$@"
`, w.Binary(sandbox.Captctl), w.KubeconfigOf(sandbox.Captctl))
	require.NoError(w, os.WriteFile(filepath.Join(bin, "captctl"), []byte(script), 0o700))
}

// fill makes the older CAPT, its fleet, and what is in Git of it.
func (w *world) fill() {
	w.Helper()
	for _, deployment := range legacy.Deployments(1) {
		require.NoError(w, w.Admin.Create(w.Context(), deployment))
	}
	for name, names := range map[string]legacy.Names{
		"reference-empty-generated-name": {Namespace: "team-a"},
		"templates-in-default":           {Namespace: "team-b", Prefix: "b-"},
		"two-claimants":                  {Namespace: "team-c", Prefix: "c-"},
		"control-plane-templates":        {Namespace: "team-d", Prefix: "d-"},
	} {
		objects, err := w.Create(w.Context(), legacy.Named()[name], names)
		require.NoError(w, err)
		w.commit(names.Namespace, objects.Manifests)
		w.objects = append(w.objects, objects.Items...)
		for i := range objects.Items {
			if objects.Items[i].GetKind() == legacy.OlderTemplate {
				w.templates++
			}
		}
	}
	require.Positive(w, w.templates)
	for _, arguments := range [][]string{{"init", "--quiet"}, {"add", "clusters", "templates"}} {
		out, err := exec.CommandContext(w.Context(), "git", append([]string{"-C", w.folder}, arguments...)...).CombinedOutput()
		require.NoError(w, err, "%s", out)
	}
}

// commit writes manifests into files: templates for themselves, and all others.
func (w *world) commit(name string, documents []*unstructured.Unstructured) {
	w.Helper()
	files := map[string]*bytes.Buffer{"clusters": {}, "templates": {}}
	for _, document := range documents {
		into := files["clusters"]
		if strings.HasSuffix(document.GetKind(), "Template") {
			into = files["templates"]
		}
		data, err := yaml.Marshal(document.Object)
		require.NoError(w, err)
		fmt.Fprintf(into, "---\n%s", data)
	}
	for folder, content := range files {
		require.NoError(w, os.MkdirAll(filepath.Join(w.folder, folder), 0o700))
		require.NoError(w, os.WriteFile(filepath.Join(w.folder, folder, name+".yaml"), content.Bytes(), 0o600))
	}
}

// install does what config/webhooks-only does, but for the node that a manager needs. The older one is gone by then. That the API
// server takes the definitions over the older ones is asked first.
func (w *world) install() {
	w.Helper()
	w.run("kubectl apply --server-side --dry-run=server -k config/crd", migrate.Failed)
	w.run("kubectl apply --server-side --force-conflicts --dry-run=server -k config/crd", migrate.Done)
	w.upgrade()
}

func (w *world) upgrade() {
	w.Helper()
	for _, older := range legacy.Deployments(1) {
		require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKeyFromObject(older), older))
		require.Zero(w, *older.Spec.Replicas)
	}
	require.NoError(w, w.Upgrade(w.Context()))
}

func (w *world) start() {
	w.Helper()
	require.NoError(w, w.StartControllers(w.Context()))
}

func (w *world) requireTemplates() {
	w.Helper()
	require.Len(w, w.list(controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate")), w.templates)
}

func (w *world) plan() *migrate.Plan {
	w.Helper()
	plan, err := planfile.Read(filepath.Join(w.folder, "plan.json"), nil)
	require.NoError(w, err)
	return plan
}

// decide leaves alone what is ambiguous.
func (w *world) decide() {
	w.Helper()
	decisions := migrate.Decisions{APIVersion: migrate.APIVersion, Kind: "Decisions"}
	for _, finding := range w.plan().Undecided() {
		for _, owner := range finding.Objects() {
			decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: owner.UID, Skip: true, Reason: "the teams were asked"})
		}
	}
	require.NotEmpty(w, decisions.Owners)
	data, err := yaml.Marshal(decisions)
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(w.folder, "decisions.yaml"), data, 0o600))
}

// older is the kind of an object in v1beta1, which is all that the older CAPT knows.
func older(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Version = "v1beta1"
	return kind
}

// bringOlderDefinition writes the one of the older CAPT into the file that the manual names.
func (w *world) bringOlderDefinition() {
	w.Helper()
	definitions, err := legacy.Definitions()
	require.NoError(w, err)
	i := slices.IndexFunc(definitions, func(d *unstructured.Unstructured) bool {
		return strings.HasPrefix(d.GetName(), "captcontrolplanetemplates.")
	})
	require.NotEqual(w, -1, i)
	data, err := yaml.Marshal(definitions[i].Object)
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(w.folder, "older-captcontrolplanetemplates.yaml"), data, 0o600))
}

// returnAndTryAnew proves that the older CAPT would find what it left, and may write it; then the migration is done a second time.
func (w *world) returnAndTryAnew() {
	w.Helper()
	require.Len(w, w.list(older(controlplanev1.GroupVersion.WithKind(legacy.OlderTemplate))), w.templates)
	found := map[types.UID]*unstructured.Unstructured{}
	for _, kind := range []schema.GroupVersionKind{
		infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
		infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	} {
		items := w.list(older(kind))
		for i := range items {
			found[items[i].GetUID()] = &items[i]
		}
	}
	for _, object := range w.objects {
		if object.GetKind() == legacy.OlderTemplate || !migrate.IsOlder(object.GetAPIVersion()) {
			continue
		}
		now := found[object.GetUID()]
		require.NotNil(w, now, object.GetName())
		require.Equal(w, object.Object["spec"], now.Object["spec"], object.GetName())
		require.Equal(w, object.Object["status"], now.Object["status"], object.GetName())
		require.Equal(w, object.GetOwnerReferences(), now.GetOwnerReferences(), object.GetName())
		require.NoError(w, w.Admin.Update(w.Context(), now, client.FieldOwner(legacy.FieldManager)), "the older CAPT writes it")
	}

	require.NoError(w, w.StopComponent(w.Context(), sandbox.Manager))
	w.run("captctl migrate crds --backup backup-crds-anew", migrate.Done)
	w.upgrade()
	w.run("captctl migrate crds --backup backup-crds-anew", migrate.Done)
	w.run("captctl migrate plan --decisions decisions.yaml --out plan.json", migrate.Pending)
	w.run("captctl migrate apply plan.json --backup backup-anew", migrate.Done)
}
