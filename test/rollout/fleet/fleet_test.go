// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet_test rolls edits out to a fleet: one that destroys and one that is previewed, while the manager that leads is killed, and one with an
// empty plan. It also has the tests of managers with other flags.
package fleet_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// clusters is the size of the fleet.
const clusters = 200

// leaseNamespace is where the installation of shared control planes lets a manager hold its Lease.
const leaseNamespace = "elsewhere"

// shared is a control plane whose own manager only serves webhooks: it has no rights to hold a Lease in that namespace.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) {
		o.ManagerArgs = append(o.ManagerArgs, "--leader-elect", "--leader-elect-namespace=nowhere")
		o.ProviderArgs = append(o.ProviderArgs, "--poll=1h") // What was changed outside of Terraform stays.
	}))
}

// destroying has no resource, so that its apply destroys the VPC.
const destroying = `
variable "vpc_name" { type = string }
output "vpc_id" { value = "none of ${var.vpc_name}" }
`

// elect are the arguments of a manager that may lead.
func elect() []string {
	return []string{"--leader-elect", "--leader-elect-namespace=" + leaseNamespace}
}

// environment is a namespace with the fleet.
type environment struct {
	*fixture.Environment
	// policy has the fields of spec.rollout besides the strategy.
	policy string
}

// edit changes the module of the template, and returns the hash of the new revision.
func (env *environment) edit(module string) string {
	env.Helper()
	env.User(strings.Replace(env.VPCTemplate(module), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+env.policy+"}\n", 1))
	return rollout.HashOf(env.template())
}

func (env *environment) template() *infrav1.WorkspaceTemplate {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.True(env, env.Exists(template, fixture.VPCTemplate))
	return template
}

// await waits until the rollout of the current content has a stage, and returns its status.
func (env *environment) await(stage infrav1.RolloutStage) infrav1.WorkspaceTemplateRolloutStatus {
	env.Helper()
	var s infrav1.WorkspaceTemplateRolloutStatus
	env.Eventually(func() string {
		template := env.template()
		s = template.Status.Rollout
		return fixture.Unless(s.Revision == rollout.HashOf(template) && s.Stage == stage, "the rollout of %s is at stage %s", s.Revision, s.Stage)
	})
	return s
}

// revisions counts the users by the revision that is assigned to them.
func (env *environment) revisions() map[string]int {
	env.Helper()
	var applies infrav1.WorkspaceTemplateApplyList
	require.NoError(env, env.List(env.Context(), &applies, client.InNamespace(env.Namespace)))
	found := map[string]int{}
	for i := range applies.Items {
		found[applies.Items[i].Spec.TemplateRevision]++
	}
	return found
}

// create creates the fleet, and waits until all of it is Ready. It returns the names of the users of the template.
func (env *environment) create(count int) []string {
	env.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("vpc-%03d", i)
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, names[i], fmt.Sprintf("variables: {vpc_name: %s}", names[i])))
	}
	for _, name := range names {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
	env.await(infrav1.RolloutComplete)
	require.Len(env, env.Cloud(), count)
	return names
}

// leader waits until a manager leads that is not the one before, and returns its identity.
func (env *environment) leader(before string) (identity string) {
	env.Helper()
	lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: leaseNamespace, Name: naming.LeaderElectionLease("", "")}
	fixture.EventuallyObject(env.T, time.Second, env.Client, key, lease, func() string {
		identity = ptr.Deref(lease.Spec.HolderIdentity, "")
		return fixture.Unless(identity != "" && identity != before, "Lease %s is held by %q", key, identity)
	})
	return identity
}

// applies is how often Terraform was run to change something for each cluster but one, by name of the Workspace, previews included.
func (env *environment) applies(canary string) map[string]int {
	env.Helper()
	journal, err := env.Scripts.Journal()
	require.NoError(env, err)
	found := map[string]int{}
	for _, entry := range journal {
		if entry.Operation == scripted.Apply && strings.Contains(entry.ExternalName, env.Namespace) && entry.Name != env.WorkspaceKey(canary).Name {
			found[entry.Name]++
		}
	}
	return found
}

func TestAPoisonedEditDestroysNothingButTheCanaryAlsoWhenTheLeaderIsKilled(t *testing.T) {
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced), "maxConcurrent: 20, canary: {count: 1, soakSeconds: 3600}"}
	leader := shared.StartInstance(t, "first", elect()...)
	led := env.leader("")
	shared.StartInstance(t, "second", elect()...)

	first := env.edit(fixture.VPCModule)
	canary := env.create(clusters)[0]
	untouched := env.applies(canary)
	require.Len(t, untouched, clusters-1)

	poisoned := env.edit(destroying)
	env.Eventually(func() string {
		return fixture.Unless(env.revisions()[poisoned] > 0, "the canary is not assigned the revision")
	})
	leader.Kill()
	env.leader(led)
	status := env.await(infrav1.RolloutSoaking)
	assert.Equal(t, []int32{1, clusters - 1}, []int32{*status.Current, *status.Waiting})
	assert.Equal(t, map[string]int{poisoned: 1, first: clusters - 1}, env.revisions())
	assert.Len(t, env.Cloud(), clusters-1, "the canary is destroyed")
	assert.Equal(t, untouched, env.applies(canary))

	require.Equal(t, first, env.edit(fixture.VPCModule), "one edit reverts it")
	env.await(infrav1.RolloutComplete)
	assert.Equal(t, map[string]int{first: clusters}, env.revisions())
	env.Await(&infrav1.WorkspaceTemplateApply{}, canary, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	assert.Len(t, env.Cloud(), clusters)
	assert.Equal(t, untouched, env.applies(canary), "the others were never touched")
}

// For scripted Terraform, each edit of the module is a change. Other arguments of the plan are not.
func TestWithoutAnApprovalOnlyAnEditWithAnEmptyPlanReachesAFleet(t *testing.T) {
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced), "preview: Always, approval: OnChanges, canary: {count: 1, soakSeconds: 3600}"}
	shared.StartInstance(t, "only", elect()...)
	env.edit(fixture.VPCModule)
	env.create(clusters)
	untouched := env.applies("")
	require.Len(t, untouched, clusters)

	began := time.Now()
	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"template":{"spec":{"forProvider":{"planArgs":["-parallelism=5"]}}}}}`)
	revision := rollout.HashOf(env.template())
	status := env.await(infrav1.RolloutComplete)
	t.Logf("%d previews took %v", clusters, time.Since(began).Round(time.Second))
	assert.Equal(t, []int32{clusters, 0, 0}, []int32{*status.PreviewedEmpty, *status.PreviewedChanges, *status.PreviewFailed})
	assert.Equal(t, map[string]int{revision: clusters}, env.revisions())
	assert.Equal(t, untouched, env.applies(""), "nothing was applied")
	env.Eventually(func() string {
		left := fixture.List(env, env.Client, terraform.ScopeNamespaced.GroupVersionKind(), client.InNamespace(env.Namespace))
		return fixture.Unless(len(left) == clusters, "%d Workspaces exist, with previews", len(left))
	})
	assert.Len(t, env.Cloud(), clusters)

	began = time.Now()
	poisoned := env.edit(destroying)
	status = env.await(infrav1.RolloutWaitingForApproval)
	t.Logf("%d previews with changes took %v", clusters, time.Since(began).Round(time.Second))
	assert.Equal(t, []int32{0, clusters, 0}, []int32{*status.PreviewedEmpty, *status.PreviewedChanges, *status.PreviewFailed})
	assert.Zero(t, env.revisions()[poisoned], "without an approval, no cluster is touched")
	assert.Equal(t, untouched, env.applies(""))
	assert.Len(t, env.Cloud(), clusters)
}

func TestTheDefaultPolicyOfTheInstallation(t *testing.T) {
	env := &environment{Environment: shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	shared.StartInstance(t, "default", append(elect(), "--default-rollout={strategy: Staged, preview: Always, approval: OnChanges}")...)
	template := env.Template(fixture.VPCTemplate, fixture.SizedVPCModule(), "vpc_name", "size")
	env.User(template, fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: a, size: small}"))
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)

	env.User(env.VPCTemplate(destroying))
	status := env.await(infrav1.RolloutWaitingForApproval)
	assert.Equal(t, infrav1.RolloutApprovalOnChanges, status.DefaultPolicy.Approval)
	assert.Empty(t, env.template().Spec.Rollout)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.RenderedCondition, metav1.ConditionTrue, infrav1.RevisionHeldReason)
	assert.Len(t, env.Cloud(), 1)
	name := env.Namespace + "/" + fixture.VPCTemplate
	assert.Contains(t, env.Captctl("template", "status", name), "captctl template approve "+name)

	env.User(template) // It is reverted.
	env.await(infrav1.RolloutComplete)
	env.Edit(&infrav1.WorkspaceTemplateApply{}, "a", `{"spec":{"variables":{"size":"large"}}}`)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason)
	env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"rollout":{"strategy":"Immediate"}}}`)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
}

// The previews that the new leader finds count towards its limit.
func TestPreviewsContinueWhenTheLeaderIsKilled(t *testing.T) {
	const users = 20
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			env := &environment{shared.NewEnvironment(t, scope), "preview: Always, approval: OnChanges, maxConcurrent: 2"}
			before := env.holder()
			leader := shared.StartInstance(t, "first", elect()...)
			led := env.leader(before)
			shared.StartInstance(t, "second", elect()...)
			env.edit(fixture.VPCModule)
			names := env.create(users)
			untouched, cloud := env.applies(""), env.Cloud()
			for _, name := range names {
				key := fixture.PreviewKey(t, env, scope, types.NamespacedName{Namespace: env.Namespace, Name: name})
				require.NoError(t, env.Scripts.SetScript(key, scripted.Script{Plan: scripted.Step{Delay: time.Second}}))
			}
			count := env.countPreviews()

			env.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"template":{"spec":{"forProvider":{"planArgs":["-parallelism=5"]}}}}}`)
			env.Eventually(func() string {
				s := env.template().Status.Rollout
				return fixture.Unless(s.Stage == infrav1.RolloutPreviewing && ptr.Deref(s.PreviewedEmpty, 0) > 2 && count.now() > 2, "the rollout is at %+v, with %d previews", s, count.now())
			})
			leader.Kill()
			env.leader(led)
			status := env.await(infrav1.RolloutComplete)
			assert.Equal(t, []int32{users, 0, 0}, []int32{*status.PreviewedEmpty, *status.PreviewedChanges, *status.PreviewFailed})
			env.Eventually(func() string { return fixture.Unless(count.now() == 0, "%d previews are left", count.now()) })
			assert.LessOrEqual(t, count.most(), previews.MaxPreviews)
			assert.Equal(t, untouched, env.applies(""), "nothing was applied")
			assert.ElementsMatch(t, cloud, env.Cloud())
		})
	}
}

// holder is the identity of the manager that led last.
func (env *environment) holder() string {
	env.Helper()
	lease := &coordinationv1.Lease{}
	err := env.Get(env.Context(), client.ObjectKey{Namespace: leaseNamespace, Name: naming.LeaderElectionLease("", "")}, lease)
	require.NoError(env, client.IgnoreNotFound(err))
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// previewCount is how many previews of the environment exist.
type previewCount struct {
	lock     sync.Mutex
	existing map[types.UID]bool
	max      int
}

func (c *previewCount) now() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.existing)
}

func (c *previewCount) most() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.max
}

// countPreviews counts the previews by a watch, until the test ends. None exists yet.
func (env *environment) countPreviews() *previewCount {
	env.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(env.Scope.GroupVersionKind().GroupVersion().WithKind("WorkspaceList"))
	watcher, err := env.API.Watch(env.Context(), list, client.InNamespace(fixture.ScopeNamespace(env.Scope, env.Namespace)), client.HasLabels{naming.PreviewLabel})
	require.NoError(env, err)
	count := &previewCount{existing: map[types.UID]bool{}}
	go func() {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || !strings.HasPrefix(object.GetAnnotations()[naming.PreviewOfAnnotation], env.Namespace+"/") {
				continue
			}
			count.lock.Lock()
			if event.Type == watch.Deleted {
				delete(count.existing, object.GetUID())
			} else {
				count.existing[object.GetUID()] = true
			}
			count.max = max(count.max, len(count.existing))
			count.lock.Unlock()
		}
	}()
	return count
}
