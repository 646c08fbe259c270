// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/test/builder"
)

// initialized makes a control plane that runs a version.
func initialized(options ...builder.Option) *controlplanev1.CAPTControlPlane {
	return builder.CAPTControlPlane("demo", append(options, builder.WithApplyRef("demo-eks"), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Initialization.ControlPlaneInitialized, c.Status.Version = ptr.To(true), c.Spec.Version
	}))...)
}

// eksApply makes the WorkspaceTemplateApply of that control plane.
func eksApply() *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply("demo-eks", builder.WithWorkspaceName("demo-eks"), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": builder.Region}))
}

const arn = "arn:aws:eks:eu-west-1:123456789012:nodegroup/demo/workers/1"

// known are nodes: "a" is a ready one, "a!" one that is not.
func known(names ...string) nodes.Nodes {
	var list []nodes.Node
	for _, name := range names {
		name, unready := strings.CutSuffix(name, "!")
		list = append(list, nodes.Node{Name: name, ProviderID: "aws:///" + name, Version: "v1.31.1", Ready: !unready})
	}
	return nodes.Nodes{List: list}
}

// ofPool are the facts of a pool with three nodes, before its WorkspaceTemplateApply exists.
func ofPool(changes ...func(*Facts)) *Facts {
	cluster := builder.Cluster("demo")
	f := &Facts{
		Observed: owner.Observed{Cluster: cluster, Now: builder.Created.Add(time.Hour)}, MachinePool: builder.MachinePool("workers", builder.WithReplicas(3)),
		ControlPlane: desired.NewControlPlane(initialized(), cluster, builder.CAPTCluster("demo")), WatchNodes: true, Nodes: nodes.Nodes{Problem: "not read", Pending: true},
	}
	f.ControlPlane.Apply = eksApply()
	for _, change := range changes {
		change(f)
	}
	return f
}

// applied gives the pool the WorkspaceTemplateApply that it wants.
func applied(options ...builder.Option) func(*Facts) {
	return func(f *Facts) {
		p, err := plan(builder.CAPTMachinePool("workers"), f)
		if err != nil {
			panic(err)
		}
		apply := builder.WorkspaceTemplateApply("workers-nodegroup-apply")
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.Desired.Object, apply); err != nil {
			panic(err)
		}
		apply.Generation = 1
		for _, option := range options {
			option(apply)
		}
		f.Apply.Live = apply
	}
}

// made are the facts of a node group that exists, with three nodes.
func made() func(*Facts) {
	return func(f *Facts) {
		applied(builder.UpToDate(map[string]string{"node_group_arn": arn, "node_group_version": "1.31", "node_group_size": "7"}))(f)
		f.Nodes = known("a", "b", "c")
	}
}

// report computes the status as if the WorkspaceTemplateApply had been written, and returns the step.
func report(pool *infrav1.CAPTMachinePool, f *Facts) owner.Step {
	p, err := plan(pool, f)
	if err != nil {
		panic(err)
	}
	p.Differs = false
	status(pool, f, p)
	return p.Step
}

// row is a combination of facts that can happen.
type row struct {
	name    string
	options []builder.Option
	facts   []func(*Facts)
}

func (r row) but(name string, options []builder.Option, changes ...func(*Facts)) row {
	return row{name + "; " + r.name, append(slices.Clone(r.options), options...), append(slices.Clone(r.facts), changes...)}
}

func rows() (all []row) {
	is := func(name string, facts ...func(*Facts)) row { return row{name, nil, facts} }
	with := func(apply owner.Facts) func(*Facts) { return func(f *Facts) { f.Apply = apply } }
	shows := func(reason string) func(*Facts) { return applied(builder.NotUpToDate(reason, "why")) }
	running := func(d time.Duration) func(*Facts) { return func(f *Facts) { f.Running.Terraform = ptr.To(d) } }
	sees := func(found nodes.Nodes) func(*Facts) { return func(f *Facts) { f.Nodes = found } }
	external := func(f *Facts) {
		builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "autoscaler")(f.MachinePool)
		builder.WithAnnotation(clusterv1.AutoscalerMinSizeAnnotation, "2")(f.MachinePool)
		builder.WithAnnotation(clusterv1.AutoscalerMaxSizeAnnotation, "9")(f.MachinePool)
	}
	blind := func(f *Facts) { f.WatchNodes = false }
	unreachable, pending := nodes.Nodes{Problem: "cannot be reached"}, nodes.Nodes{Problem: "waiting", Pending: true}
	version := func(version string) func(*Facts) {
		return func(f *Facts) { f.MachinePool.Spec.Template.Spec.Version = version }
	}
	living := []row{
		is("no WorkspaceTemplateApply"),
		is("no MachinePool", func(f *Facts) { f.MachinePool = nil }),
		is("no Cluster", func(f *Facts) { f.Cluster, f.ControlPlane = nil, nil }),
		is("no control plane", func(f *Facts) { f.ControlPlane.ControlPlane = nil }),
		is("another control plane provider", func(f *Facts) { f.Cluster.Spec.ControlPlaneRef.Kind = "Other" }),
		is("control plane not initialized", func(f *Facts) { f.ControlPlane.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil }),
		is("a version above the control plane", version("v1.40.0")),
		is("control plane upgraded first", version("v1.32.0"), func(f *Facts) { f.ControlPlane.ControlPlane.Spec.Version = "v1.32.0" }),
		is("limits that contradict", func(f *Facts) { builder.WithAnnotation(clusterv1.AutoscalerMinSizeAnnotation, "x")(f.MachinePool) }),
		is("the user must decide", with(owner.Facts{Candidates: []claim.Candidate{{Name: "by-hand"}}})),
		is("reference belongs to another owner", with(owner.Facts{Conflict: "it belongs to CAPTMachinePool other"})),
		is("refused by the API server", with(owner.Facts{Refused: assert.AnError})),
		is("not seen by its controller", applied(), sees(pending)),
		is("Terraform running", shows(infrav1.ProvisioningReason), running(time.Minute), sees(pending)),
		is("Terraform running too long", shows(infrav1.ProvisioningReason), running(time.Hour), sees(pending)),
		is("template missing", shows(infrav1.TemplateNotFoundReason), sees(known("a", "b", "c"))),
		is("provider down", shows(infrav1.WorkspaceNotReconciledReason)),
		is("apply fails", shows(infrav1.ApplyFailedReason)),
		is("apply fails, with nodes", shows(infrav1.ApplyFailedReason), sees(known("a", "b!", "c"))),
		is("being deleted by another client", applied(builder.UpToDate(nil), builder.Deleting())),
		is("made", made()),
		is("made, without outputs", applied(builder.UpToDate(nil))),
		is("made, another version", applied(builder.UpToDate(map[string]string{"node_group_version": "1.30"}))),
		is("made, a node is not ready", made(), sees(known("a", "b!", "c"))),
		is("made, a node is missing", made(), sees(known("a", "b"))),
		is("made, a node too much", made(), sees(known("a", "b", "c", "d"))),
		is("made, no node", made(), sees(known())),
		is("made, unreachable", made(), sees(unreachable)),
		is("made, nodes not listed yet", made(), sees(pending)),
		is("made, nodes being listed", made(), sees(nodes.Nodes{Problem: "listing", Pending: true, Listing: true})),
		is("made, no MachinePool", made(), func(f *Facts) { f.MachinePool = nil }),
		is("made, no connections to clusters", made(), blind),
		is("made, no connections, without outputs", applied(builder.UpToDate(nil)), blind),
		is("out of bounds", func(f *Facts) { builder.WithAnnotation(clusterv1.AutoscalerMaxSizeAnnotation, "2")(f.MachinePool) }, made()),
		is("managed externally", external, made()),
		is("managed externally, below the minimum", external, made(), sees(known("a"))),
		is("managed externally, unreachable", external, made(), sees(unreachable)),
		is("managed externally, unreachable, without outputs", external, applied(builder.UpToDate(nil)), sees(unreachable)),
	}
	paused := func(f *Facts) { f.Paused = "annotation" }
	generation, deleted := []builder.Option{builder.WithGeneration(5)}, []builder.Option{builder.Deleting()}
	for _, r := range living {
		all = append(all, r.but("living", generation), r.but("paused", generation, paused), r.but("deleted", deleted), r.but("deleted, paused", deleted, paused))
	}
	return all
}

// rowText has the step and the status, for the golden table.
func (r row) rowText(t *testing.T, before bool) string {
	t.Helper()
	pool := builder.CAPTMachinePool("workers", r.options...)
	s := &pool.Status
	if before {
		s.Initialization.Provisioned, s.Ready, s.Version, s.Replicas, s.ReadyReplicas = ptr.To(true), ptr.To(true), "v1.30.0", ptr.To[int32](9), ptr.To[int32](9)
		s.Instances = []infrav1.MachinePoolInstance{{Name: "before"}}
		s.Conditions = []metav1.Condition{
			{Type: infrav1.NodesReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.NodesNotReadyReason, LastTransitionTime: metav1.NewTime(builder.Created)},
			{Type: infrav1.DegradedCondition, Status: metav1.ConditionTrue, Reason: "Before", Message: "m", LastTransitionTime: metav1.NewTime(builder.Created)},
		}
	}
	text := []string{fmt.Sprintf("%s, %s", report(pool, ofPool(r.facts...)), s.State)}
	once := pool.DeepCopy()
	report(pool, ofPool(r.facts...))
	assert.Equal(t, once, pool, "at rest nothing is written: %s", r.name)
	assert.Equal(t, pool.Generation, s.ObservedGeneration)

	conditionSummary := builder.ConditionSummary(once.Status.Conditions)
	for _, condition := range slices.Sorted(maps.Keys(conditionSummary)) {
		text = append(text, condition+" "+conditionSummary[condition])
	}
	if s = &once.Status; ptr.Deref(s.Initialization.Provisioned, false) {
		text = append(text, "provisioned")
	}
	assert.Equal(t, s.Initialization.Provisioned, s.Ready, "core's MachinePool controller reads status.ready: %s", r.name)
	number := func(n *int32) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	text = append(text, fmt.Sprintf("%s/%s/%s nodes", number(s.ReadyReplicas), number(s.Replicas), number(s.WantedReplicas)))
	if s.Version != "" {
		text = append(text, s.Version)
	}
	if s.WorkspaceTemplateApply != nil {
		text = append(text, s.WorkspaceTemplateApply.Name)
	}
	for _, instance := range s.Instances {
		text = append(text, instance.Name)
	}
	return strings.Join(text, "; ")
}

// TestGoldenTable: rows are facts, columns are step and status (nodes are ready/all/wanted), of a CAPTMachinePool that was never Ready, and of one that
// was and has been Degraded since an hour.
// UPDATE_GOLDEN=1 rewrites it; review the difference.
func TestGoldenTable(t *testing.T) {
	var table strings.Builder
	for _, r := range rows() {
		before := r.rowText(t, true)
		assert.Contains(t, before, "provisioned; ", "never revoked: %s", r.name)
		fmt.Fprintf(&table, "%s\n  new:    %s\n  before: %s\n", r.name, r.rowText(t, false), before)
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}

func TestWhatAStatusSaysOfNodes(t *testing.T) {
	for name, row := range map[string]struct {
		found nodes.Nodes
		want  string
	}{
		"not ready":     {known("a", "b!", "c!"), "1 of 3 nodes are ready; not ready: b, c"},
		"missing":       {known("a"), "1 of 3 nodes are ready; 2 have not joined the cluster"},
		"both":          {known("a", "b!"), "1 of 3 nodes are ready; 1 have not joined the cluster; not ready: b"},
		"all":           {known("a!", "b!", "c!"), "0 of 3 nodes are ready; not ready: a, b, c"},
		"many":          {known("a!", "b!", "c!", "d!", "e!"), "0 of 3 nodes are ready; not ready: a, b, c and 2 more"},
		"ready, enough": {known("a", "b", "c", "d!"), ""},
	} {
		pool := builder.CAPTMachinePool("workers")
		report(pool, ofPool(made(), func(f *Facts) { f.Nodes = row.found }))
		assert.Equal(t, row.want, conditions.GetMessage(pool, infrav1.NodesReadyCondition), name)
		assert.Equal(t, row.want, conditions.GetMessage(pool, infrav1.ReadyCondition), name)
		assert.Nil(t, conditions.Get(pool, infrav1.DegradedCondition), "not at once: %s", name)
	}
	pool := builder.CAPTMachinePool("workers")
	report(pool, ofPool(made(), func(f *Facts) { f.Nodes.Problem = "no connection" }))
	assert.Contains(t, conditions.GetMessage(pool, infrav1.NodesKnownCondition), "no connection. Until the manager can read the Nodes with the kubeconfig Secret, the size comes from the output node_group_size")
	report(pool, ofPool(made(), func(f *Facts) { f.WatchNodes = false }))
	assert.Contains(t, conditions.GetMessage(pool, infrav1.NodesKnownCondition), "the manager runs with --feature-gates=HealthProbes=false")
	report(pool, ofPool(made(), func(f *Facts) { f.Nodes = nodes.Nodes{Problem: "listing", Pending: true, Listing: true} }))
	assert.Equal(t, "listing", conditions.GetMessage(pool, infrav1.ReadyCondition))
}

// That all nodes are ready for long is not that they are not.
func TestAPoolStaysReady(t *testing.T) {
	pool, f := builder.CAPTMachinePool("workers"), ofPool(made())
	pool.Status.Conditions = []metav1.Condition{{Type: infrav1.NodesReadyCondition, Status: "True", Reason: infrav1.NodesReadyReason, LastTransitionTime: metav1.NewTime(f.Now.Add(-time.Hour))}}
	report(pool, f)
	assert.Equal(t, infrav1.StateReady, pool.Status.State)
}

// What Terraform waits for has the timeout of waits, also if the pool has its control plane.
func TestTheTimeoutOfAWaitOfTerraform(t *testing.T) {
	pool, f := builder.CAPTMachinePool("workers"), ofPool(applied(builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "why")))
	f.Running = owner.Running{Reason: infrav1.WaitingForDependenciesReason, Persists: time.Hour}
	report(pool, f)
	assert.Equal(t, infrav1.WaitTimeoutReason, conditions.GetReason(pool, infrav1.NodeGroupReadyCondition))
}

func TestAPoolIsDegradedAfterItsTimeout(t *testing.T) {
	seconds := builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.Timeouts.NodesReadySeconds = 60 })
	for name, row := range map[string]struct {
		since   time.Duration
		options []builder.Option
		want    bool
	}{
		"not yet":             {15*time.Minute - time.Second, nil, false},
		"by default":          {15 * time.Minute, nil, true},
		"not yet, of its own": {59 * time.Second, []builder.Option{seconds}, false},
		"of its own":          {time.Minute, []builder.Option{seconds}, true},
	} {
		pool, f := builder.CAPTMachinePool("workers", row.options...), ofPool(made(), func(f *Facts) { f.Nodes = known("a", "b!", "c") })
		pool.Status.Initialization.Provisioned = ptr.To(true)
		pool.Status.Conditions = []metav1.Condition{{Type: infrav1.NodesReadyCondition, Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.NewTime(f.Now.Add(-row.since))}}
		report(pool, f)
		degraded := conditions.Get(pool, infrav1.DegradedCondition)
		if assert.Equal(t, row.want, degraded != nil, name) && row.want {
			assert.Equal(t, infrav1.NodesNotReadyReason, degraded.Reason)
			assert.Contains(t, degraded.Message, "2 of 3 nodes are ready; not ready: b, for more than ")
			assert.Contains(t, degraded.Message, "(spec.timeouts.nodesReadySeconds). Run kubectl describe node with the kubeconfig of the cluster")
			assert.Equal(t, f.Now, degraded.LastTransitionTime.Time, name)
		}
	}
}

func TestAPoolThatNeverExistedIsNotDegraded(t *testing.T) {
	pool := builder.CAPTMachinePool("workers")
	pool.Status.Conditions = []metav1.Condition{{Type: infrav1.NodesReadyCondition, Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.NewTime(builder.Created)}}
	report(pool, ofPool(applied(builder.NotUpToDate(infrav1.ApplyFailedReason, "why")), func(f *Facts) { f.Nodes = known("a!") }))
	assert.Nil(t, conditions.Get(pool, infrav1.DegradedCondition))
	assert.Equal(t, infrav1.ApplyFailedReason, conditions.GetReason(pool, infrav1.ReadyCondition))
}

func TestATimeoutKeepsTheCause(t *testing.T) {
	for name, row := range map[string]struct {
		seconds int32
		running time.Duration
		change  func(f *Facts)
		want    string
	}{
		"by default":           {0, 30 * time.Minute, nil, infrav1.NodeGroupTimeoutReason},
		"not yet":              {0, 30*time.Minute - 1, nil, infrav1.ApplyFailedReason},
		"another timeout":      {60, time.Minute, nil, infrav1.NodeGroupTimeoutReason},
		"paused":               {0, time.Hour, func(f *Facts) { f.Paused = "annotation" }, infrav1.ApplyFailedReason},
		"up to date meanwhile": {0, time.Hour, made(), infrav1.NodeGroupReadyReason},
		"blocked":              {0, time.Hour, func(f *Facts) { f.MachinePool = nil }, infrav1.WaitingForOwnerReason},
	} {
		pool, f := builder.CAPTMachinePool("workers"), ofPool(applied(builder.NotUpToDate(infrav1.ApplyFailedReason, "no more instances")))
		pool.Spec.Timeouts.NodeGroupSeconds, f.Running.Terraform = row.seconds, ptr.To(row.running)
		if row.change != nil {
			row.change(f)
		}
		report(pool, f)
		assert.Equal(t, row.want, conditions.GetReason(pool, infrav1.NodeGroupReadyCondition), name)
		if row.want == infrav1.NodeGroupTimeoutReason {
			assert.Contains(t, conditions.GetMessage(pool, infrav1.ReadyCondition), "(spec.timeouts.nodeGroupSeconds): WorkspaceTemplateApply workers-nodegroup-apply: no more instances. CAPT keeps waiting", name)
		}
	}
}

// EKS names minor versions only, and the contract compares the version with the one that was asked for.
func TestTheVersionOfStatusIsTheRequestedOne(t *testing.T) {
	for name, row := range map[string]struct{ requested, output, want string }{
		"that of the control plane": {"", "1.31", "v1.31.0"},
		"a patch version":           {"v1.31.4", "1.31", "v1.31.4"},
		"without output":            {"v1.31.4", "", "v1.31.4"},
		"another one runs":          {"v1.31.4", "1.30", "v1.30.0"},
	} {
		pool := builder.CAPTMachinePool("workers")
		report(pool, ofPool(func(f *Facts) { f.MachinePool.Spec.Template.Spec.Version = row.requested }, applied(builder.UpToDate(map[string]string{"node_group_version": row.output}))))
		assert.Equal(t, row.want, pool.Status.Version, name)
	}
}

func TestWithoutAnOutputTheVersionOfStatusIsTheAppliedOne(t *testing.T) {
	f := ofPool(applied(builder.UpToDate(nil), builder.WithVariables(map[string]string{naming.VersionVariable: "1.30"})))
	p, err := plan(builder.CAPTMachinePool("workers"), f)
	require.NoError(t, err)
	assert.Equal(t, "v1.30.0", f.runningVersion(p, f.desired(builder.CAPTMachinePool("workers"))))
}

func TestTheStepsOfANodeGroup(t *testing.T) {
	blocked := func(reason string) *owner.Plan { return &owner.Plan{Blocked: &engine.Condition{Reason: reason}} }
	for name, row := range map[string]struct {
		plan           *owner.Plan
		applied, nodes bool
		want           progress.Step
	}{
		"waits for the control plane": {blocked(infrav1.WaitingForControlPlaneReason), false, false, progress.Infrastructure},
		"blocked":                     {blocked(infrav1.InvalidVersionReason), false, false, progress.Validation},
		"Terraform runs":              {&owner.Plan{}, false, false, progress.Workspace},
		"nodes join":                  {&owner.Plan{}, true, true, progress.Nodes},
		"complete":                    {blocked(infrav1.InvalidVersionReason), true, false, progress.Done},
		"a change, with nodes":        {&owner.Plan{}, false, true, progress.Workspace},
	} {
		assert.Equal(t, row.want, stepOf(row.plan, row.applied, row.nodes), name)
	}
}

// The progress of a creation begins when what it waits for exists, and that of nodes ends with their timeout.
func TestWhenAPoolIsWorking(t *testing.T) {
	operation := func(pool *infrav1.CAPTMachinePool) infrav1.Operation {
		if pool.Status.Progress == nil {
			return ""
		}
		return pool.Status.Progress.CurrentOperation
	}
	before := builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Status.Initialization.Provisioned = ptr.To(true) })
	unready := func(since time.Duration) builder.Option {
		return builder.With(func(pool *infrav1.CAPTMachinePool) {
			pool.Status.Conditions = []metav1.Condition{{Type: infrav1.NodesReadyCondition, Status: "False", Reason: infrav1.NodesNotReadyReason, LastTransitionTime: metav1.NewTime(builder.Created.Add(time.Hour - since))}}
		})
	}
	sees := func(found nodes.Nodes) func(*Facts) { return func(f *Facts) { f.Nodes = found } }
	listing := sees(nodes.Nodes{Problem: "listing", Pending: true, Listing: true})
	unowned := func(f *Facts) { f.MachinePool = nil }
	for name, row := range map[string]struct {
		options []builder.Option
		facts   []func(*Facts)
		want    infrav1.Operation
		state   infrav1.State
	}{
		"no control plane":             {nil, []func(*Facts){func(f *Facts) { f.ControlPlane.ControlPlane = nil }}, "", infrav1.StateValidating},
		"nothing exists yet":           {nil, []func(*Facts){unowned}, "", infrav1.StatePending},
		"Terraform creates it":         {nil, []func(*Facts){applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why"))}, infrav1.OperationCreation, infrav1.StateProvisioning},
		"it lost its owner":            {[]builder.Option{before}, []func(*Facts){made(), unowned}, "", infrav1.StateConfiguring},
		"a node is replaced":           {[]builder.Option{before, unready(time.Minute)}, []func(*Facts){made(), sees(known("a", "b!", "c"))}, "", infrav1.StateConfiguring},
		"nodes are listed again":       {[]builder.Option{before, unready(time.Minute)}, []func(*Facts){made(), listing}, "", infrav1.StateConfiguring},
		"a node is not ready for long": {[]builder.Option{before, unready(time.Hour)}, []func(*Facts){made(), sees(known("a", "b!", "c"))}, "", infrav1.StateDegraded},
	} {
		pool := builder.CAPTMachinePool("workers", row.options...)
		report(pool, ofPool(row.facts...))
		assert.Equal(t, row.state, pool.Status.State, name)
		assert.Equal(t, row.want, operation(pool), name)
	}
}

// What blocks a change, or a Failed control plane that the pool does not wait for, is not the timeout of Terraform.
func TestWhatAPoolDoesNotWaitForIsNoFailure(t *testing.T) {
	f := ofPool(made(), func(f *Facts) {
		f.MachinePool.Spec.Template.Spec.Version, f.Running.Terraform = "v1.40.0", ptr.To(time.Hour)
	})
	pool := builder.CAPTMachinePool("workers")
	report(pool, f)
	assert.Equal(t, infrav1.InvalidVersionReason, conditions.GetReason(pool, infrav1.NodeGroupReadyCondition))

	f = ofPool(applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why")), func(f *Facts) {
		f.ControlPlane.ControlPlane.Status.State = infrav1.StateFailed
		f.ControlPlane.ControlPlane.Status.Conditions = []metav1.Condition{{Type: infrav1.FailedCondition, Status: "True", Reason: "ApplyFailed", Message: "why"}}
	})
	pool = builder.CAPTMachinePool("workers")
	report(pool, f)
	assert.Equal(t, infrav1.StateProvisioning, pool.Status.State)
}

// What is known of the WorkspaceTemplateApply is evidence that the node group was created.
func TestTheRecordOfANodeGroupIsKept(t *testing.T) {
	pool := builder.CAPTMachinePool("workers")
	report(pool, ofPool(made()))
	report(pool, ofPool())
	assert.Equal(t, "workers-nodegroup-apply", pool.Status.WorkspaceTemplateApply.Name)
}

// The reason of limits that contradict each other is InvalidScaling.
func TestLimitsThatContradictAreNoBounds(t *testing.T) {
	pool := builder.CAPTMachinePool("workers", builder.WithScaling(5, 3))
	report(pool, ofPool(func(f *Facts) { f.MachinePool.Spec.Replicas = ptr.To[int32](9) }))
	assert.Equal(t, infrav1.InvalidScalingReason, conditions.GetReason(pool, infrav1.ReadyCondition))
	assert.False(t, conditions.IsTrue(pool, infrav1.ReplicasOutOfBoundsCondition))
}

func TestTheRemainingTimeIsWrittenWithTheNextStatus(t *testing.T) {
	pool, f := builder.CAPTMachinePool("workers"), ofPool(applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why")))
	f.Earlier = progress.Durations{infrav1.OperationCreation: {10 * time.Minute}}
	report(pool, f)
	before, first := pool.DeepCopy(), *pool.Status.Progress.EstimatedSecondsRemaining
	f.Now = f.Now.Add(30 * time.Second)
	report(pool, f)
	assert.Equal(t, before, pool, "time alone changes nothing")
	pool.Generation++
	report(pool, f)
	assert.Equal(t, first-30, *pool.Status.Progress.EstimatedSecondsRemaining)
}

// Nodes are the last step, and their timeout ends an operation.
func TestTheProgressOfNodes(t *testing.T) {
	pool, f := builder.CAPTMachinePool("workers"), ofPool(applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why")))
	report(pool, f)
	percent := *pool.Status.Progress.PercentComplete
	made()(f)
	f.Nodes = known("a", "b!", "c")
	report(pool, f)
	assert.Equal(t, infrav1.OperationCreation, pool.Status.Progress.CurrentOperation)
	assert.Greater(t, *pool.Status.Progress.PercentComplete, percent)
	failed := pool.DeepCopy()
	for i := range failed.Status.Conditions {
		failed.Status.Conditions[i].LastTransitionTime = metav1.NewTime(f.Now.Add(-time.Hour))
	}
	report(failed, f)
	assert.Equal(t, infrav1.OutcomeFailed, failed.Status.Progress.History[0].Outcome)
	f.Nodes = known("a", "b", "c")
	report(pool, f)
	assert.Equal(t, infrav1.OutcomeSucceeded, pool.Status.Progress.History[0].Outcome)
}

// The remaining time is that of the last status write: time alone changes nothing.
func TestTheRemainingTimeIsADetail(t *testing.T) {
	before := builder.CAPTMachinePool("workers")
	report(before, ofPool(applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why"))))
	after := before.DeepCopy()
	after.Status.Progress.EstimatedSecondsRemaining = ptr.To[int32](1)
	details(before, after, nil)
	assert.Equal(t, before, after)
}

func TestHowManyNodesAreWanted(t *testing.T) {
	for name, row := range map[string]struct {
		variables map[string]string
		size      string
		want      *int32
	}{
		"as Terraform received it": {map[string]string{naming.DesiredSizeVariable: "4", naming.MinSizeVariable: "1"}, "7", ptr.To[int32](4)},
		"managed by another":       {map[string]string{naming.MinSizeVariable: "1"}, "7", ptr.To[int32](7)},
		"below the minimum":        {map[string]string{naming.MinSizeVariable: "9"}, "7", ptr.To[int32](9)},
		"the minimum only":         {map[string]string{naming.MinSizeVariable: "1"}, "", ptr.To[int32](1)},
		"nothing":                  {nil, "", nil},
		"no number":                {nil, "0x10", nil},
		"too large":                {nil, "4294967299", nil},
	} {
		f := ofPool(applied(builder.UpToDate(map[string]string{"node_group_size": row.size}), builder.WithVariables(row.variables)))
		p, err := plan(builder.CAPTMachinePool("workers"), f)
		require.NoError(t, err)
		assert.Equal(t, row.want, f.wanted(p), name)
	}
}

func TestInstancesAreLimited(t *testing.T) {
	names := make([]string, maxInstances+1)
	for i := range names {
		names[i] = fmt.Sprintf("%05d", i)
	}
	pool := builder.CAPTMachinePool("workers")
	report(pool, ofPool(made(), func(f *Facts) { f.Nodes = known(names...) }))
	assert.Len(t, pool.Status.Instances, maxInstances)
	assert.Equal(t, ptr.To[int32](maxInstances+1), pool.Status.ReadyReplicas)
	assert.True(t, strings.HasSuffix(conditions.GetMessage(unreadyPool(known("a!", "b!", "c!")), infrav1.NodesReadyCondition), "not ready: a, b, c"))
	assert.Contains(t, conditions.GetMessage(unreadyPool(known("a!", "b!", "c!", "d!")), infrav1.NodesReadyCondition), "not ready: a, b, c and 1 more")
	assert.Equal(t, ptr.To(false), unreadyPool(known("a!")).Status.Instances[0].Ready)
	assert.Equal(t, infrav1.MachinePoolInstance{Name: "00000", ProviderID: "aws:///00000", Version: "v1.31.1", Ready: ptr.To(true)}, pool.Status.Instances[0])
}

// unreadyPool is a pool with some nodes.
func unreadyPool(found nodes.Nodes) *infrav1.CAPTMachinePool {
	pool := builder.CAPTMachinePool("workers")
	report(pool, ofPool(made(), func(f *Facts) { f.Nodes = found }))
	return pool
}

func TestAnnotationsThatWinAreReported(t *testing.T) {
	pool := builder.CAPTMachinePool("workers", builder.WithScaling(1, 5))
	report(pool, ofPool(made(), func(f *Facts) { builder.WithAnnotation(clusterv1.AutoscalerMaxSizeAnnotation, "9")(f.MachinePool) }))
	assert.Contains(t, conditions.GetMessage(pool, infrav1.FieldsConsumedCondition), "spec.scaling.maxSize: has no effect: annotation "+clusterv1.AutoscalerMaxSizeAnnotation)
	report(pool, ofPool(made()))
	assert.Nil(t, conditions.Get(pool, infrav1.FieldsConsumedCondition))
}

func TestWhichConditionsAreWarnings(t *testing.T) {
	for condition, want := range map[metav1.Condition]bool{
		{Type: infrav1.DegradedCondition, Status: metav1.ConditionTrue, Reason: infrav1.NodesNotReadyReason}:           true,
		{Type: infrav1.DegradedCondition, Status: metav1.ConditionFalse, Reason: infrav1.NotDegradedReason}:            false,
		{Type: infrav1.NodesKnownCondition, Status: metav1.ConditionFalse, Reason: infrav1.NodesUnreachableReason}:     true,
		{Type: infrav1.NodesKnownCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForNodesReason}:      false,
		{Type: infrav1.NodesKnownCondition, Status: metav1.ConditionFalse, Reason: infrav1.HealthProbesDisabledReason}: false,
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.InvalidScalingReason}:            true,
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForControlPlaneReason}:    false,
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason}:                      false,
		{Type: infrav1.ReplicasOutOfBoundsCondition, Status: metav1.ConditionTrue, Reason: "ReplicasOutOfBounds"}:      true,
		{Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.UsedByMachinePoolReason}:       true,
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.NodeGroupTimeoutReason}:          true,
		{Type: infrav1.ReplicasOutOfBoundsCondition, Status: metav1.ConditionFalse, Reason: "ReplicasWithinBounds"}:    false,
		{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.WaitingForVersionReason}:         false,
	} {
		assert.Equal(t, want, isWarning(condition), condition)
	}
}

// A reason about which a user must act fails a new pool, and so does a control plane that is Failed.
func TestANewPoolThatCannotWorkIsFailed(t *testing.T) {
	env := newEnvironment(t, poolOf(), three(builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "karpenter")), builder.WorkspaceTemplate("nodegroup"))
	_, after := env.reconcileAfter()
	assert.Equal(t, "False InvalidScaling", env.summary()["Ready"])
	assert.Equal(t, reasons.Grace, after)
	env.clock.Pass(after)
	env.reconcile()
	assert.Equal(t, "True InvalidScaling", env.summary()["Failed"])
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)

	controlPlane, err := engine.Get(t.Context(), env.API, client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}, &controlplanev1.CAPTControlPlane{})
	require.NoError(t, err)
	controlPlane.Status.Initialization.ControlPlaneInitialized = nil
	require.NoError(t, env.Update(t.Context(), controlPlane))
	_, after = env.reconcileAfter()
	assert.Equal(t, infrav1.StateValidating, env.get().Status.State)
	assert.Zero(t, after, "the control plane has timeouts of its own")

	was := controlPlane.DeepCopy()
	meta.SetStatusCondition(&controlPlane.Status.Conditions, metav1.Condition{Type: "Failed", Status: metav1.ConditionTrue, Reason: "InvalidVersion", Message: "2.0 does not exist"})
	controlPlane.Status.State = infrav1.StateFailed
	assert.True(t, controlPlaneChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: controlPlane}), "pools are reconciled")
	require.NoError(t, env.Update(t.Context(), controlPlane))
	env.reconcile()
	assert.Equal(t, "True InvalidVersion", env.summary()["Failed"])
	assert.Equal(t, "CAPTControlPlane demo has failed: 2.0 does not exist", env.message("Failed"))
}
