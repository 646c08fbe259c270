// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// destroying has no resource, so that its apply destroys the VPC.
const destroying = `
variable "vpc_name" { type = string }
output "vpc_id" { value = "none of ${var.vpc_name}" }
`

// changed replaces the text in the resource, so that Terraform has something to apply.
var changed = strings.Replace(fixture.VPCModule, "input = var.vpc_name", `input = "${var.vpc_name} 2"`, 1)

func TestAnEditThatDestroysReachesOnlyTheCanary(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "canary: {count: 1, soakSeconds: 3600}")
	env.use("a", "b", "c")
	env.awaitReady("a", "b", "c")
	first := env.awaitStage(infrav1.RolloutComplete)
	require.Len(t, env.Cloud(), 3)
	applies := func(name string) int { return len(env.Operations(name, scripted.Apply)) }
	before := []int{applies("b"), applies("c")}

	env.edit(destroying)
	env.awaitStage(infrav1.RolloutSoaking)
	env.never(aWhile, func() bool { return len(env.Cloud()) < 2 })
	assert.Len(t, env.Cloud(), 2, "the canary is destroyed")
	assert.Equal(t, []string{first.Revision, first.Revision}, []string{env.revision("b"), env.revision("c")})

	env.edit(fixture.VPCModule) // One command reverts it.
	env.awaitStage(infrav1.RolloutComplete)
	assert.Len(t, env.Cloud(), 3)
	assert.Equal(t, first.Revision, env.revision("a"))
	assert.Equal(t, before, []int{applies("b"), applies("c")}, "the others were never touched")
}

func TestAFailureStopsTheRolloutUntilItIsResumed(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "maxConcurrent: 1")
	env.use("a", "b")
	env.awaitReady("a", "b")
	old := env.awaitStage(infrav1.RolloutComplete).Revision

	env.SetScript("a", scripted.Script{Plan: scripted.Step{Stderr: "\nError: Unsupported argument\n"}})
	revision := env.edit(changed)
	env.awaitReason(infrav1.RolloutStoppedReason, "failed: "+env.Namespace+"/a", naming.ResumeAnnotation+" to "+revision)
	env.never(aWhile, func() bool { return env.revision("b") != old })

	env.annotate(naming.ResumeAnnotation, old) // The resume of another revision.
	env.never(aWhile, func() bool { return env.revision("b") != old })
	env.annotate(naming.ResumeAnnotation, revision)
	env.Eventually(func() string { return fixture.Unless(env.revision("b") == revision, "b does not follow") })
	env.awaitReady("b")

	env.SetScript("a", scripted.Script{})
	env.awaitReady("a")
	env.Eventually(func() string {
		s := env.template().Status.Rollout
		return fixture.Unless(s.Stage == infrav1.RolloutComplete && *s.Current == 2 && *s.Failed == 0, "%+v", s)
	})
}

func TestAContentThatIsNotApprovedReachesNoCluster(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "approval: Always")
	env.use("a")
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForRolloutReason)
	require.Nil(t, env.Workspace("a"))
	env.annotate(naming.ApproveAnnotation, env.awaitStage(infrav1.RolloutWaitingForApproval).Revision)
	env.awaitReady("a")
	first := env.awaitStage(infrav1.RolloutComplete)
	assert.NotEmpty(t, first.ApprovedBy)
	applied := len(env.Operations("a", scripted.Apply))

	revision := env.edit(destroying)
	env.awaitReason(infrav1.RolloutWaitingReason, naming.ApproveAnnotation+" to "+revision)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.RenderedCondition, metav1.ConditionTrue, infrav1.RevisionHeldReason)
	env.use("new")
	env.awaitReady("new")
	assert.Equal(t, first.Revision, env.revision("new"), "a new user gets the content that was approved")
	env.never(aWhile, func() bool { return env.revision("a") != first.Revision || len(env.Cloud()) != 2 })
	assert.Len(t, env.Operations("a", scripted.Apply), applied)

	// For captctl, what the rollout holds back is not a change that the manager would write.
	assert.NotContains(t, env.Captctl("migrate", "plan", "-n", env.Namespace, "--out", filepath.Join(t.TempDir(), "plan.json")), planner.ReasonPendingChange)
	bypass := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"templateRevision":"`+revision+`"}}`))
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "a"}}
	require.ErrorContains(t, env.Patch(t.Context(), apply, bypass), "is assigned by CAPT")

	env.annotate(naming.ApproveAnnotation, revision)
	env.awaitStage(infrav1.RolloutComplete)
	assert.Empty(t, env.Cloud(), "it is approved")
}

func TestCaptctlApprovesPausesAndRollsBack(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "approval: Always, maxConcurrent: 1")
	env.use("a", "b")
	name := env.Namespace + "/" + fixture.VPCTemplate
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	assert.Contains(t, env.Captctl("template", "status", name), "captctl template approve "+name+" --revision")
	env.Captctl("template", "approve", name, "--revision=1", "--yes")
	env.awaitReady("a", "b")
	first := env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, sandbox.AdminUser, first.ApprovedBy)

	revision := env.edit(changed)
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.Captctl("template", "pause", name)
	env.Captctl("template", "approve", name, "--revision="+revision, "--yes")
	env.awaitReason(infrav1.RolloutWaitingReason, "paused")
	assert.Equal(t, first.Revision, env.revision("a"))
	env.Captctl("template", "resume", name)
	env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, []string{revision, revision}, []string{env.revision("a"), env.revision("b")})

	env.Captctl("template", "rollback", name, "--yes")
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.Captctl("template", "approve", name, "--revision="+first.Revision, "--yes")
	env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, []string{first.Revision, first.Revision}, []string{env.revision("a"), env.revision("b")})
	status := env.Captctl("template", "status", name)
	assert.Contains(t, status, "Stage:     Complete")
	assert.Contains(t, status, "3          "+first.Revision[:12], "its number is new")
}

func TestAFleetFollowsInStages(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "maxConcurrent: 2, canary: {selector: {matchLabels: {canary: 'yes'}}}")
	clusters := []string{"one", "two", "three", "four", "five", "six"}
	for _, name := range clusters {
		env.User(fixture.ClusterWithoutControlPlane(name), fixture.CAPTCluster(name))
	}
	for _, name := range clusters {
		env.Await(&infrav1.CAPTCluster{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
		env.SetScript(naming.VPCWorkspaceTemplateApply(name), scripted.Script{Apply: scripted.Step{Delay: time.Second}})
	}
	env.awaitStage(infrav1.RolloutComplete)
	edited := time.Now()
	env.edit(changed)
	env.awaitReason(infrav1.RolloutWaitingReason, "matches no Cluster")
	env.Edit(&clusterv1.Cluster{}, "three", `{"metadata":{"labels":{"canary":"yes"}}}`)
	env.awaitStage(infrav1.RolloutComplete)

	var work []scripted.Entry
	for _, name := range clusters {
		applies := slices.DeleteFunc(env.Operations(naming.VPCWorkspaceTemplateApply(name), scripted.Apply), func(e scripted.Entry) bool { return e.Start.Before(edited) })
		require.NotEmpty(t, applies, "%s was not applied", name)
		work = append(work, applies...)
	}
	slices.SortFunc(work, func(a, b scripted.Entry) int { return a.Start.Compare(b.Start) })
	assert.Equal(t, env.WorkspaceKey(naming.VPCWorkspaceTemplateApply("three")).Name, work[0].Name)
	for i, entry := range work {
		running := slices.DeleteFunc(slices.Clone(work[:i]), func(e scripted.Entry) bool { return !e.End.After(entry.Start) })
		assert.LessOrEqual(t, len(running)+1, 2, "%s began beside %v", entry.Name, running)
		assert.False(t, i > 0 && entry.Start.Before(work[0].End), "%s began before the canary was done", entry.Name)
	}
	env.requireNoWrites()
}

// requireNoWrites requires that a completed rollout writes nothing.
func (env *environment) requireNoWrites() {
	env.Helper()
	versions := func() map[string]string {
		found := map[string]string{}
		for _, kind := range []schema.GroupVersionKind{
			infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
			appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
		} {
			for _, object := range fixture.List(env, env.Client, kind, client.InNamespace(env.Namespace)) {
				found[kind.Kind+" "+object.GetName()] = object.GetResourceVersion()
			}
		}
		return found
	}
	var before map[string]string
	since := time.Now()
	env.Eventually(func() string { // What the last apply reports is written a moment later.
		if now := versions(); !maps.Equal(now, before) {
			before, since = now, time.Now()
		}
		return fixture.Unless(time.Since(since) >= aWhile, "an object was written a moment ago")
	})
	require.Len(env, before, 1+6+2)
	env.never(2*aWhile, func() bool { return !maps.Equal(before, versions()) })
}
