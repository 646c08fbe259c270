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

package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/test/builder"
)

const journalNamespace = "capt-system"

// errKilled is what a program that was killed learns from the API server.
var errKilled = errors.New("killed")

// world is a fleet of an older CAPT on an API server that can fail.
type world struct {
	*testing.T
	// base is the API server as it is.
	base     client.WithWatch
	plan     *migrate.Plan
	options  execute.Options
	rewriter *rewriter

	mutex  sync.Mutex
	writes []string
	// before is asked before each write, and after is asked when it was made.
	before, after func(write string) error
}

// rewriter notes what it is asked for.
type rewriter struct {
	mutex               sync.Mutex
	rewritten, restored []string
}

func (r *rewriter) Rewrite(_ context.Context, item migrate.StorageItem) (bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	again := slices.Contains(r.rewritten, item.String())
	r.rewritten = append(r.rewritten, item.String())
	return !again, nil
}

func (r *rewriter) Restore(_ context.Context, item migrate.StorageItem) (bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.restored = append(r.restored, item.String())
	return true, nil
}

// newWorld has a template that clusters a, b and c use, each with a CAPTControlPlane and its WorkspaceTemplateApply, and a plan.
func newWorld(t *testing.T) *world {
	t.Helper()
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "here"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: journalNamespace}},
		builder.WorkspaceTemplate("eks", builder.WithNamespace("platform")),
	}
	for _, kind := range migrate.Kinds() {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kind.Definition()}}
		definition.Status.StoredVersions = []string{migrate.LegacyVersion, migrate.Version}
		objects = append(objects, definition)
	}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, builder.CAPTControlPlane(name, builder.WithEndpoint("https://"+name+".example.com", 443)),
			builder.WorkspaceTemplateApply(name+"-apply"))
	}
	base := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).
		WithStatusSubresource(&infrav1.WorkspaceTemplateApply{}, &controlplanev1.CAPTControlPlane{}).Build()
	w := &world{T: t, base: base, rewriter: &rewriter{}}
	w.options = execute.Options{
		Client: interceptor.NewClient(base, w.funcs()), Namespace: journalNamespace, BackupDir: filepath.Join(t.TempDir(), "backup"), JournalDir: t.TempDir(),
		NewRewriter:      func(client.Client) execute.Rewriter { return w.rewriter },
		OlderManagerRuns: func(context.Context) (string, error) { return "", nil },
	}
	w.makePlan()
	return w
}

// funcs note every write, and let the test fail it, before it is made or after.
func (w *world) funcs() interceptor.Funcs {
	write := func(verb string, object client.Object, options string, do func() error) error {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if kind == "" {
			kind = fmt.Sprintf("%T", object)
		}
		text := fmt.Sprintf("%s %s %s%s", verb, kind, object.GetName(), options)
		w.mutex.Lock()
		w.writes = append(w.writes, text)
		w.mutex.Unlock()
		if w.before != nil {
			if err := w.before(text); err != nil {
				return err
			}
		}
		err := do()
		if err == nil && w.after != nil {
			err = w.after(text)
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return write("create", object, "", func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return write("update", object, "", func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if len((&client.PatchOptions{}).ApplyOptions(options).DryRun) > 0 {
				return write("patch", object, " (dry run)", func() error { return w.dryRun(ctx, object, patch) })
			}
			return write("patch", object, "", func() error { return asServed(c.Patch(ctx, object, patch, options...)) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return write("patch "+subresource+" of", object, "", func() error {
				return c.SubResource(subresource).Patch(ctx, object, patch, options...)
			})
		},
	}
}

// dryRun answers as an API server does. The fake answers with the object as it is.
func (w *world) dryRun(ctx context.Context, object client.Object, patch client.Patch) error {
	data, err := patch.Data(object)
	require.NoError(w, err)
	require.NoError(w, w.base.Get(ctx, client.ObjectKeyFromObject(object), object))
	document, err := json.Marshal(object)
	require.NoError(w, err)
	decoded, err := jsonpatch.DecodePatch(data)
	require.NoError(w, err)
	if document, err = decoded.Apply(document); err != nil {
		return asServed(err)
	}
	return json.Unmarshal(document, object)
}

// asServed is what an API server answers to a patch with a test that fails.
func asServed(err error) error {
	if errors.Is(err, jsonpatch.ErrTestFailed) || (err != nil && strings.Contains(err.Error(), "test failed")) {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return err
}

// makePlan: the template allows all namespaces; each control plane refers to its WorkspaceTemplateApply, which names its Workspace.
func (w *world) makePlan() {
	w.Helper()
	w.plan = &migrate.Plan{ClusterUID: "here", Created: metav1.Now(), Expires: metav1.NewTime(time.Now().Add(time.Hour)), Scope: migrate.ScopeAll}
	w.plan.Grants = []migrate.Step{w.step(&infrav1.WorkspaceTemplate{}, "platform", "eks",
		`[{"op":"add","path":"/spec/allowedNamespaces","value":{"names":["default"]}}]`, `[{"op":"remove","path":"/spec/allowedNamespaces"}]`)}
	for _, name := range []string{"a", "b", "c"} {
		apply := w.step(&infrav1.WorkspaceTemplateApply{}, builder.Namespace, name+"-apply",
			`[{"op":"add","path":"/spec/workspaceName","value":"w"}]`, `[{"op":"remove","path":"/spec/workspaceName"}]`)
		controlPlane := w.step(&controlplanev1.CAPTControlPlane{}, builder.Namespace, name,
			`[{"op":"add","path":"/spec/workspaceTemplateApplyRef","value":{"name":"`+name+`-apply"}},{"op":"replace","path":"/spec/controlPlaneEndpoint/host","value":"`+name+`.example.com"}]`,
			`[{"op":"remove","path":"/spec/workspaceTemplateApplyRef"},{"op":"replace","path":"/spec/controlPlaneEndpoint/host","value":"https://`+name+`.example.com"}]`)
		w.plan.Units = append(w.plan.Units, migrate.Unit{
			Owner: controlPlane.Object, Cluster: name, WorkspaceTemplateApply: &apply.Object, Steps: []migrate.Step{apply, controlPlane},
		})
		w.plan.Storage = append(w.plan.Storage, migrate.StorageItem{ObjectRef: apply.Object}, migrate.StorageItem{ObjectRef: controlPlane.Object})
	}
	require.NoError(w, w.plan.Seal())
}

// rest adds a premise to the plan.
func (w *world) rest(premise migrate.Premise) {
	w.plan.Baseline.Premises = append(w.plan.Baseline.Premises, premise)
	require.NoError(w, w.plan.Seal())
}

// stand puts a unit on a Workspace that had a generation and has another one.
func (w *world) stand(name string, was, is int64) {
	w.Helper()
	live := builder.Workspace(name, builder.AtRest, builder.InClusterScope(), builder.WithUID(types.UID(name)))
	live.SetGeneration(is)
	require.NoError(w, w.base.Create(w.Context(), live))
	item := migrate.BaselineItem{ObjectRef: migrate.ObjectRef{Group: live.GroupVersionKind().Group, Kind: "Workspace", Name: name, UID: live.GetUID()}, Generation: was}
	w.plan.Baseline.Workspaces = append(w.plan.Baseline.Workspaces, item)
	w.plan.Units[len(w.plan.Baseline.Workspaces)-1].Workspace = &item.ObjectRef
	require.NoError(w, w.plan.Seal())
}

// step is a patch of an object as it is now.
func (w *world) step(object client.Object, namespace, name, patch, inverse string) migrate.Step {
	w.Helper()
	gvk, err := w.base.GroupVersionKindFor(object)
	require.NoError(w, err)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	require.NoError(w, w.base.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, live))
	before, err := migrate.ContentHash(live)
	require.NoError(w, err)
	document, err := live.MarshalJSON()
	require.NoError(w, err)
	decoded, err := jsonpatch.DecodePatch([]byte(patch))
	require.NoError(w, err)
	document, err = decoded.Apply(document)
	require.NoError(w, err)
	changed := &unstructured.Unstructured{}
	require.NoError(w, changed.UnmarshalJSON(document))
	after, err := migrate.ContentHash(changed)
	require.NoError(w, err)
	step := migrate.Step{
		Object: migrate.ObjectRef{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name, UID: live.GetUID()},
		Why:    "for the test", Precondition: migrate.Precondition{UID: live.GetUID(), Generation: live.GetGeneration(), Hash: before, After: after},
	}
	require.NoError(w, json.Unmarshal([]byte(patch), &step.Patch))
	require.NoError(w, json.Unmarshal([]byte(inverse), &step.Inverse))
	return step
}

func (w *world) apply() (*execute.Result, error) {
	return execute.Apply(w.Context(), w.plan, w.options)
}

// told returns what was written since it was last called.
func (w *world) told() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	told := w.writes
	w.writes = nil
	return told
}

// fleet is the content of all objects that the plan may write.
func (w *world) fleet() map[string]string {
	w.Helper()
	fleet := map[string]string{}
	for _, kind := range migrate.Kinds() {
		require.NoError(w, migrate.Each(context.Background(), w.base, kind.GroupVersionKind, "", func(object *unstructured.Unstructured) error {
			object.SetResourceVersion("")
			text, err := json.Marshal(object)
			fleet[kind.Kind+" "+object.GetName()] = string(text)
			return err
		}))
	}
	return fleet
}

// change changes the version of a control plane, as a user would.
func (w *world) upgrade(name string) {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"v1.99.0"}}`))
	require.NoError(w, w.base.Patch(context.Background(), builder.CAPTControlPlane(name), patch))
}

// expire lets the lease of a run that was killed run out.
func (w *world) expire() {
	w.Helper()
	require.NoError(w, w.base.DeleteAllOf(context.Background(), lease(), client.InNamespace(journalNamespace)))
}

// lost is an answer that did not arrive.
func lost() error { return fmt.Errorf("read: %w", syscall.ECONNRESET) }
