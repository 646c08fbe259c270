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

package migrate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestWhoOnlyLooksWritesNothing has every command that looks run by somebody who may write everything, and then those that write
// by somebody who may not.
func TestWhoOnlyLooksWritesNothing(t *testing.T) {
	w := newWorld(t, sandbox.Options{})
	buildCaptctl(t.Context(), t)
	fleet, err := w.Create(t.Context(), legacy.Named()["reference-empty-arbitrary-name"], legacy.Names{Namespace: "fleet"})
	require.NoError(t, err)
	crds := w.begin(sandbox.Reader, "crds", "--backup="+filepath.Join(t.TempDir(), "backup")).ends(migrate.Failed)
	assert.Contains(t, crds.complaints.String(), "delete customresourcedefinitions.apiextensions.k8s.io")
	assert.Empty(t, w.writesOf(sandbox.ReaderUser))
	require.NoError(t, w.Upgrade(t.Context()))
	manifests := filepath.Join(t.TempDir(), "fleet.yaml")
	w.keep(manifests, fleet)

	plan := w.planned()
	for _, looks := range []struct {
		outcome migrate.Outcome
		args    []string
	}{
		{migrate.Done, []string{"inspect"}},
		{migrate.Done, []string{"inspect", "--tree"}},
		{migrate.Done, []string{"inspect", "--namespace=fleet", "-o=json"}},
		{migrate.Done, []string{"preflight", "--quiet=1ms"}},
		{migrate.Pending, []string{"plan"}},
		{migrate.Done, []string{"show", plan.path, "--diff"}},
		{migrate.Done, []string{"status"}},
		{migrate.Failed, []string{"verify", plan.path}},
		{migrate.Pending, []string{"convert", "-f=" + manifests, "--from-cluster", "--detailed-exitcode"}},
	} {
		t.Run(strings.Join(looks.args[:min(2, len(looks.args))], " "), func(t *testing.T) {
			inner := &world{T: t, World: w.World}
			inner.captctl(looks.outcome, looks.args...)
			if looks.args[0] == "preflight" {
				looks.outcome = migrate.Failed // That is what it is asked for.
			}
			inner.begin(sandbox.Reader, looks.args...).ends(looks.outcome)
		})
	}
	require.Empty(t, w.writesOf(sandbox.CaptctlUser))
	require.Empty(t, w.writesOf(sandbox.ReaderUser))

	backup := func() string { return "--backup=" + filepath.Join(t.TempDir(), "backup") }
	journal := func() string { return "--journal-dir=" + t.TempDir() }
	w.isRefused("patch captcontrolplanes.controlplane.cluster.x-k8s.io", "apply", plan.path, backup(), journal())
	w.captctl(migrate.Done, "apply", plan.path, "--quiet=1ms", backup(), journal())
	adopted := w.fleet()
	w.isRefused("patch workspacetemplateapplies.infrastructure.cluster.x-k8s.io", "rollback", plan.ID, journal())
	w.isRefused("patch customresourcedefinitions/status.apiextensions.k8s.io", "finalize", plan.path, "--yes")
	require.Equal(t, adopted, w.fleet())
	require.Contains(t, w.storedVersions(), migrate.LegacyVersion)
}

// isRefused runs a command as somebody who may only read. What is missing is told, and nothing was tried.
func (w *world) isRefused(missing string, args ...string) {
	w.Helper()
	e := w.begin(sandbox.Reader, append(args, "--quiet=1ms")...).ends(migrate.Failed)
	assert.Contains(w, e.complaints.String(), missing)
	assert.Contains(w, e.complaints.String(), "create leases.coordination.k8s.io in namespace "+sandbox.ManagerNamespace)
	assert.Empty(w, w.writesOf(sandbox.ReaderUser))
}

// writesOf a user that the API server was asked for, whether it carried them out or not. Questions whether one may are not among
// them, and neither are rehearsals: show --diff has the API server say what a step would come to.
func (w *world) writesOf(user string) (writes []string) {
	w.Helper()
	events, err := w.Writes(user)
	require.NoError(w, err)
	for _, event := range events {
		if event.ObjectRef.Resource != "selfsubjectaccessreviews" && !strings.Contains(event.RequestURI, "dryRun=All") {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

// keep writes the manifests of a fleet to a file, as a team has them in Git.
func (w *world) keep(path string, fleet *legacy.Objects) {
	w.Helper()
	var text []byte
	for _, manifest := range fleet.Manifests {
		document, err := yaml.Marshal(manifest.Object)
		require.NoError(w, err)
		text = append(append(text, "---\n"...), document...)
	}
	require.NoError(w, os.WriteFile(path, text, 0o600))
}
