// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/fleets"
)

// planned is a preview with changes of resources.
func planned(revision string, resources ...infrav1.PlannedResource) infrav1.RevisionPreview {
	changes := &infrav1.PlannedChanges{Resources: resources}
	for _, resource := range resources {
		i := 0
		for i < len(changes.Counts) && changes.Counts[i].Action != resource.Action {
			i++
		}
		if i == len(changes.Counts) {
			changes.Counts = append(changes.Counts, infrav1.PlannedCount{Action: resource.Action})
		}
		changes.Counts[i].Count++
		if resource.Action == infrav1.PlanReplace {
			changes.Destroys = append(changes.Destroys, resource.Type)
		}
	}
	return infrav1.RevisionPreview{TemplateRevision: revision, Result: infrav1.PreviewChanges, Changes: changes}
}

var (
	replacedCluster = infrav1.PlannedResource{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: infrav1.PlanReplace, Reason: "cannot_update"}
	updatedVPC      = infrav1.PlannedResource{Address: `module.vpc["a|b"].aws_vpc.this`, Type: "aws_vpc", Action: infrav1.PlanUpdate}
)

// newPlans is a staging with previews: b is updated, and the cluster of c is replaced.
func newPlans() *staging {
	s := newStaging()
	s.template.Spec.Rollout.Preview, s.template.Spec.Rollout.NeverDestroy = infrav1.RolloutPreviewAlways, []string{"None"}
	s.b.Status.Preview, s.c.Status.Preview = planned(s.two, updatedVPC), planned(s.two, replacedCluster, updatedVPC)
	return s
}

func TestTemplatePlanShowsWhatIsDestroyedFirst(t *testing.T) {
	s := newPlans()
	out, errOut, err := s.run(t, "template", "plan", "team-a/vpc")
	require.NoError(t, err)
	assert.Empty(t, errOut)
	assert.Equal(t, strings.ReplaceAll(strings.TrimLeft(`
Template:  team-a/vpc
Revision:  2 (<two>)
Plans:     ~2 -/+1 in total for 2 users, no plan yet for 1 user

NAMESPACE   NAME   CLUSTER   CONTENT                 PLAN
team-b      c      -         revision <two>   ~1 -/+1
team-a      b      green     revision <two>   ~1

team-b/c: ~1 -/+1
  -/+ aws_eks_cluster.this (cannot_update)
  ~ module.vpc["a|b"].aws_vpc.this

team-a/b: ~1
  ~ module.vpc["a|b"].aws_vpc.this
`, "\n"), "<two>", s.two[:12]), out)

	out, _, err = s.run(t, "template", "plan", "team-a/vpc", "-o", "json")
	require.NoError(t, err)
	var plan template.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &plan))
	assert.Equal(t, "TemplatePlan", plan.Kind)
	assert.True(t, plan.Destroys)
	assert.Equal(t, []string{"team-a/a"}, plan.Unplanned)
	assert.Equal(t, "c", plan.Users[0].Name)
	assert.Equal(t, replacedCluster, plan.Users[0].Preview.Changes.Resources[0])
}

func TestTemplatePlanCountsDestroyedResourcesThatMayNotBeRead(t *testing.T) {
	s := newPlans()
	s.c.Status.Preview = infrav1.RevisionPreview{}
	s.template.Status.Rollout.PreviewedDestroy = ptr.To[int32](2)
	out, _, err := s.run(t, "template", "plan", "team-a/vpc", "-o", "json")
	require.NoError(t, err)
	var plan template.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &plan))
	assert.True(t, plan.Destroys)
	out, _, err = s.run(t, "template", "plan", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, ", replace or delete for 2 users that you may not read\n")
}

func TestTemplatePlanAsACommentOnAPullRequest(t *testing.T) {
	s := newPlans()
	s.a.Status.Preview = s.b.Status.Preview
	out, _, err := s.run(t, "template", "plan", "team-a/vpc", "-o", "markdown")
	require.NoError(t, err)
	assert.Equal(t, strings.NewReplacer("<two>", s.two[:12], "'", "`").Replace(strings.TrimLeft(`
### Terraform plan of team-a/vpc, revision 2 (<two>)

~3 -/+1 in total for 3 users

| User | Cluster | Content | Plan |
|---|---|---|---|
| team-b/c |  | revision <two> | '~1 -/+1' |
| team-a/a | blue | revision <two> | '~1' |
| team-a/b | green | revision <two> | '~1' |

<details><summary>team-b/c: ~1 -/+1</summary>

'''diff
-/+ aws_eks_cluster.this (cannot_update)
~ module.vpc["a|b"].aws_vpc.this
'''

</details>

<details><summary>team-a/a, team-a/b: ~1</summary>

'''diff
~ module.vpc["a|b"].aws_vpc.this
'''

</details>
`, "\n")), out)
}

func TestTemplatePlanOfPlansThatAreNotKnown(t *testing.T) {
	s := newPlans()
	s.a.Status.Preview = infrav1.RevisionPreview{TemplateRevision: s.two, Result: infrav1.PreviewFailed, Message: "Error:\nInvalid value"}
	s.b.Status.Preview.Changes = &infrav1.PlannedChanges{Unknown: "the log is gone"}
	s.c.Status.Preview = infrav1.RevisionPreview{}
	s.c.Status.Change = infrav1.HeldChange{Revision: contentB, Preview: infrav1.RevisionPreview{Result: infrav1.PreviewEmpty}}
	out, _, err := s.run(t, "template", "plan", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, "Plans:     not known for 1 user, no changes for 1 user, the plan fails for 1 user\n")
	assert.Regexp(t, `team-b +c +- +change bbbbbbbbbbbb +none\n`, out)
	assert.Contains(t, out, "\nteam-a/b: ?\n  what changes is not known: the log is gone\n\nteam-a/a: failed\n  Error: Invalid value\n")

	s = newStaging()
	out, errOut, err := s.run(t, "template", "plan", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, "Plans:     nothing waits for a plan\n")
	assert.Contains(t, errOut, "Warning: spec.rollout.preview of WorkspaceTemplate team-a/vpc is not Always: nothing is planned before it is applied")
}

func TestTemplateStatusShowsPlans(t *testing.T) {
	s := newPlans()
	s.a.Status.Preview = planned(s.one, replacedCluster) // It has this revision.
	out, _, err := s.run(t, "template", "status", "team-a/vpc", "-o", "wide")
	require.NoError(t, err)
	assert.Regexp(t, `team-a +a +- +blue +Waiting +1 +yes +- `, out)
	assert.Regexp(t, `team-b +c +- +- +Waiting +1 +- +~1 -/\+1 .* +-/\+ aws_eks_cluster.this \(cannot_update\), ~ module.vpc`, out)
	assert.Contains(t, out, "\n  captctl template plan team-a/vpc\n  captctl template approve team-a/vpc --revision "+s.two+" --allow-destroy\n")
	out, _, err = s.run(t, "template", "status", "team-a/vpc", "-o", "json")
	require.NoError(t, err)
	var status template.Status
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	require.Len(t, status.Plans, 2)
	assert.Equal(t, "~1 -/+1", status.Plans[0].Summary)
}

func TestApproveReleasesADestroyOnlyIfItIsAllowed(t *testing.T) {
	s := newPlans()
	approve := []string{"template", "approve", "team-a/vpc", "--revision", s.two, "--yes"}
	out, _, err := s.run(t, approve...)
	require.EqualError(t, err, "WorkspaceTemplate team-a/vpc: Terraform would replace or delete resources of 1 user, or may do so: see the list. To approve that as well, add --allow-destroy")
	assert.Contains(t, out, "Plans: ~2 -/+1 in total for 2 users, no plan yet for 1 user\n\nteam-b/c: ~1 -/+1\n  -/+ aws_eks_cluster.this (cannot_update)\n\n")
	assert.NotContains(t, out, "aws_vpc")
	assert.Equal(t, s.one, s.stored(t).Annotations[naming.ApproveAnnotation])

	s.terminal, s.answer = true, "yes\n"
	_, errOut, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2", "--allow-destroy")
	require.NoError(t, err)
	assert.Contains(t, errOut, "Do you want to approve revision 2 ("+s.two[:12]+"), which may replace or delete resources of 1 user, of WorkspaceTemplate team-a/vpc in ")
	for _, annotation := range []string{naming.ApproveAnnotation, naming.ApproveDestroyAnnotation} {
		assert.Equal(t, s.two, s.stored(t).Annotations[annotation])
	}
	s.objects = []client.Object{s.stored(t)}
	out, _, err = s.run(t, approve...)
	require.NoError(t, err)
	assert.Contains(t, out, "is approved already")
}

// The revision was approved with kubectl, or before the plans were made.
func TestApproveAddsTheApprovalOfADestroy(t *testing.T) {
	s := newPlans()
	s.template.Annotations[naming.ApproveAnnotation] = s.two
	_, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2", "--yes")
	require.ErrorContains(t, err, "add --allow-destroy")
	_, _, err = s.run(t, "template", "approve", "team-a/vpc", "--revision", "2", "--yes", "--allow-destroy")
	require.NoError(t, err)
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ApproveDestroyAnnotation])
}

func TestApproveOfWhatIsNotShownNeedsAllowDestroy(t *testing.T) {
	s := newPlans()
	s.c.Status.Preview = infrav1.RevisionPreview{}
	s.template.Status.Rollout.PreviewedDestroy = ptr.To[int32](2)
	approve := []string{"template", "approve", "team-a/vpc", "--revision", s.two, "--yes"}
	out, _, err := s.run(t, approve...)
	require.ErrorContains(t, err, "resources of 2 users")
	assert.Contains(t, out, "Terraform would replace or delete resources of 2 users that you may not read\n")

	for _, policy := range []infrav1.RolloutApproval{infrav1.RolloutApprovalAlways, infrav1.RolloutApprovalOnDestroy} {
		s = newPlans()
		s.template.Spec.Rollout.Approval, s.c.Status.Preview.Changes = policy, nil
		out, _, err = s.run(t, approve...)
		assert.Contains(t, out, "team-b/c: ?\n  what changes is not known: the plan was not read\n")
		if policy == infrav1.RolloutApprovalAlways {
			require.NoError(t, err, "as for the manager, an approval covers what is not known")
			continue
		}
		require.ErrorContains(t, err, "add --allow-destroy")
	}

	s = newPlans()
	s.c.Status.Preview = s.b.Status.Preview
	out, _, err = s.run(t, append(approve, "--allow-destroy")...)
	require.NoError(t, err)
	assert.Contains(t, out, "No plan needs --allow-destroy: it has no effect\n")
	assert.NotContains(t, s.stored(t).Annotations, naming.ApproveDestroyAnnotation)
}

func TestApproveNamesUsersThatKeepTheirRevision(t *testing.T) {
	s := newPlans()
	s.template.Spec.Rollout.NeverDestroy = nil
	out, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", s.two, "--yes", "--allow-destroy")
	require.NoError(t, err)
	assert.Contains(t, out, "\nNot released by any approval, because of spec.rollout.neverDestroy: team-b/c\n")
}

func TestApproveAChangeThatDestroys(t *testing.T) {
	env := waiting(contentB)
	apply := env.objects[0].(*infrav1.WorkspaceTemplateApply) //nolint:forcetypeassert // It is one.
	apply.Status.Change.Preview = planned(contentA, replacedCluster)
	arguments := []string{"template", "approve-change", "team-a/demo", "--revision", contentB, "--yes"}
	out, _, err := env.run(t, arguments...)
	require.EqualError(t, err, "WorkspaceTemplateApply team-a/demo: Terraform would replace or delete resources of 1 user, or may do so: see the list. To approve that as well, add --allow-destroy")
	assert.Contains(t, out, "Plan: -/+1\n\nteam-a/demo: -/+1\n  -/+ aws_eks_cluster.this (cannot_update)\n")
	assert.Equal(t, contentA, approvedContent(t, env))
	_, _, err = env.run(t, append(arguments, "--allow-destroy")...)
	require.NoError(t, err)
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKeyFromObject(apply), apply))
	assert.Equal(t, contentB, apply.Annotations[naming.ApproveAnnotation])
	assert.Equal(t, contentB, apply.Annotations[naming.ApproveDestroyAnnotation])
}

func TestApproveAChangeWithoutAPlan(t *testing.T) {
	s := newPlans()
	s.b.Status.Change.Revision = contentB
	out, _, err := s.run(t, "template", "approve-change", "team-a/b", "--revision", contentB, "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "Terraform has not planned it yet: the approval takes effect when it has.")
	of := func(annotation string) string {
		require.NoError(t, s.connected.Get(t.Context(), client.ObjectKeyFromObject(s.b), s.b))
		return s.b.Annotations[annotation]
	}
	assert.Equal(t, []string{contentB, ""}, []string{of(naming.ApproveAnnotation), of(naming.ApproveDestroyAnnotation)})
	_, _, err = s.run(t, "template", "approve-change", "team-a/b", "--revision", contentB, "--yes", "--allow-destroy")
	require.NoError(t, err)
	assert.Equal(t, contentB, of(naming.ApproveDestroyAnnotation), "it is applied without a plan if none is possible")
}

func TestApproveAChangeWhosePlanFails(t *testing.T) {
	env := waiting(contentB)                                  // The template cannot be read: what is not known counts as destructive.
	apply := env.objects[0].(*infrav1.WorkspaceTemplateApply) //nolint:forcetypeassert // It is one.
	apply.Status.Change.Preview = infrav1.RevisionPreview{Result: infrav1.PreviewFailed, Message: "Unsupported argument"}
	out, _, err := env.run(t, "template", "approve-change", "team-a/demo", "--revision", contentB, "--yes")
	require.ErrorContains(t, err, "To approve that as well, add --allow-destroy")
	assert.Contains(t, out, "team-a/demo: failed\n  Unsupported argument\n")
}

func TestTheNextStepOfAChangeThatDestroys(t *testing.T) {
	c := fleets.Ready("demo", fleetNow)
	builder.NotUpToDate(infrav1.WaitingForApprovalReason, "Terraform would replace or delete resources. To approve that, set the annotations capt.cluster.x-k8s.io/approve and capt.cluster.x-k8s.io/approve-destroy to b")(c.VPC)
	c.VPC.Status.Change = infrav1.HeldChange{Revision: contentB, Preview: planned("", replacedCluster)}
	out, _, err := (&environment{objects: fleets.Objects([]*fleets.Cluster{c})}).run(t, "describe", "team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "\n  captctl template approve-change team-a/demo-vpc --allow-destroy\n")
}

func TestDescribeWarnsOfAPlanThatIsNeverEmpty(t *testing.T) {
	c := fleets.Ready("demo", fleetNow)
	conditions.Set(c.VPC, metav1.Condition{Type: infrav1.PlanNeverEmptyCondition, Status: metav1.ConditionTrue, Reason: infrav1.PlanHasChangesReason, Message: "Terraform would update aws_vpc.this"})
	out, _, err := (&environment{objects: fleets.Objects([]*fleets.Cluster{c})}).run(t, "describe", "team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "Terraform would update aws_vpc.this")
	assert.Regexp(t, `State: +Ready`, out)
}

func TestDescribeAndReportShowPlansOfWhatWaits(t *testing.T) {
	c := fleets.Ready("demo", fleetNow)
	c.VPC.Status.Change = infrav1.HeldChange{Revision: contentB, Preview: planned("", replacedCluster, updatedVPC)}
	env := &environment{objects: fleets.Objects([]*fleets.Cluster{c})}
	out, _, err := env.run(t, "describe", "team-a/demo")
	require.NoError(t, err)
	assert.Regexp(t, `WAITING +CONTENT +PLAN +DESTROYS\ndemo-vpc +change bbbbbbbbbbbb +~1 -/\+1 +-/\+ aws_eks_cluster.this \(cannot_update\)\n`, out)
	assert.Contains(t, report(t, env).text(), "Plans of what waits Object Content Plan Destroys demo-vpc change bbbbbbbbbbbb ~1 -/+1 -/+ aws_eks_cluster.this (cannot_update)")
}
