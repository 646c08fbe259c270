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

package crds_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/test/sandbox"
)

func dryRun(uri string) bool {
	parsed, err := url.Parse(uri)
	return err == nil && parsed.Query().Get("dryRun") == metav1.DryRunAll
}

func step(t *testing.T, report *crds.Report, name string) crds.Step {
	t.Helper()
	require.NotNil(t, report)
	for _, step := range report.Steps {
		if step.Name == name {
			return step
		}
	}
	require.Failf(t, "no such step", "%s in %+v", name, report.Steps)
	return crds.Step{}
}

func TestTheDefinitionIsReplacedAndItsObjectsComeBack(t *testing.T) {
	f := newFleet(t)
	options := optionsOf(t, sandbox.Captctl)
	began := time.Now()

	report, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, crds.Older, report.Found)
	assert.Len(t, step(t, report, crds.StepExport).Objects, len(f.objects))
	assert.Equal(t, []string{f.namespace + "/held: captcontrolplanetemplate.controlplane.cluster.x-k8s.io"}, step(t, report, crds.StepFinalizers).Objects)
	assert.Contains(t, report.Next, "captctl migrate crds --backup "+options.Backup)
	err = admin.Get(t.Context(), client.ObjectKey{Name: definitionName}, &apiextensionsv1.CustomResourceDefinition{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	assert.Equal(t, []string{"patch captcontrolplanetemplates", "delete customresourcedefinitions"}, writes(t, sandbox.CaptctlUser, began))

	report, err = crds.Run(t.Context(), options)
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	assert.Equal(t, crds.Absent, report.Found)

	install(t, ours)
	foretold := options
	foretold.DryRun = true
	report, err = crds.Run(t.Context(), foretold)
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	assert.Len(t, step(t, report, crds.StepRestore).Objects, len(f.objects))
	assert.False(t, step(t, report, crds.StepRestore).Done)

	restored := time.Now()
	report, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.Len(t, step(t, report, crds.StepRestore).Objects, len(f.objects))
	assert.Equal(t, []string{"the owner of " + f.namespace + "/owned, ClusterClass gone: it is gone"}, step(t, report, crds.StepLeftOut).Objects)
	f.requireRestored(t)
	assert.Equal(t, []string{"create captcontrolplanetemplates", "create captcontrolplanetemplates", "create captcontrolplanetemplates"},
		writes(t, sandbox.CaptctlUser, restored))

	again := time.Now()
	report, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.Empty(t, step(t, report, crds.StepRestore).Objects)
	assert.Empty(t, writes(t, sandbox.CaptctlUser, again))
	report, err = crds.Run(t.Context(), foretold)
	require.NoError(t, err, "nothing is left to do")
	assert.Empty(t, step(t, report, crds.StepRestore).Objects)
}

func TestWhoMayOnlyReadIsToldWhatIsMissing(t *testing.T) {
	f := newFleet(t)
	began := time.Now()
	options := optionsOf(t, sandbox.Reader)
	_, err := crds.Run(t.Context(), options)
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err), "%v", err)
	for _, right := range []string{
		"delete customresourcedefinitions.apiextensions.k8s.io " + definitionName,
		"create captcontrolplanetemplates.controlplane.cluster.x-k8s.io", "patch captcontrolplanetemplates.controlplane.cluster.x-k8s.io",
	} {
		assert.ErrorContains(t, err, right)
	}
	assert.NotContains(t, err.Error(), "list")
	assert.Empty(t, writes(t, sandbox.ReaderUser, began))
	f.requireUntouched(t)
}

func TestADryRunSaysWhatWouldBeDoneAndWritesNoFile(t *testing.T) {
	f := newFleet(t)
	began := time.Now()
	options := optionsOf(t, sandbox.Captctl)
	options.DryRun = true
	report, err := crds.Run(t.Context(), options)
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	assert.Len(t, step(t, report, crds.StepExport).Objects, len(f.objects))
	assert.Contains(t, step(t, report, crds.StepDelete).Message, "its 3 objects")
	for _, s := range report.Steps {
		assert.False(t, s.Done, s.Name)
	}
	assert.Empty(t, writes(t, sandbox.CaptctlUser, began))
	files, err := os.ReadDir(options.Backup)
	require.NoError(t, err)
	assert.Empty(t, files)
	f.requireUntouched(t)
}

func TestADefinitionWithoutObjectsIsDeleted(t *testing.T) {
	removeDefinition(t)
	install(t, older)
	options := optionsOf(t, sandbox.Captctl)
	report, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.True(t, step(t, report, crds.StepDelete).Done)
	assert.NotContains(t, report.Next, "once more", "there is nothing to create again")
	_, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	install(t, ours)
	report, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, crds.Current, report.Found)
}

func TestAClusterClassOfTheOlderKindStandsInTheWay(t *testing.T) {
	f := newFleet(t)
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
		"metadata": map[string]any{"namespace": f.namespace, "name": "fleet"},
		"spec": map[string]any{
			"infrastructure": map[string]any{"templateRef": map[string]any{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTClusterTemplate", "name": "x"}},
			"controlPlane":   map[string]any{"templateRef": map[string]any{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": preflight.OlderTemplateKind, "name": "plain"}},
		},
	}}
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"namespace": f.namespace, "name": "harbour"},
		"spec":     map[string]any{"topology": map[string]any{"classRef": map[string]any{"name": "fleet"}, "version": "v1.30.0"}},
	}}
	for _, object := range []*unstructured.Unstructured{class, cluster} {
		require.NoError(t, admin.Create(t.Context(), object))
	}
	began := time.Now()
	options := optionsOf(t, sandbox.Captctl)

	report, err := crds.Run(t.Context(), options)
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err), "%v", err)
	blocked := step(t, report, crds.StepBlocked)
	assert.Equal(t, []string{"ClusterClass " + f.namespace + "/fleet", "Cluster " + f.namespace + "/harbour, of ClusterClass " + f.namespace + "/fleet"}, blocked.Objects)
	assert.Contains(t, blocked.Message, crds.Kind)
	assert.Empty(t, writes(t, sandbox.CaptctlUser, began))
	f.requireUntouched(t)

	for _, object := range []*unstructured.Unstructured{cluster, class} {
		require.NoError(t, admin.Delete(t.Context(), object))
	}
	_, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
}

func TestAFinalizerOfSomebodyElseIsNotRemovedUnlessItIsNamed(t *testing.T) {
	f := newFleet(t)
	foreign := template(f.namespace, "foreign")
	foreign.SetFinalizers([]string{"example.com/inventory"})
	f.add(t, foreign)
	options := optionsOf(t, sandbox.Captctl)
	report, err := crds.Run(t.Context(), options)
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err), "%v", err)
	assert.Equal(t, []string{f.namespace + "/foreign: example.com/inventory"}, step(t, report, crds.StepBlocked).Objects)
	f.requireUntouched(t)

	options.RemoveFinalizers = []string{"example.com/inventory"}
	_, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	install(t, ours)
	_, err = crds.Run(t.Context(), options)
	require.NoError(t, err)
	f.requireRestored(t)
}

func TestNothingIsChangedWhenTheExportCanNotBeWritten(t *testing.T) {
	f := newFleet(t)
	began := time.Now()
	options := optionsOf(t, sandbox.Captctl)
	require.NoError(t, os.WriteFile(filepath.Join(options.Backup, crds.Folder), []byte("in the way"), 0o600))
	_, err := crds.Run(t.Context(), options)
	require.Error(t, err)
	assert.Empty(t, writes(t, sandbox.CaptctlUser, began))
	f.requireUntouched(t)
}

// files of an export: the manifest, and that of the objects.
func files(t *testing.T, backup string) (manifest, objects string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(backup, crds.Folder, "captcontrolplanetemplates-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return filepath.Join(backup, crds.Folder, "export.json"), found[0]
}

// change replaces text in a file.
func change(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), from)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600))
}

func TestADamagedExportIsNotUsed(t *testing.T) {
	f := newFleet(t)
	options := optionsOf(t, sandbox.Captctl)
	_, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	manifest, objects := files(t, options.Backup)

	damage := map[string]func(){
		"an object was changed":             func() { change(t, objects, "frigate", "galleon") },
		"the manifest leaves an object out": func() { change(t, manifest, `"name": "plain"`, `"name": "other"`) },
		"the objects are missing":           func() { require.NoError(t, os.Remove(objects)) },
	}
	whole := map[string][]byte{}
	for _, path := range []string{manifest, objects} {
		if whole[path], err = os.ReadFile(path); err != nil {
			require.NoError(t, err)
		}
	}
	for _, definition := range []*unstructured.Unstructured{ours, older} { // To restore from it, and to write over it.
		removeDefinition(t)
		install(t, definition)
		for name, spoil := range damage {
			spoil()
			began := time.Now()
			_, err := crds.Run(t.Context(), options)
			require.ErrorContains(t, err, "the export is damaged", name)
			assert.Empty(t, writes(t, sandbox.CaptctlUser, began), name)
			for path, data := range whole {
				require.NoError(t, os.WriteFile(path, data, 0o600))
			}
		}
	}

	_, err = crds.Run(t.Context(), options)
	require.ErrorContains(t, err, "is of an earlier definition", "the objects of the earlier one would be forgotten")
	options.Restore = true
	report, err := crds.Run(t.Context(), options)
	require.NoError(t, err, "the way back")
	assert.Len(t, step(t, report, crds.StepRestore).Objects, len(f.objects))
	back, err := templates.Namespace(f.namespace).Get(t.Context(), "plain", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, preflight.OlderTemplateKind, back.GetKind())
}

func TestAnExportOfAnotherClusterIsNotUsed(t *testing.T) {
	newFleet(t)
	options := optionsOf(t, sandbox.Captctl)
	_, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	install(t, ours)
	rename(t, options.Backup, "00000000-0000-0000-0000-000000000000")
	began := time.Now()
	_, err = crds.Run(t.Context(), options)
	require.ErrorContains(t, err, "is of another cluster")
	assert.Empty(t, writes(t, sandbox.CaptctlUser, began))
}

func TestWhatSomebodyElseHasAppliedMeanwhileIsLeftAlone(t *testing.T) {
	f := newFleet(t)
	options := optionsOf(t, sandbox.Captctl)
	_, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	install(t, ours)
	same, other := template(f.namespace, "plain"), template(f.namespace, "held")
	same.SetKind(crds.Kind)
	other.SetKind(crds.Kind)
	require.NoError(t, unstructured.SetNestedField(other.Object, "1.31", "spec", "template", "spec", "version"))
	for _, object := range []*unstructured.Unstructured{same, other} {
		_, err := templates.Namespace(f.namespace).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "kustomize-controller"})
		require.NoError(t, err)
	}
	report, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	assert.Equal(t, []string{f.namespace + "/owned"}, step(t, report, crds.StepRestore).Objects)
	assert.Equal(t, []string{f.namespace + "/held"}, step(t, report, crds.StepDifferent).Objects)
	now, err := templates.Namespace(f.namespace).Get(t.Context(), "held", metav1.GetOptions{})
	require.NoError(t, err)
	version, _, _ := unstructured.NestedString(now.Object, "spec", "template", "spec", "version")
	assert.Equal(t, "1.31", version)
}

func TestAnObjectThatCanNotComeBackKeepsNoOtherFromIt(t *testing.T) {
	f := newFleet(t)
	leaving := newNamespace(t)
	f.add(t, template(leaving.Name, "stranded"))
	options := optionsOf(t, sandbox.Captctl)
	_, err := crds.Run(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, admin.Delete(t.Context(), leaving))
	install(t, ours)
	report, err := crds.Run(t.Context(), options)
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
	assert.ErrorContains(t, err, leaving.Name+"/stranded")
	assert.Len(t, step(t, report, crds.StepRestore).Objects, 3)
}

func TestADeletionThatSomebodyElseHasBegunIsNotHelpedWithoutAnExport(t *testing.T) {
	f := newFleet(t)
	require.NoError(t, admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}))
	began := time.Now()
	report, err := crds.Run(t.Context(), optionsOf(t, sandbox.Captctl))
	require.ErrorContains(t, err, f.namespace+"/held")
	assert.Equal(t, crds.Leaving, report.Found)
	assert.Empty(t, writes(t, sandbox.CaptctlUser, began))
}

func TestPreflightSendsPeopleHere(t *testing.T) {
	newFleet(t)
	report, err := preflight.Run(t.Context(), preflight.Options{Config: shared.Config()})
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err), "%v", err)
	for _, check := range report.Checks {
		if check.Name == preflight.CheckDefinitions {
			assert.Equal(t, preflight.Failed, check.Status)
			assert.Contains(t, strings.Join(check.Objects, "\n"), definitionName+": its kind is CaptControlPlaneTemplate, not CAPTControlPlaneTemplate, and can not be changed; run captctl migrate crds")
		}
	}
}
