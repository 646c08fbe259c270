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

// Package reapply_test applies the manifests of an older fleet again after its adoption, with kubectl and under the manager.
package reapply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	patience = 5 * time.Minute
	tick     = 100 * time.Millisecond
)

// world is a fleet of the older CAPT with Cluster API. Nobody runs Terraform: the Workspaces stay as they were left.
type world struct {
	*testing.T
	*legacy.World
	// git are the manifests of the fleet, in v1beta1.
	git []*unstructured.Unstructured
}

func newWorld(t *testing.T, fixtures ...string) *world {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), sandbox.Kubectl))
	started, err := legacy.Start(t.Context(), sandbox.Options{ClusterAPI: true, KubeControllerManager: true})
	require.NoError(t, err)
	w := &world{T: t, World: started}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.Logs(sandbox.Manager, 60))
		}
		require.NoError(t, w.Stop(context.Background()))
	})
	for _, name := range fixtures {
		objects, err := w.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
		require.NoError(t, err)
		w.git = append(w.git, objects.Manifests...)
		w.keepExports(objects)
	}
	return w
}

// keepExports adds what somebody once exported: WorkspaceTemplateApplies are seldom in Git, unless they were made by hand.
func (w *world) keepExports(objects *legacy.Objects) {
	w.Helper()
	for i := range objects.Items {
		item := objects.Items[i].DeepCopy()
		written := slices.ContainsFunc(w.git, func(o *unstructured.Unstructured) bool { return key(o) == key(item) })
		if item.GetKind() != "WorkspaceTemplateApply" || written {
			continue
		}
		export := &unstructured.Unstructured{Object: map[string]any{"spec": item.Object["spec"]}}
		export.SetGroupVersionKind(item.GroupVersionKind())
		export.SetNamespace(item.GetNamespace())
		export.SetName(item.GetName())
		w.git = append(w.git, export)
	}
}

func key(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// adopt carries out the plan of captctl, with its executor. Which rights it needs is tested elsewhere.
func (w *world) adopt() *migrate.Plan {
	w.Helper()
	snapshot, err := migrate.Read(w.Context(), w.Admin, "", time.Now())
	require.NoError(w, err)
	plan, err := planner.New(snapshot, planner.Options{Scope: migrate.ScopeAll, Now: time.Now(), Lifetime: time.Hour})
	require.NoError(w, err)
	require.Empty(w, plan.Undecided())
	_, err = execute.Apply(w.Context(), plan, execute.Options{
		Client: w.Admin, Namespace: sandbox.ManagerNamespace, BackupDir: filepath.Join(w.TempDir(), "backup"), JournalDir: w.TempDir(), Workers: 4,
		LeaseDuration: time.Minute, NewRewriter: func(c client.Client) execute.Rewriter { return storage.NewRewriter(c) },
		OlderManagerRuns: func(context.Context) (string, error) { return "", nil },
	})
	require.NoError(w, err)
	return plan
}

// kubectl gives the manifests to kubectl, in one stream. A replacement that the manager comes in between is tried again. One may
// be refused: a WorkspaceTemplateApply does not lose a variable by which Terraform knows what it made.
func (w *world) kubectl(manifests []*unstructured.Unstructured, args ...string) {
	w.Helper()
	var stream bytes.Buffer
	for _, manifest := range manifests {
		data, err := json.Marshal(manifest.Object)
		require.NoError(w, err)
		stream.Write(append(data, "\n---\n"...))
	}
	failed := ""
	err := wait.PollUntilContextTimeout(w.Context(), tick, patience, true, func(ctx context.Context) (bool, error) {
		cmd := exec.CommandContext(ctx, w.Binary(sandbox.Kubectl), append([]string{"--kubeconfig", w.Kubeconfig()}, args...)...)
		cmd.Stdin = bytes.NewReader(stream.Bytes())
		output, _ := cmd.CombinedOutput()
		failed = ""
		for line := range strings.Lines(string(output)) {
			if strings.HasPrefix(strings.ToLower(line), "error") && !strings.Contains(line, "it is the identity of what Workspace") {
				failed += line
			}
		}
		w.Log(string(output))
		return !strings.Contains(failed, "Error from server (Conflict)"), nil
	})
	require.NoError(w, err, "kubectl %s: %s", strings.Join(args, " "), failed)
	require.Empty(w, failed)
}

// list lists objects of a kind in all namespaces.
func (w *world) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(w, w.Admin.List(w.Context(), list))
	return list.Items
}

// truth is what an adoption wrote, and what there must be one of, as lines that a person can compare.
func (w *world) truth() []string {
	w.Helper()
	facts := map[string][][]string{
		"WorkspaceTemplate": {{"spec", "workspaceScope"}, {"spec", "allowedNamespaces"}},
		"WorkspaceTemplateApply": {
			{"metadata", "uid"}, {"spec", "workspaceName"}, {"spec", "deletionPolicy"}, {"status", "workspaceRef"},
		},
		"CAPTCluster":      {{"metadata", "uid"}, {"spec"}},
		"CAPTControlPlane": {{"metadata", "uid"}, {"spec"}},
		"Workspace":        {{"metadata", "uid"}, {"metadata", "generation"}, {"spec"}},
	}
	kinds := []schema.GroupVersionKind{terraform.ScopeCluster.GroupVersionKind(), terraform.ScopeNamespaced.GroupVersionKind()}
	for _, kind := range migrate.Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	var lines []string
	for _, kind := range kinds {
		for _, object := range w.list(kind) {
			line := kind.Kind + " " + object.GetNamespace() + "/" + object.GetName()
			for _, path := range facts[kind.Kind] {
				value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
				require.NoError(w, err)
				data, err := json.Marshal(value)
				require.NoError(w, err)
				line += fmt.Sprintf(" %s=%s", path[len(path)-1], data)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// awaitSettled waits until the manager has looked at every object as it is now: each is finalized, owned and reported of again.
func (w *world) awaitSettled() {
	w.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(w.Context(), tick, patience, true, func(context.Context) (bool, error) {
		missing = w.unsettled()
		return missing == "", nil
	})
	require.NoError(w, err, missing)
}

func (w *world) unsettled() string {
	var clusters infrav1.CAPTClusterList
	var controlPlanes controlplanev1.CAPTControlPlaneList
	var applies infrav1.WorkspaceTemplateApplyList
	for _, list := range []client.ObjectList{&clusters, &controlPlanes, &applies} {
		if err := w.Admin.List(w.Context(), list); err != nil {
			return err.Error()
		}
	}
	for i := range clusters.Items {
		if lack := unsettled(&clusters.Items[i], true, metav1.ConditionTrue); lack != "" {
			return lack
		}
	}
	for i := range controlPlanes.Items {
		if lack := unsettled(&controlPlanes.Items[i], true, ""); lack != "" {
			return lack
		}
	}
	for i := range applies.Items {
		apply := &applies.Items[i]
		if apply.Status.WorkspaceRef == nil {
			continue // A helper that never made anything has nothing to be finalized for.
		}
		helper := strings.HasSuffix(apply.Name, "-kubeconfig-apply") || strings.HasSuffix(apply.Name, "-spot-role-check")
		if lack := unsettled(apply, !helper, ""); lack != "" {
			return lack
		}
	}
	return ""
}

func unsettled(object engine.Object, owned bool, ready metav1.ConditionStatus) string {
	name := fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
	c := meta.FindStatusCondition(object.GetConditions(), infrav1.ReadyCondition)
	switch {
	case len(object.GetFinalizers()) == 0:
		return name + " has no finalizer"
	case owned && len(object.GetOwnerReferences()) == 0:
		return name + " has no owner"
	case c == nil || c.ObservedGeneration != object.GetGeneration():
		return fmt.Sprintf("%s was not looked at: %+v", name, c)
	case ready != "" && c.Status != ready:
		return fmt.Sprintf("%s is not ready: %+v", name, c)
	}
	return ""
}
