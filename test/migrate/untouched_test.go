// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// TestTheFleetIsInspectedBeforeAnythingIsInstalled has captctl look at a management cluster with CAPT v0.3's definitions only, and
// carries a plan out that was made there.
func TestTheFleetIsInspectedBeforeAnythingIsInstalled(t *testing.T) {
	w := newWorld(t, sandbox.Options{})
	buildCaptctl(t.Context(), t)
	_, err := w.Create(t.Context(), legacy.Reference(nil), legacy.ReferenceNames())
	require.NoError(t, err)

	untouched := w.inspected(sandbox.Captctl)
	assert.Equal(t, untouched, w.inspected(sandbox.Reader), "the right to read is enough")
	assert.Equal(t, map[migrate.OwnerState]int{migrate.Adoptable: 25, migrate.NothingToAdopt: 1}, untouched.Counts)
	refused := w.begin(sandbox.Provider, "inspect").ends(migrate.Failed)
	for _, resource := range []string{
		"namespaces", "clusters", "workspacetemplates", "workspacetemplateapplies", "captclusters", "captcontrolplanes",
	} {
		assert.Contains(t, refused.complaints.String(), "cannot list resource \""+resource+"\"", "all that is missing is reported at once")
	}
	plan := w.planned()
	for _, user := range []string{sandbox.CaptctlUser, sandbox.ReaderUser} {
		events, err := w.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes})
		require.NoError(t, err)
		assert.Empty(t, events)
	}

	require.NoError(t, w.Upgrade(t.Context()))
	assert.Equal(t, untouched, w.inspected(sandbox.Captctl))
	w.captctl(migrate.Done, "apply", plan.path, "--quiet=1ms", "--backup="+filepath.Join(t.TempDir(), "backup"), "--journal-dir="+t.TempDir())
	w.captctl(migrate.Done, "verify", plan.path)
}

// inspected is the report of captctl migrate inspect, without its time.
func (w *world) inspected(identity string) (found migrate.Inspection) {
	w.Helper()
	report := w.begin(identity, "inspect", "-o=json").ends(migrate.Done)
	require.NoError(w, json.Unmarshal(report.out.Bytes(), &found))
	require.False(w, found.Taken.IsZero())
	found.Taken = metav1.Time{}
	return found
}
