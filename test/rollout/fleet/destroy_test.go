// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// replaced are the clusters that an edit replaces: it gives them another name.
var replaced = []string{"vpc-003", "vpc-077", "vpc-199"}

// concurrent is how many clusters Terraform updates at the same time.
const concurrent = 20

// clusterModule is a module of an EKS cluster, whose name Terraform cannot change in place.
func clusterModule(name, version string) string {
	return fmt.Sprintf(`
variable "vpc_name" { type = string }
resource "aws_eks_cluster" "this" {
  name    = %s
  version = %q
}
output "cluster" { value = aws_eks_cluster.this.name }
`, name, version)
}

// annotate annotates the template, as with GitOps.
func (env *environment) annotate(annotation, value string) {
	env.Helper()
	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
}

// aWhile is how long nothing must happen to clusters that wait.
const aWhile = 3 * time.Second

// awaitHeld waits until a rollout only waits for the replaced clusters, with a message that has all parts, and requires that these keep their revision,
// and that all others have got the new one, a few at a time.
func (env *environment) awaitHeld(old, revision string, parts ...string) {
	env.Helper()
	env.Eventually(func() string {
		s := env.template().Status.Rollout
		require.LessOrEqual(env, ptr.Deref(s.Updating, 0), int32(concurrent))
		if missing := env.MissingCondition(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.RollingOutCondition, "True", "", parts...); missing != "" {
			return missing
		}
		return fixture.Unless(s.Stage == infrav1.RolloutWaitingForApproval, "the rollout is at stage %s", s.Stage)
	})
	time.Sleep(aWhile)
	assert.Equal(env, map[string]int{old: len(replaced), revision: clusters - len(replaced)}, env.revisions())
	for _, name := range replaced {
		apply := &infrav1.WorkspaceTemplateApply{}
		require.True(env, env.Exists(apply, name))
		assert.Equal(env, old, apply.Spec.TemplateRevision, name)
	}
	assert.Equal(env, map[string]int{"1.34": len(replaced), "1.35": clusters - len(replaced)}, env.arguments("version"))
}

// arguments counts the clusters by the argument with which Terraform has created them.
func (env *environment) arguments(name string) map[string]int {
	env.Helper()
	states, err := env.Scripts.States()
	require.NoError(env, err)
	found := map[string]int{}
	for _, state := range states {
		for _, resource := range state.Resources {
			if strings.Contains(resource.ExternalName, env.Namespace) {
				var argument struct{ Value string }
				require.NoError(env, json.Unmarshal([]byte(resource.Arguments[name]), &argument))
				found[argument.Value]++
			}
		}
	}
	return found
}

// An edit changes 200 clusters in place, and replaces three of them.
func TestOnlyTheClustersThatAnEditReplacesWaitForAnApproval(t *testing.T) {
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced), "preview: Always, approval: OnDestroy, neverDestroy: [None], canary: {count: 1}, maxConcurrent: " + strconv.Itoa(concurrent)}
	shared.StartInstance(t, "only", elect()...)
	old := env.edit(clusterModule("var.vpc_name", "1.34"))
	env.create(clusters)
	name := env.Namespace + "/" + fixture.VPCTemplate
	began := time.Now()
	names := fmt.Sprintf(`["%s"]`, strings.Join(replaced, `", "`))
	revision := env.edit(clusterModule(fmt.Sprintf("contains(%s, var.vpc_name) ? upper(var.vpc_name) : var.vpc_name", names), "1.35"))
	env.awaitHeld(old, revision, "replace or delete resources", replaced[0], replaced[1], replaced[2], naming.ApproveDestroyAnnotation)
	t.Logf("%d previews and %d updates took %v", clusters, clusters-len(replaced), time.Since(began).Round(time.Second))

	plan := &template.Plan{}
	require.NoError(t, json.Unmarshal([]byte(env.Captctl("template", "plan", name, "-o", "json")), plan))
	assert.True(t, plan.Destroys)
	var planned []string
	for _, user := range plan.Users {
		planned = append(planned, user.Name)
		assert.Equal(t, []infrav1.PlannedResource{{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: infrav1.PlanReplace, Reason: "cannot_update"}}, user.Preview.Changes.Resources)
	}
	assert.Equal(t, replaced, planned)
	text := env.Captctl("template", "plan", name)
	for _, part := range append([]string{"-/+ aws_eks_cluster.this (cannot_update)"}, replaced...) {
		assert.Contains(t, text, part)
	}

	env.annotate(naming.ApproveAnnotation, revision)
	env.Eventually(func() string {
		return fixture.Unless(env.template().Status.Rollout.ApprovedBy != "", "the approval is not seen")
	})
	env.awaitHeld(old, revision, naming.ApproveDestroyAnnotation)

	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"rollout":{"neverDestroy":null}}}`)
	env.Captctl("template", "approve", name, "--revision", revision, "--yes", "--allow-destroy")
	env.awaitHeld(old, revision, "neverDestroy", "aws_eks_cluster")

	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"rollout":{"neverDestroy":["aws_vpc"]}}}`)
	env.await(infrav1.RolloutComplete)
	assert.Equal(t, map[string]int{revision: clusters}, env.revisions())
	assert.Equal(t, map[string]int{"1.35": clusters}, env.arguments("version"))
	for _, name := range replaced {
		assert.Equal(t, 1, env.arguments("name")[strings.ToUpper(name)], name)
	}
	env.findsDrift("vpc-001", "vpc-050", "vpc-077", "vpc-128", "vpc-199")
}

// findsDrift changes resources of some clusters outside of Terraform, and requires that captctl plan reports these and no others, and that nothing
// is left of it.
func (env *environment) findsDrift(drifted ...string) {
	env.Helper()
	for _, name := range drifted {
		env.SetScript(name, scripted.Script{Drift: "changed by hand"})
	}
	count, began := env.countPreviews(), time.Now()
	document := &request.Document{}
	require.NoError(env, json.Unmarshal([]byte(env.Captctl("plan", "--all", "-n", env.Namespace, "-o", "json")), document))
	env.Logf("%d plans took %v", clusters, time.Since(began).Round(time.Second))
	assert.Equal(env, []int{clusters, len(drifted), 0, 0, 0}, []int{document.Total, document.Changed, document.Unknown, document.Failed, document.Unavailable})
	var changed []string
	for _, plan := range document.Plans {
		if changes := plan.Preview.Changes; plan.Preview.Result != infrav1.PreviewEmpty {
			changed = append(changed, plan.Name)
			assert.Equal(env, infrav1.PlannedResource{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: infrav1.PlanUpdate}, changes.Resources[0])
			assert.Equal(env, int32(1), changes.Drifted, plan.Name)
		}
	}
	assert.Equal(env, drifted, changed)

	env.Eventually(func() string {
		writes := fixture.AuditEvents(env, env.Sandbox, audit.Filter{Verbs: audit.Writes, Namespace: env.Namespace, Since: time.Now().Add(-aWhile)})
		return fixture.Unless(len(writes) == 0, "%d writes a moment ago, the first one is %v", len(writes), writes)
	})
	assert.Zero(env, count.now(), "previews are left")
	assert.LessOrEqual(env, count.most(), previews.MaxPreviews)
}
