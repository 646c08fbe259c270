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

package backup_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/test/builder"
)

var plan = &migrate.Plan{ID: "0123456789ab", ClusterUID: "here"}

func fleet() client.WithWatch {
	state := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "crossplane-system", Name: "tfstate-default-demo", UID: "s", ResourceVersion: "7", Labels: map[string]string{"tfstate": "true"},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hidden"},
	}, Data: map[string][]byte{"tfstate": []byte("hidden")}}
	return fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(
		state, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}},
		builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo"), builder.WorkspaceTemplate("eks"),
		builder.WorkspaceTemplateApply("demo-vpc"), builder.WorkspaceTemplateApply("demo-apply", builder.UpToDate(map[string]string{"id": "vpc-1"})),
		builder.Workspace("demo-vpc", builder.Rows()[0]), builder.Workspace("demo", builder.Rows()[0], builder.InClusterScope()),
	).Build()
}

func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "some", "backup")
	_, err := backup.Write(t.Context(), fleet(), dir, plan, builder.Created)
	require.NoError(t, err)
	return dir
}

func lines(t *testing.T, path string) (found []map[string]any) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		object := map[string]any{}
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &object))
		found = append(found, object)
	}
	return found
}

func TestABackupHasEveryObjectWithItsStatus(t *testing.T) {
	dir := written(t)
	about, err := backup.Read(dir)
	require.NoError(t, err)
	assert.Equal(t, plan.ID, about.PlanID)
	assert.Equal(t, map[string]int{
		"Cluster.cluster.x-k8s.io.json": 1, "WorkspaceTemplate.infrastructure.cluster.x-k8s.io.json": 1,
		"WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io.json": 2, "CAPTCluster.infrastructure.cluster.x-k8s.io.json": 1,
		"CAPTControlPlane.controlplane.cluster.x-k8s.io.json": 1, "CAPTClusterTemplate.infrastructure.cluster.x-k8s.io.json": 0,
		"CAPTControlPlaneTemplate.controlplane.cluster.x-k8s.io.json": 0,
		"Workspace.tf.m.upbound.io.json":                              1, "Workspace.tf.upbound.io.json": 1, "terraform-state-secrets.json": 1,
	}, about.Files)
	applies := lines(t, filepath.Join(dir, "WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io.json"))
	outputs, _, err := unstructured.NestedStringMap(applies[0], "status", "outputs")
	require.NoError(t, err)
	assert.Equal(t, "vpc-1", outputs["id"])
	assert.Equal(t, infrav1.GroupVersion.String(), applies[0]["apiVersion"])

	problems, err := backup.Verify(dir)
	require.NoError(t, err)
	assert.Empty(t, problems)
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing unfinished is left")
}

func TestABackupHasNothingOfSecretsButTheirVersions(t *testing.T) {
	dir := written(t)
	assert.Equal(t, []map[string]any{{"namespace": "crossplane-system", "name": "tfstate-default-demo", "uid": "s", "resourceVersion": "7"}},
		lines(t, filepath.Join(dir, "terraform-state-secrets.json")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "hidden", entry.Name())
	}
}

func TestVerifyNamesWhatIsNotAsItWasWritten(t *testing.T) {
	dir := written(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Remove(path("terraform-state-secrets.json")))
	require.NoError(t, os.WriteFile(path("notes.txt"), nil, 0o600))
	file, err := os.OpenFile(path("Cluster.cluster.x-k8s.io.json"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(" ")
	require.NoError(t, err)
	require.NoError(t, file.Close())

	problems, err := backup.Verify(dir)
	require.NoError(t, err)
	var told []string
	for _, problem := range problems {
		told = append(told, problem.String())
	}
	assert.Equal(t, []string{"Cluster.cluster.x-k8s.io.json is changed", "notes.txt is added", "terraform-state-secrets.json is missing"}, told)

	_, err = backup.Write(t.Context(), fleet(), dir, plan, builder.Created)
	require.ErrorContains(t, err, "damaged")
	_, err = backup.Verify(t.TempDir())
	require.ErrorContains(t, err, "no backup")
}

func TestWhatWasBeforeTheFirstWriteIsNotOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.Mkdir(dir, 0o700), "an empty folder may be there")
	first, err := backup.Write(t.Context(), fleet(), dir, plan, builder.Created)
	require.NoError(t, err)
	changed := fleet()
	require.NoError(t, changed.Delete(t.Context(), builder.CAPTCluster("demo")))
	again, err := backup.Write(t.Context(), changed, dir, plan, builder.Created.Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, first, again)

	_, err = backup.Write(t.Context(), fleet(), dir, &migrate.Plan{ID: "another", ClusterUID: "here"}, builder.Created)
	require.ErrorContains(t, err, "is the backup for plan 0123456789ab")
	_, err = backup.Write(t.Context(), fleet(), filepath.Dir(dir), plan, builder.Created)
	require.ErrorContains(t, err, "is no backup")
}

// noSecrets is a fleet of which Secrets can not be listed.
func noSecrets(why error) client.WithWatch {
	return interceptor.NewClient(fleet(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, secrets := list.(*metav1.PartialObjectMetadataList); secrets {
				return why
			}
			return c.List(ctx, list, options...)
		},
	})
}

func TestWhoMayNotListSecretsGetsABackupWithoutThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Write(t.Context(), noSecrets(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no role"))), dir, plan, builder.Created)
	require.NoError(t, err)
	about, err := backup.Read(dir)
	require.NoError(t, err)
	assert.Contains(t, about.StateUnknown, "no role")
}

func TestABackupThatFailsLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Write(t.Context(), noSecrets(errors.New("out of order")), dir, plan, builder.Created)
	require.ErrorContains(t, err, "out of order")
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.NoError(t, os.Mkdir(dir+".partial", 0o700), "a run was killed")
	_, err = backup.Write(t.Context(), fleet(), dir, plan, builder.Created)
	require.NoError(t, err)
}
