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

package journal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/builder"
)

func newStore() journal.Store {
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).Build()
	return journal.Store{Client: c, Reader: c, Namespace: "capt-system"}
}

// bigPlan does not fit into two ConfigMaps, however it is compressed.
func bigPlan(t *testing.T) *migrate.Plan {
	t.Helper()
	plan := &migrate.Plan{ClusterUID: "here", Created: metav1.Now().Rfc3339Copy(), Expires: metav1.Now().Rfc3339Copy(), Scope: migrate.ScopeAll}
	for i := range 40_000 {
		sum := sha256.Sum256(fmt.Append(nil, i))
		plan.Storage = append(plan.Storage, migrate.StorageItem{ObjectRef: migrate.ObjectRef{Kind: "CAPTCluster", Name: hex.EncodeToString(sum[:])}})
	}
	require.NoError(t, plan.Seal())
	return plan
}

func TestAPlanIsReadBackFromTheCluster(t *testing.T) {
	store, plan := newStore(), bigPlan(t)
	state := &journal.State{PlanID: plan.ID, Checksum: plan.Checksum, Command: journal.Apply}
	require.NoError(t, store.Begin(t.Context(), plan, state))
	assert.Greater(t, state.Parts, 2)

	read, err := store.Plan(t.Context(), plan.ID)
	require.NoError(t, err)
	assert.Equal(t, plan.Checksum, read.Checksum)
	assert.Equal(t, plan.Storage, read.Storage)
	states, err := store.List(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 1)
	assert.Equal(t, *state, states[0])
}

func TestAPlanThatWasDamagedIsNotUsed(t *testing.T) {
	for name, damage := range map[string]func(*corev1.ConfigMap){
		"emptied": func(c *corev1.ConfigMap) { c.BinaryData = nil },
		"changed": func(c *corev1.ConfigMap) { c.BinaryData["plan.json.gz"][1000] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			store, plan := newStore(), bigPlan(t)
			state := &journal.State{PlanID: plan.ID, Checksum: plan.Checksum}
			require.NoError(t, store.Begin(t.Context(), plan, state))
			part := &corev1.ConfigMap{}
			require.NoError(t, store.Reader.Get(t.Context(), client.ObjectKey{Namespace: "capt-system", Name: "capt-migrate-" + plan.ID + "-plan-1"}, part))
			damage(part)
			require.NoError(t, store.Client.Update(t.Context(), part))
			_, err := store.Plan(t.Context(), plan.ID)
			require.Error(t, err)

			require.NoError(t, store.Begin(t.Context(), plan, state), "who has the file writes it anew")
			_, err = store.Plan(t.Context(), plan.ID)
			require.NoError(t, err)
		})
	}
}

func TestAPlanThatWasNeverBegunIsUnknown(t *testing.T) {
	_, err := newStore().Plan(t.Context(), "0123456789ab")
	require.ErrorContains(t, err, "never begun in this cluster: there is no ConfigMap capt-system/capt-migrate-0123456789ab")
}

func TestALineInWhichARunWasKilledSpoilsNoOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	file, err := journal.Open(dir, "plan", "one")
	require.NoError(t, err)
	require.NoError(t, file.Append(journal.Entry{Time: time.Now(), Event: journal.RunBegins}))
	require.NoError(t, file.Close())
	path := filepath.Join(dir, "plan.jsonl")
	torn, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = torn.WriteString(`{"time":"2026`)
	require.NoError(t, err)
	require.NoError(t, torn.Close())

	file, err = journal.Open(dir, "plan", "two")
	require.NoError(t, err)
	require.NoError(t, file.Append(journal.Entry{Event: journal.RunEnds}))
	require.NoError(t, file.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Len(t, lines, 4)
	assert.Equal(t, `{"time":"2026`, lines[1])
	assert.Contains(t, lines[2], `"run":"two","event":"RunEnds"`)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}
