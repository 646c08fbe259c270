// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

func withApply(options ...builder.Option) *Facts {
	return &Facts{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc", options...)}}
}

// planned is the plan for facts, as if the WorkspaceTemplateApply had been written.
func planned(captCluster *infrav1.CAPTCluster, f *Facts) Plan {
	p, err := plan(captCluster, f)
	if err != nil {
		panic(err)
	}
	p.Apply.Desired = nil
	return p
}

func report(captCluster *infrav1.CAPTCluster, f *Facts) {
	status(captCluster, f, planned(captCluster, f))
}

func step(captCluster *infrav1.CAPTCluster, f *Facts) owner.Step {
	return planned(captCluster, f).Apply.Step
}

func made(outputs map[string]string) *Facts { return withApply(builder.UpToDate(outputs)) }

func TestSteps(t *testing.T) {
	living, deleted := builder.CAPTCluster("demo"), builder.CAPTCluster("demo", builder.Deleting())
	cluster := builder.Cluster("demo")
	for name, row := range map[string]struct {
		captCluster *infrav1.CAPTCluster
		facts       *Facts
		want        owner.Step
	}{
		"no Cluster yet":                  {living, &Facts{}, owner.Wait},
		"with a Cluster":                  {living, &Facts{Cluster: cluster}, owner.Provision},
		"an existing VPC":                 {builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-1")), &Facts{Cluster: cluster}, owner.Hold},
		"the user must decide (defect 5)": {living, &Facts{Cluster: cluster, Apply: owner.Facts{Candidates: []adoption.Candidate{{Name: "demo-vpc"}}}}, owner.Wait},
		"deleted, the VPC is there":       {deleted, made(nil), owner.Destroy},
		"deleted, the Cluster is deleted": {deleted, &Facts{Apply: made(nil).Apply}, owner.Destroy},
		"deleted, a control plane is there (defect 4)": {
			deleted, &Facts{Cluster: cluster, Apply: made(nil).Apply, ControlPlanes: []string{"other-name"}}, owner.Wait},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, step(row.captCluster, row.facts)) })
	}
}

func TestConditions(t *testing.T) {
	existing := builder.WithExistingVPC("vpc-0")
	for name, row := range map[string]struct {
		options     []builder.Option
		facts       *Facts
		want        map[string]string
		provisioned bool
	}{
		"no Cluster yet":   {nil, &Facts{}, map[string]string{"Ready": "False WaitingForOwner", "VPCReady": "False WaitingForOwner"}, false},
		"about to be made": {nil, &Facts{Cluster: builder.Cluster("demo")}, map[string]string{"Ready": "False Provisioning", "VPCReady": "False Provisioning"}, false},
		"being made": {nil, withApply(builder.NotUpToDate(infrav1.ProvisioningReason, "")),
			map[string]string{"Ready": "False Provisioning", "VPCReady": "False Provisioning"}, false},
		"failed": {nil, withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")),
			map[string]string{"Ready": "False ApplyFailed", "VPCReady": "False ApplyFailed"}, false},
		"made":                          {nil, made(map[string]string{"vpc_id": "vpc-1"}), nil, true},
		"made, but its id is not known": {nil, made(nil), map[string]string{"Ready": "False VPCIDMissing", "VPCReady": "False VPCIDMissing"}, false},
		"existing":                      {[]builder.Option{existing}, &Facts{Cluster: builder.Cluster("demo")}, map[string]string{"VPCReady": "True ExistingVPC"}, true},
		"existing, no Cluster yet":      {[]builder.Option{existing}, &Facts{}, map[string]string{"Ready": "False WaitingForOwner", "VPCReady": "False WaitingForOwner"}, false},
		"the user must decide": {nil, &Facts{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Candidates: []adoption.Candidate{{Name: "demo-vpc"}}}}, map[string]string{
			"Ready": "False AdoptionRequired", "VPCReady": "False AdoptionRequired", "AdoptionRequired": "True AdoptionRequired"}, false},
		"paused": {nil, &Facts{Cluster: builder.Cluster("demo"), Paused: "annotation", Apply: made(map[string]string{"vpc_id": "vpc-1"}).Apply},
			map[string]string{"Paused": "True Paused"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{
				"Ready": "True Ready", "VPCReady": "True VPCReady",
			}
			maps.Copy(want, row.want)
			captCluster := builder.CAPTCluster("demo", row.options...)
			report(captCluster, row.facts)
			assert.Equal(t, want, builder.Story(captCluster.Status.Conditions))
			assert.Equal(t, row.provisioned, ptr.Deref(captCluster.Status.Initialization.Provisioned, false))
		})
	}
}

func TestConditionsWhileItIsDeleted(t *testing.T) {
	for name, row := range map[string]struct {
		facts         *Facts
		want, message string
	}{
		"a control plane is there": {&Facts{Apply: made(nil).Apply, ControlPlanes: []string{"a", "b"}},
			"True WaitingForControlPlaneDeletion", "waiting for the deletion of CAPTControlPlane a, b"},
		"the VPC is being destroyed": {withApply(builder.Deleting()), "True WaitingForWorkspaceTemplateApplyDeletion", "WorkspaceTemplateApply demo-vpc"},
		"nothing is left":            {&Facts{}, "True Deleting", ""},
	} {
		t.Run(name, func(t *testing.T) {
			captCluster := builder.CAPTCluster("demo", builder.Deleting())
			captCluster.Status.VPC.ID = "vpc-1"
			report(captCluster, row.facts)
			story := builder.Story(captCluster.Status.Conditions)
			assert.Equal(t, row.want, story["Deleting"])
			assert.Equal(t, "False Deleting", story["Ready"])
			assert.Contains(t, meta.FindStatusCondition(captCluster.Status.Conditions, "Deleting").Message, row.message)
			assert.Equal(t, "vpc-1", captCluster.Status.VPC.ID, "what is being deleted is still reported")
		})
	}
}

func TestFieldsOfStatus(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", builder.WithGeneration(5))
	f := made(map[string]string{"vpc_id": "vpc-1", "availability_zones": `["a","b"]`})
	f.Cluster = builder.Cluster("demo", builder.WithEndpoint("eks.example.com", 443))
	report(captCluster, f)
	s := captCluster.Status
	assert.Equal(t, "vpc-1", s.VPC.ID)
	assert.Equal(t, "eks.example.com:443", s.Endpoint)
	assert.Equal(t, int64(5), s.ObservedGeneration)
	assert.Equal(t, "demo-vpc", s.WorkspaceTemplateApply.Name)
	assert.Len(t, s.FailureDomains, 2)
}

func TestAnExistingVPCIsItsOwnID(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-0"))
	report(captCluster, &Facts{Cluster: builder.Cluster("demo")})
	assert.Equal(t, "vpc-0", captCluster.Status.VPC.ID)
	assert.Nil(t, captCluster.Status.WorkspaceTemplateApply)
}

func TestProvisionedIsNeverRevokedAndTheIDIsKept(t *testing.T) {
	captCluster := builder.CAPTCluster("demo")
	report(captCluster, made(map[string]string{"vpc_id": "vpc-1", "availability_zones": "a"}))
	report(captCluster, withApply(builder.NotUpToDate(infrav1.PlanFailedReason, "")))
	require.NotNil(t, captCluster.Status.Initialization.Provisioned)
	assert.True(t, *captCluster.Status.Initialization.Provisioned)
	assert.Equal(t, "vpc-1", captCluster.Status.VPC.ID)
	assert.Len(t, captCluster.Status.FailureDomains, 1)
	assert.Equal(t, "False PlanFailed", builder.Story(captCluster.Status.Conditions)["Ready"])
}

func TestFailureDomains(t *testing.T) {
	for output, want := range map[string][]string{
		"":                          nil,
		" , ":                       nil,
		"[]":                        nil,
		`["ap-1a","ap-1c"]`:         {"ap-1a", "ap-1c"},
		"ap-1a,ap-1c":               {"ap-1a", "ap-1c"},
		" ap-1a , ap-1c ,":          {"ap-1a", "ap-1c"},
		"ap-1a":                     {"ap-1a"},
		`["ap-1a","ap-1c","ap-1a"]`: {"ap-1a", "ap-1c"}, // One a subnet.
	} {
		t.Run(output, func(t *testing.T) {
			var names []string
			for _, domain := range failureDomains(made(map[string]string{"availability_zones": output})) {
				assert.Equal(t, ptr.To(true), domain.ControlPlane)
				names = append(names, domain.Name)
			}
			assert.Equal(t, want, names)
		})
	}
}

func TestTransitionTimesStandStillWhileNothingChanges(t *testing.T) {
	captCluster := builder.CAPTCluster("demo")
	report(captCluster, made(map[string]string{"vpc_id": "vpc-1"}))
	for i := range captCluster.Status.Conditions {
		captCluster.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	before := captCluster.Status.DeepCopy()
	report(captCluster, made(map[string]string{"vpc_id": "vpc-1"}))
	assert.Equal(t, *before, captCluster.Status)
}

func TestVariables(t *testing.T) {
	cluster := builder.Cluster("demo-cluster")
	for name, row := range map[string]struct {
		options []builder.Option
		want    map[string]string
	}{
		"by default": {nil, map[string]string{"cluster_name": "demo-cluster", "vpc_name": "demo-vpc", "region": "ap-northeast-1"}},
		"with a name and variables of the user's; CAPT's own win": {
			[]builder.Option{builder.WithRegion("us-gov-west-1"), builder.With(func(c *infrav1.CAPTCluster) {
				c.Spec.VPC.Template.Name = "net"
				c.Spec.VPC.Template.Variables = map[string]string{"cidr": "10.0.0.0/16", "region": "x", "vpc_name": "x", "cluster_name": "x"}
			})},
			map[string]string{"cluster_name": "demo-cluster", "vpc_name": "net", "region": "us-gov-west-1", "cidr": "10.0.0.0/16"}},
	} {
		t.Run(name, func(t *testing.T) {
			captCluster := builder.CAPTCluster("demo", row.options...)
			before := captCluster.DeepCopy()
			assert.Equal(t, row.want, adoption.VPCIntent(captCluster, cluster.Name).Variables)
			assert.Equal(t, before, captCluster)
		})
	}
}

// Admission warns of variables that have no effect, and so must know them all.
func TestAdmissionKnowsTheVariablesThatAreSet(t *testing.T) {
	got := adoption.VPCIntent(builder.CAPTCluster("demo"), "demo").Variables
	assert.ElementsMatch(t, slices.Collect(maps.Keys(got)), owners.VPCVariables())
}
