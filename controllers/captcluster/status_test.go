// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

func withApply(options ...builder.Option) *Facts {
	return &Facts{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc", options...)}}
}

// report computes the status, as if the WorkspaceTemplateApply had been written, and returns the step.
func report(captCluster *infrav1.CAPTCluster, f *Facts) owner.Step {
	p, err := plan(captCluster, f)
	if err != nil {
		panic(err)
	}
	p.Apply.Differs = false
	status(captCluster, f, p)
	return p.Apply.Step
}

func made(outputs map[string]string) *Facts { return withApply(builder.UpToDate(outputs)) }

// row is a combination of facts that can happen.
type row struct {
	name    string
	options []builder.Option
	facts   func() *Facts
}

// but is the row with another fact.
func (r row) but(name string, option builder.Option, change func(f *Facts)) row {
	return row{name + "; " + r.name, append(slices.Clone(r.options), option), func() *Facts {
		f := r.facts()
		change(f)
		return f
	}}
}

// rows are what can happen.
func rows() (all []row) {
	outputs := map[string]string{"vpc_id": "vpc-1", "availability_zones": `["a","b"]`}
	with := func(apply owner.Facts) func() *Facts {
		return func() *Facts {
			return &Facts{Cluster: builder.Cluster("demo", builder.WithEndpoint("eks.example.com", 443)), Apply: apply}
		}
	}
	shows := func(reason string) func() *Facts {
		return func() *Facts { return withApply(builder.NotUpToDate(reason, "why")) }
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
	same, deleted := builder.WithGeneration(5), builder.Deleting()
	paused := func(f *Facts) { f.Paused = "annotation" }
	for _, r := range living {
		all = append(all, r.but("living", same, func(*Facts) {}),
			r.but("no Cluster", same, func(f *Facts) { f.Cluster = nil }), r.but("paused", same, paused),
			r.but("deleted", deleted, func(*Facts) {}), r.but("deleted, paused", deleted, paused))
	}
	made := living[12]
	return append(all, made.but("deleted, the control planes are there", deleted, func(f *Facts) { f.ControlPlanes = []string{"a", "b"} }),
		made.but("deleted, the Cluster is deleted", deleted, func(f *Facts) { f.Cluster = nil }))
}

// rowText has the step and the status of a CAPTCluster, for the golden table.
func (r row) rowText(t *testing.T, before bool) string {
	t.Helper()
	captCluster := builder.CAPTCluster("demo", r.options...)
	s := &captCluster.Status
	if before {
		s.Initialization.Provisioned, s.VPC.ID, s.FailureDomains = ptr.To(true), "vpc-1", []clusterv1.FailureDomain{{Name: "before"}}
	}
	text := []string{string(report(captCluster, r.facts()))}
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	once := captCluster.DeepCopy()
	report(captCluster, r.facts())
	assert.Equal(t, once, captCluster, "at rest nothing is written: %s", r.name)

	assert.Equal(t, captCluster.Generation, s.ObservedGeneration)
	story := builder.Story(s.Conditions)
	for _, condition := range slices.Sorted(maps.Keys(story)) {
		text = append(text, condition+" "+story[condition])
	}
	if ptr.Deref(s.Initialization.Provisioned, false) {
		text = append(text, "provisioned")
	}
	for _, field := range []string{s.VPC.ID, s.Endpoint} {
		if field != "" {
			text = append(text, field)
		}
	}
	if s.WorkspaceTemplateApply != nil {
		text = append(text, s.WorkspaceTemplateApply.Name)
	}
	for _, domain := range s.FailureDomains {
		text = append(text, "zone "+domain.Name)
	}
	return strings.Join(text, "; ")
}

// TestGoldenTable: rows are facts, columns are step and status, of a CAPTCluster that was never Ready and of one that was.
// UPDATE_GOLDEN=1 rewrites it; review the difference.
func TestGoldenTable(t *testing.T) {
	var table strings.Builder
	for _, r := range rows() {
		before := r.rowText(t, true)
		assert.Contains(t, before, "provisioned; vpc-", "never revoked: %s", r.name)
		fmt.Fprintf(&table, "%s\n  new:    %s\n  before: %s\n", r.name, r.rowText(t, false), before)
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}

func TestWhileDeletingTheMessageNamesWhatItWaitsFor(t *testing.T) {
	for message, facts := range map[string]*Facts{
		"waiting for the deletion of CAPTControlPlane a, b, which uses the VPC": {Apply: made(nil).Apply, ControlPlanes: []string{"a", "b"}},
		"waiting for WorkspaceTemplateApply demo-vpc to be deleted":             withApply(builder.Deleting()),
		"": {},
	} {
		captCluster := builder.CAPTCluster("demo", builder.Deleting())
		report(captCluster, facts)
		for _, condition := range captCluster.Status.Conditions {
			assert.Equal(t, message, condition.Message, condition.Type)
		}
	}
}

func TestFailureDomains(t *testing.T) {
	for output, want := range map[string][]string{
		"":                          nil,
		" , ":                       nil,
		"[]":                        nil,
		`["ap-1a","ap-1c"]`:         {"ap-1a", "ap-1c"},
		" ap-1a , ap-1c ,":          {"ap-1a", "ap-1c"},
		"ap-1a":                     {"ap-1a"},
		`["ap-1a","ap-1c","ap-1a"]`: {"ap-1a", "ap-1c"}, // One per subnet.
	} {
		var names []string
		for _, domain := range failureDomains(made(map[string]string{"availability_zones": output})) {
			assert.Equal(t, ptr.To(true), domain.ControlPlane)
			names = append(names, domain.Name)
		}
		assert.Equal(t, want, names, output)
	}
}

func TestVariables(t *testing.T) {
	byDefault := builder.CAPTCluster("demo")
	got := adoption.VPCIntent(byDefault, "demo-cluster").Variables
	assert.Equal(t, map[string]string{"cluster_name": "demo-cluster", "vpc_name": "demo-vpc", "region": "ap-northeast-1"}, got)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(got)), owners.VPCVariables(), "admission warns of variables that have no effect")

	mine := builder.CAPTCluster("demo", builder.WithRegion("us-gov-west-1"), builder.With(func(c *infrav1.CAPTCluster) {
		c.Spec.VPC.Template.Name = "net"
		c.Spec.VPC.Template.Variables = map[string]string{"cidr": "10.0.0.0/16", "region": "x", "vpc_name": "x", "cluster_name": "x"}
	}))
	before := mine.DeepCopy()
	assert.Equal(t, map[string]string{"cluster_name": "demo-cluster", "vpc_name": "net", "region": "us-gov-west-1", "cidr": "10.0.0.0/16"},
		adoption.VPCIntent(mine, "demo-cluster").Variables, "CAPT's own win")
	assert.Equal(t, before, mine)
}
