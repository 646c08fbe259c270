// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/builder"
)

const secret = "c2VjcmV0" // #nosec G101 -- It must not be in the archive.

func fleet() client.WithWatch {
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	workspace.SetName("demo-eks")
	return fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(
		&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo-eks", UID: "1"}},
		&infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "2"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo"}, Data: map[string][]byte{"password": []byte(secret)}},
		workspace,
	).Build()
}

func sealed(t *testing.T) *plan.Plan {
	t.Helper()
	p := &plan.Plan{ClusterUID: "kube-system"}
	require.NoError(t, p.Seal())
	return p
}

func writer(t *testing.T, reader client.Reader, file string) func(*apply.Backup) (*apply.Backup, error) {
	t.Helper()
	write := apply.BackupWriter(reader, file, sealed(t), clock.NewFakePassiveClock(time.Unix(0, 0)))
	return func(previous *apply.Backup) (*apply.Backup, error) { return write(t.Context(), previous) }
}

// entries of an archive, by name.
func entries(t *testing.T, file string) map[string]string {
	t.Helper()
	archive, err := os.ReadFile(file)
	require.NoError(t, err)
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	found := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		found[header.Name] = string(content)
	}
}

func TestABackupHasEveryObjectAndNoSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), apply.DefaultBackupFile("0123456789ab"))
	written, err := writer(t, fleet(), file)(nil)
	require.NoError(t, err)
	contents, sum, err := apply.VerifyBackup(file)
	require.NoError(t, err)
	assert.Equal(t, sum, written.Checksum)
	assert.Equal(t, sealed(t).Checksum, contents.PlanChecksum)
	assert.Equal(t, map[string]int{"CAPTCluster.infrastructure.cluster.x-k8s.io": 1, "WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io": 1, "Workspace.tf.upbound.io": 1}, contents.Objects)

	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content := entries(t, file)
	apply := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(content["objects/WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io/team-a/demo-eks.json"]), &apply))
	assert.Equal(t, "infrastructure.cluster.x-k8s.io/v1beta2", apply["apiVersion"])
	assert.Equal(t, "1", apply["metadata"].(map[string]any)["uid"])
	assert.NotContains(t, apply["metadata"], "resourceVersion")
	assert.Contains(t, content, "objects/Workspace.tf.upbound.io/_cluster/demo-eks.json")
	assert.Contains(t, content["README.md"], "captctl migrate rollback "+sealed(t).ID)
	stored, err := plan.Read(strings.NewReader(content["plan.json"]))
	require.NoError(t, err)
	assert.Equal(t, sealed(t).Checksum, stored.Checksum)
	for name, text := range content {
		assert.NotContains(t, text, secret, name)
	}
}

func TestAnExistingFileIsNeverReplaced(t *testing.T) {
	other := &plan.Plan{ClusterUID: "another"}
	require.NoError(t, other.Seal())
	laptop := &apply.Backup{Host: "laptop", File: "/home/me/backup.tar.gz", Checksum: "abc"}
	for name, tc := range map[string]struct {
		// change changes the file that was written, and previous is what the journal says of it.
		change   func(t *testing.T, file string)
		previous func(written *apply.Backup) *apply.Backup
		want     string
	}{
		"of the same plan, without a journal": {nil, nil, ""},
		"of the same plan, in the journal":    {nil, func(written *apply.Backup) *apply.Backup { return written }, ""},
		"another one than in the journal": {
			nil, func(*apply.Backup) *apply.Backup { return laptop }, "that of the backup, /home/me/backup.tar.gz on host laptop, is abc",
		},
		"of another plan": {func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			_, err := apply.BackupWriter(fleet(), file, other, clock.NewFakePassiveClock(time.Unix(0, 0)))(t.Context(), nil)
			require.NoError(t, err)
		}, nil, "is the backup of plan " + other.ID},
		"no backup at all": {
			func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("notes"), 0o600)) }, nil, "exists and is not a backup",
		},
		"damaged": {damage, nil, "exists and is not a backup"},
		"cut off": {func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 500)) }, nil, "exists and is not a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "backup.tar.gz")
			written, err := writer(t, fleet(), file)(nil)
			require.NoError(t, err)
			if tc.change != nil {
				tc.change(t, file)
			}
			var previous *apply.Backup
			if tc.previous != nil {
				previous = tc.previous(written)
			}
			before, err := os.ReadFile(file)
			require.NoError(t, err)
			written, err = writer(t, fleet(), file)(previous)
			if tc.want == "" {
				require.NoError(t, err)
				assert.NotEmpty(t, written.Checksum)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			after, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, before, after)
		})
	}
}

// damage changes a byte of the checksum at the end of an archive.
func damage(t *testing.T, file string) {
	t.Helper()
	archive, err := os.ReadFile(file)
	require.NoError(t, err)
	archive[len(archive)-8]++
	require.NoError(t, os.WriteFile(file, archive, 0o600))
}

func TestWhatAKilledRunLeftIsHarmless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	require.NoError(t, os.WriteFile(file+".partial", []byte("half of it"), 0o644))
	written, err := writer(t, fleet(), file)(nil)
	require.NoError(t, err)
	_, sum, err := apply.VerifyBackup(file)
	require.NoError(t, err)
	assert.Equal(t, written.Checksum, sum)
	assert.NoFileExists(t, file+".partial")
}

func TestAFailedBackupLeavesNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	forbidden := errors.New("captclusters is forbidden")
	reader := interceptor.NewClient(fleet(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind == "CAPTClusterList" {
				return forbidden
			}
			return c.List(ctx, list, options...)
		},
	})
	_, err := writer(t, reader, file)(nil)
	require.ErrorIs(t, err, forbidden)
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A run that goes on at another host has no file there.
func TestTheBackupOfAnotherHostIsNotDemanded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	previous := &apply.Backup{Host: "laptop", File: "/home/me/backup.tar.gz", Checksum: "abc"}
	written, err := writer(t, fleet(), file)(previous)
	require.NoError(t, err)
	assert.Equal(t, previous, written)
	assert.NoFileExists(t, file)
}
