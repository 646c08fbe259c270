// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// row is a combination of facts that can happen; before says that the CAPTCluster was Ready once.
type row struct {
	name    string
	options []builder.Option
	facts   func() *Facts
}

// shows is a WorkspaceTemplateApply that is not up to date.
func shows(reason string) func() *Facts {
	return func() *Facts { return withApply(builder.NotUpToDate(reason, "why")) }
}

// rows are what can happen.
func rows() (all []row) {
	outputs := map[string]string{"vpc_id": "vpc-1", "availability_zones": `["a","b"]`}
	with := func(apply owner.Facts) func() *Facts {
		return func() *Facts { return &Facts{Cluster: builder.Cluster("demo"), Apply: apply} }
	}
	living := []row{
		{"no WorkspaceTemplateApply", nil, with(owner.Facts{})},
		{"the user must decide", nil, with(owner.Facts{Candidates: []adoption.Candidate{{Name: "by-hand"}}})},
		{"reference belongs to another owner", nil, with(owner.Facts{Conflict: "it belongs to CAPTCluster other"})},
		{"refused by the API server", nil, with(owner.Facts{Refused: assert.AnError})},
		{"not seen by its controller", nil, func() *Facts { return withApply() }},
		{"Terraform running", nil, shows(infrav1.ProvisioningReason)},
		{"template missing", nil, shows(infrav1.TemplateNotFoundReason)},
		{"provider down", nil, shows(infrav1.WorkspaceUnclaimedReason)},
		{"apply fails", nil, shows(infrav1.ApplyFailedReason)},
		{"create interrupted", nil, shows(infrav1.CreateInterruptedReason)},
		{"Workspace destroyed by another client", nil, shows(infrav1.WorkspaceDeletingReason)},
		{"being deleted by another client", nil, func() *Facts { return withApply(builder.UpToDate(outputs), builder.Deleting()) }},
		{"made", nil, func() *Facts { return made(outputs) }},
		{"made, without zones", nil, func() *Facts { return made(map[string]string{"vpc_id": "vpc-1"}) }},
		{"made, its id is not known", nil, func() *Facts { return made(nil) }},
		{"existing VPC", []builder.Option{builder.WithExistingVPC("vpc-0")}, with(owner.Facts{})},
	}
	for _, r := range living {
		all = append(all, r,
			row{"no Cluster; " + r.name, r.options, func() *Facts { f := r.facts(); f.Cluster = nil; return f }},
			row{"paused; " + r.name, r.options, func() *Facts { f := r.facts(); f.Paused = "annotation"; return f }},
			row{"deleted; " + r.name, append([]builder.Option{builder.Deleting()}, r.options...), r.facts},
			row{"deleted, paused; " + r.name, append([]builder.Option{builder.Deleting()}, r.options...), func() *Facts { f := r.facts(); f.Paused = "annotation"; return f }},
		)
	}
	return append(all, row{"deleted, the control plane is there", []builder.Option{builder.Deleting()}, func() *Facts {
		f := made(outputs)
		f.ControlPlanes = []string{"demo"}
		return f
	}})
}

// rowText is the status column of the golden table for a CAPTCluster.
func (r row) rowText(before bool) (infrav1.CAPTClusterStatus, string) {
	captCluster := builder.CAPTCluster("demo", r.options...)
	if before {
		captCluster.Status.Initialization.Provisioned, captCluster.Status.VPC.ID = ptr.To(true), "vpc-1"
	}
	report(captCluster, r.facts())
	got := captCluster.Status
	story := builder.Story(got.Conditions)
	text := []string{"Ready " + story["Ready"], "VPCReady " + story["VPCReady"]}
	if story["VPCReady"] == "" {
		text = text[:1]
	}
	for _, condition := range []string{"AdoptionRequired", "Deleting"} {
		if strings.HasPrefix(story[condition], "True") {
			text = append(text, condition+" "+story[condition])
		}
	}
	if ptr.Deref(got.Initialization.Provisioned, false) {
		text = append(text, "provisioned "+got.VPC.ID)
	}
	for _, domain := range got.FailureDomains {
		text = append(text, "zone "+domain.Name)
	}
	return got, strings.Join(text, "; ")
}

// TestGoldenTable: rows are facts, columns are status, of a CAPTCluster that was never Ready and of one that was.
// UPDATE_GOLDEN=1 rewrites it; review the difference.
func TestGoldenTable(t *testing.T) {
	var table strings.Builder
	for _, r := range rows() {
		_, fresh := r.rowText(false)
		after, before := r.rowText(true)
		assert.True(t, *after.Initialization.Provisioned, "never revoked: %s", r.name)
		fmt.Fprintf(&table, "%s\n  new:    %s\n  before: %s\n", r.name, fresh, before)
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}
