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

package verify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/verify"
)

func inNamespace(name string) client.DeleteAllOfOption { return client.InNamespace(name) }

// watched runs Watch, and something else as soon as it watches both kinds of Workspaces.
func watched(t *testing.T, m *migrated, duration time.Duration, then func() error) (verify.Report, error) {
	t.Helper()
	begun := make(chan struct{}, 100)
	c := interceptor.NewClient(admin, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			found, err := c.Watch(ctx, list, options...)
			begun <- struct{}{}
			return found, err
		},
	})
	ended, done := make(chan struct{}), make(chan error)
	go func() {
		for range 2 {
			select {
			case <-begun:
			case <-ended:
				done <- errors.New("it ended before it watched")
				return
			}
		}
		done <- then()
	}()
	report, err := verify.Watch(t.Context(), c, m.plan, verify.Options{}, duration)
	close(ended)
	require.NoError(t, <-done)
	return report, err
}

func mergeWorkspace(t *testing.T, m *migrated, patch string) func() error {
	return func() error {
		return admin.Patch(t.Context(), m.workspace.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

func TestAQuietWatchEndsWithALastLook(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	report, err := watched(t, m, 10*time.Second, mergeWorkspace(t, m, `{"status":{"atProvider":{"checksum":"x"}}}`))
	require.NoError(t, err)
	require.True(t, report.OK)
}

func TestAChangeOfAWorkspaceIsToldAtOnceAndWithoutValues(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	began := time.Now()
	report, err := watched(t, m, patience, mergeWorkspace(t, m, `{"metadata":{"labels":{"secret":"value"}},"spec":{"forProvider":{"module":"secret"}}}`))
	require.Less(t, time.Since(began), patience/2)
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.Equal(t, []string{"WorkspacesUntouched"}, failed(report))
	require.Contains(t, text(report), "metadata.labels.secret, spec.forProvider.module")
	require.NotContains(t, text(report)+err.Error(), "value")
}

func TestADeletedWorkspaceIsToldAtOnce(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	report, err := watched(t, m, patience, func() error { return admin.Delete(t.Context(), m.workspace) })
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.Contains(t, text(report), "Workspace "+m.workspace.GetName()+": it was deleted")
}

func TestANewWorkspaceMakesItLookAtEverything(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	report, err := watched(t, m, patience, func() error {
		if err := admin.Create(t.Context(), m.another("second", m.namespace+"-second")); err != nil {
			return err
		}
		return admin.Create(t.Context(), someWorkspace(m.namespace+"-second"))
	})
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.Equal(t, []string{"WorkspaceTemplateApplies"}, failed(report))
}
