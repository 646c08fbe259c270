// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

var ctx = context.Background()

func newClient(objects ...client.Object) client.WithWatch { return builder.Clients(objects...).Build() }

// demoOwner is the owner of the tests.
func demoOwner(options ...builder.Option) Owner {
	captCluster := builder.CAPTCluster("demo", options...)
	return Owner{
		Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &captCluster.Spec.WorkspaceTemplateApplyRef,
		Finalizer: infrav1.CAPTClusterFinalizer, FieldManager: naming.CAPTClusterFieldManager, Creates: "the VPC",
	}
}

func want() *desired.Want {
	return &desired.Want{
		Expectation: claim.Expectation{SchemeName: "demo-vpc"}, ClusterName: "demo-cluster",
		Template: infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"},
		Intent: desired.Intent{
			Variables:        infrav1.TextVariables(map[string]string{naming.ClusterVariable: "demo-cluster", naming.VPCVariable: "demo-vpc", "region": "us-east-1", "size": "small"}),
			ConnectionSecret: "demo-vpc-connection",
		},
		DeletionPolicy: infrav1.DeletionPolicyRetain,
	}
}

// planned is the plan of an owner; want may be nil.
func planned(t *testing.T, f *Facts, owner Owner, want *desired.Want) *Plan {
	t.Helper()
	p, err := f.Plan(PlanInput{Owner: owner, Want: want})
	require.NoError(t, err)
	return &p
}

// rendered is what would be written, in types.
func rendered(t *testing.T, f *Facts, owner Owner, want *desired.Want) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(planned(t, f, owner, want).Desired.Object, apply))
	return apply
}

func TestDesired(t *testing.T) {
	apply := rendered(t, &Facts{}, demoOwner(builder.WithLabel(clusterv1.WatchLabel, "shard-1")), want())
	assert.Equal(t, "demo-vpc", apply.Name)
	assert.Equal(t, map[string]string{clusterv1.ClusterNameLabel: "demo-cluster", clusterv1.WatchLabel: "shard-1"}, apply.Labels)
	controller := metav1.GetControllerOf(apply)
	require.NotNil(t, controller)
	assert.Equal(t, builder.UID("CAPTCluster", "demo"), controller.UID)
	assert.Equal(t, infrav1.WorkspaceTemplateApplySpec{
		TemplateRef:                infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"},
		Variables:                  want().Intent.Variables,
		WriteConnectionSecretToRef: &terraform.SecretReference{Name: "demo-vpc-connection", Namespace: "default"},
		DeletionPolicy:             infrav1.DeletionPolicyRetain,
	}, apply.Spec)
}

// Another value would create another EKS cluster or VPC in place of the running one.
func TestIdentityVariablesKeepTheirValue(t *testing.T) {
	for _, identity := range naming.IdentityVariables() {
		f := &Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{identity: "earlier", "size": "earlier"}))}
		w := want()
		variables := rendered(t, f, demoOwner(), w).Spec.Variables.Texts()
		assert.Equal(t, "earlier", variables[identity])
		assert.Equal(t, "small", variables["size"], "others follow the spec")
		assert.Equal(t, want(), w, "the caller's variables are unchanged")
	}
}

// The steps of the life cycle, for an owner with its finalizer unless the row is about Hold.
func TestSteps(t *testing.T) {
	finalizer := builder.WithFinalizers(infrav1.CAPTClusterFinalizer)
	living, deleted := demoOwner(finalizer), demoOwner(finalizer, builder.Deleting())
	exists := func(options ...builder.Option) Facts {
		return Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", options...)}
	}
	helper := Facts{Live: exists().Live, Helpers: []infrav1.WorkspaceTemplateApply{*builder.WorkspaceTemplateApply("helper")}}
	for name, row := range map[string]struct {
		facts Facts
		in    PlanInput
		want  Step
	}{
		"nothing wanted":                           {Facts{}, PlanInput{Owner: living}, Wait},
		"wanted":                                   {Facts{}, PlanInput{Owner: living, Want: want()}, Provision},
		"exists and wanted":                        {exists(), PlanInput{Owner: living, Want: want()}, Provision},
		"blocked":                                  {exists(), PlanInput{Owner: living}, Wait},
		"blocked, without finalizer":               {exists(), PlanInput{Owner: demoOwner()}, Hold},
		"nothing to create, but to hold":           {Facts{}, PlanInput{Owner: demoOwner(), Hold: true}, Hold},
		"paused":                                   {exists(), PlanInput{Owner: demoOwner(), Want: want(), Paused: true}, Wait},
		"deleted":                                  {exists(), PlanInput{Owner: deleted}, Destroy},
		"deleted, paused":                          {exists(), PlanInput{Owner: deleted, Paused: true}, Wait},
		"deleted, being destroyed":                 {exists(builder.Deleting()), PlanInput{Owner: deleted}, Wait},
		"deleted, nothing left":                    {Facts{}, PlanInput{Owner: deleted}, Release},
		"deleted, dependents need all":             {exists(), PlanInput{Owner: deleted, BlockDeletion: true}, Wait},
		"deleted, dependents, policy changed":      {exists(), PlanInput{Owner: deleted, BlockDeletion: true, Want: want()}, WritePolicy},
		"deleted, dependents need its own":         {exists(), PlanInput{Owner: deleted, BlockOwnDeletion: true}, Wait},
		"deleted, helpers do not wait for those":   {helper, PlanInput{Owner: deleted, BlockOwnDeletion: true}, Destroy},
		"deleted, only dependents left":            {Facts{}, PlanInput{Owner: deleted, BlockOwnDeletion: true}, Wait},
		"deleted, deletion policies conflict":      {Facts{Live: exists().Live, RetainConflict: "conflict"}, PlanInput{Owner: deleted}, Wait},
		"deleted, a candidate would be deleted":    {Facts{OwnedCandidates: []string{"by-hand"}}, PlanInput{Owner: deleted}, Wait},
		"deleted, a candidate of another, no more": {Facts{Candidates: []claim.Candidate{{Name: "x"}}}, PlanInput{Owner: deleted}, Release},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := row.facts.Plan(row.in)
			require.NoError(t, err)
			assert.Equal(t, row.want, p.Step)
		})
	}
}

func refer(name string) infrav1.WorkspaceTemplateApplyReference {
	return infrav1.WorkspaceTemplateApplyReference{Name: name}
}

// expected is what the owner "demo" would make of the template that the builder gives to a WorkspaceTemplateApply.
var expected = claim.Expectation{
	SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"},
	Variables: map[string]string{naming.ClusterVariable: "demo"},
}

func TestObserve(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	c := newClient(
		builder.WorkspaceTemplateApply("demo-vpc"),
		builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("elsewhere", builder.OwnedBy(owner), builder.WithNamespace("other")))

	f, err := Reader{Gate: engine.OpenGate{}, Cached: c, Uncached: c}.Observe(ctx, owner, refer("by-hand"), expected)
	require.NoError(t, err)
	assert.Equal(t, "by-hand", f.Live.Name)
	assert.Empty(t, f.Candidates, "what is referred to is not asked about")

	f, err = Reader{Gate: engine.OpenGate{}, Cached: c, Uncached: c}.Observe(ctx, owner, refer("gone"), expected)
	require.NoError(t, err)
	assert.Nil(t, f.Live)

	f, err = Reader{Gate: engine.OpenGate{}, Cached: c, Uncached: c}.Observe(ctx, owner, infrav1.WorkspaceTemplateApplyReference{}, expected)
	require.NoError(t, err)
	assert.Nil(t, f.Live)
	assert.Equal(t, []claim.Candidate{
		{Name: "by-hand", Evidence: []claim.Evidence{claim.Owned}}, {Name: "demo-vpc", Evidence: []claim.Evidence{claim.Named}},
	}, f.Candidates)
}

// An owner that waits for a decision is reconciled by every event of its namespace. Before, each listed all WorkspaceTemplateApplies there.
func TestAnOwnerWithoutAReferenceAsksTheAPIServerOnlyBeforeSomethingIsCreatedOrDeleted(t *testing.T) {
	candidate := builder.WorkspaceTemplateApply("demo-vpc")
	built, nothing := expected, expected
	built.ProvisionedField = "status.vpc.id"
	for name, row := range map[string]struct {
		cached   []client.Object
		want     claim.Expectation
		confirm  bool
		owner    client.Object
		requests int
	}{
		"a candidate":                         {[]client.Object{candidate}, nothing, true, builder.CAPTCluster("demo"), 0},
		"no candidate, and it was built":      {nil, built, true, builder.CAPTCluster("demo"), 0},
		"nothing, and nothing is created":     {nil, nothing, false, builder.CAPTCluster("demo"), 0},
		"nothing, and one may be created":     {nil, nothing, true, builder.CAPTCluster("demo"), 1},
		"in deletion, so that none is missed": {[]client.Object{candidate}, nothing, false, builder.CAPTCluster("demo", builder.Deleting()), 1},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			live := interceptor.NewClient(newClient(candidate.DeepCopy()), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					requests++
					return c.List(ctx, list, options...)
				},
			})
			f, err := Reader{Gate: engine.OpenGate{}, Cached: newClient(row.cached...), Uncached: live, Confirm: row.confirm}.Observe(ctx, row.owner, infrav1.WorkspaceTemplateApplyReference{}, row.want)
			require.NoError(t, err)
			assert.Equal(t, row.requests, requests)
			assert.Equal(t, row.cached != nil || row.requests > 0, len(f.Candidates) > 0, "what the API server has is found")
		})
	}
}

// Defaulting sets the reference when nothing of the name exists. What is created under it afterwards may not be in the cache.
func TestObserveConfirmsThatTheReferencedOneIsMissing(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	observe := func(live client.Reader, confirm bool) Facts {
		f, err := Reader{Gate: engine.OpenGate{}, Cached: newClient(), Uncached: live, Confirm: confirm}.Observe(ctx, owner, refer("demo-vpc"), expected)
		require.NoError(t, err)
		return f
	}
	assert.Nil(t, observe(down(), false).Live, "the API server is not asked")

	f := observe(newClient(builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(nil))), true)
	assert.Nil(t, f.Live)
	assert.Contains(t, f.Conflict, "nothing is written")

	f = observe(newClient(builder.WorkspaceTemplateApply("demo-vpc")), true)
	assert.NotNil(t, f.Live)
	assert.Empty(t, f.Conflict)

	cached := newClient(builder.WorkspaceTemplateApply("demo-vpc"))
	_, err := Reader{Gate: engine.OpenGate{}, Cached: cached, Uncached: down(), Confirm: true}.Observe(ctx, owner, refer("demo-vpc"), expected)
	require.NoError(t, err, "one that exists need not be confirmed")

	reader := Reader{Gate: engine.OpenGate{}, Cached: newClient(), Uncached: down(), Confirm: true}
	for _, owner := range []client.Object{owner, builder.CAPTCluster("demo", builder.Deleting())} {
		_, err := reader.Observe(ctx, owner, refer("demo-vpc"), expected)
		require.ErrorContains(t, err, "no route to host", "a read error is not taken for missing")
	}
}

// down is an API server that does not answer.
func down() client.Client {
	return builder.FailingGet[client.Object](newClient(), errors.New("no route to host"))
}

func TestWrite(t *testing.T) {
	api, f := builder.NewAPI(builder.Clients()), &Facts{}
	p := planned(t, f, demoOwner(), want())
	assert.True(t, p.Differs)
	require.NoError(t, p.Write(ctx, api, api))
	assert.Equal(t, "demo-vpc", f.Live.Name)
	assert.NotEmpty(t, f.Live.ResourceVersion)
	assert.False(t, p.Differs)

	require.NoError(t, p.Write(ctx, api, api), "nothing differs")
	require.NoError(t, planned(t, &Facts{}, demoOwner(), nil).Write(ctx, api, api), "an owner that is blocked writes nothing")
	assert.Equal(t, []string{"apply demo-vpc"}, api.Writes)

	// What another client added stays.
	f.Live.Spec.Variables["environment"] = infrav1.TextValue("production")
	f.Live.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "mine"}}
	f.Live.Labels["mine"] = "too"
	assert.False(t, planned(t, f, demoOwner(), want()).Differs)

	// A variable that is no longer wanted is a difference.
	f, before := &Facts{}, want()
	before.Intent.Variables["removed"] = infrav1.TextValue("x")
	require.NoError(t, planned(t, f, demoOwner(), before).Write(ctx, newClient(), nil))
	assert.True(t, planned(t, f, demoOwner(), want()).Differs)
}

func TestAnUpdateRequiresTheCurrentSources(t *testing.T) {
	owner, now := demoOwner(), builder.CAPTControlPlane("demo")
	owner.Sources = []Source{{now.DeepCopy(), controlplanev1.GroupVersion.WithKind("CAPTControlPlane")}}
	require.NoError(t, owner.checkCurrent(ctx, newClient(owner.Object, now)))
	now.Generation++
	require.ErrorContains(t, owner.checkCurrent(ctx, newClient(owner.Object, now)), "CAPTControlPlane demo was changed during the reconcile")
}

// A manager that has lost its leadership has an old owner in its cache, and must not revert what the next one wrote.
func TestWriteRequiresTheCurrentOwnerForAnUpdate(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*infrav1.CAPTCluster)
		want   string
	}{
		"current":   {func(*infrav1.CAPTCluster) {}, ""},
		"changed":   {func(c *infrav1.CAPTCluster) { c.Generation++ }, "CAPTCluster demo was changed during the reconcile"},
		"recreated": {func(c *infrav1.CAPTCluster) { c.UID = "another" }, "CAPTCluster demo was changed during the reconcile"},
		"deleted":   {func(c *infrav1.CAPTCluster) { c.Name = "other" }, "CAPTCluster demo was changed during the reconcile"},
	} {
		t.Run(name, func(t *testing.T) {
			now := demoOwner().Object.DeepCopyObject().(*infrav1.CAPTCluster)
			row.change(now)
			api, f := builder.NewAPI(builder.Clients()), &Facts{}
			require.NoError(t, planned(t, f, demoOwner(), want()).Write(ctx, api, nil), "a creation needs no confirmation")
			changed := want()
			changed.Intent.Variables["size"] = infrav1.TextValue("3")
			err := planned(t, f, demoOwner(), changed).Write(ctx, api, newClient(now))
			if row.want == "" {
				require.NoError(t, err)
				assert.Len(t, api.Writes, 2)
				return
			}
			require.ErrorContains(t, err, row.want)
			assert.Len(t, api.Writes, 1)
		})
	}
	api, f := builder.NewAPI(builder.Clients()), &Facts{}
	require.NoError(t, planned(t, f, demoOwner(), want()).Write(ctx, api, nil))
	changed := want()
	changed.Intent.Variables["size"] = infrav1.TextValue("3")
	require.ErrorContains(t, planned(t, f, demoOwner(), changed).Write(ctx, api, down()), "reading the CAPTCluster: no route to host")

	next := f.Live.DeepCopy() // The next manager has written it after that read.
	next.Annotations = map[string]string{"changed": "true"}
	require.NoError(t, api.Update(ctx, next))
	err := planned(t, f, demoOwner(), changed).Write(ctx, api, newClient(demoOwner().Object))
	assert.True(t, apierrors.IsConflict(err), err)
}

func TestReady(t *testing.T) {
	ready := func(f *Facts, want *desired.Want) bool { return planned(t, f, demoOwner(), want).Ready() }
	upToDate := func(options ...builder.Option) *Facts {
		return &Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", append(options, builder.UpToDate(nil))...)}
	}
	assert.True(t, ready(upToDate(), nil))
	assert.False(t, ready(&Facts{}, nil), "it does not exist")
	assert.False(t, ready(upToDate(builder.Deleting()), nil), "it is being deleted")
	assert.False(t, ready(upToDate(), want()), "a change is not written yet")
	assert.False(t, ready(&Facts{Live: builder.WorkspaceTemplateApply("demo-vpc")}, nil), "it has no status")

	unobserved := upToDate()
	unobserved.Live.Generation++
	assert.False(t, ready(unobserved, nil), "its controller has not observed the change")
}

func TestConditionOfTheOwner(t *testing.T) {
	for name, row := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		summary string
		message string
		working bool
	}{
		"none yet":      {nil, "False Provisioning", "waiting for the WorkspaceTemplateApply of the VPC to be created", true},
		"no status yet": {builder.WorkspaceTemplateApply("demo-vpc"), "False Provisioning", "waiting for Terraform to create the VPC; see WorkspaceTemplateApply demo-vpc", true},
		"Terraform is at work": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ProvisioningReason, "each of its steps")),
			"False Provisioning", "waiting for Terraform to create the VPC; see WorkspaceTemplateApply demo-vpc", true},
		"it is queued": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.QueuedReason, "one at a time")),
			"False Provisioning", "WorkspaceTemplateApply demo-vpc: one at a time", true},
		"updating": {builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil), builder.NotUpToDate(infrav1.ProvisioningReason, "")),
			"False Provisioning", "waiting for Terraform to update the VPC; see WorkspaceTemplateApply demo-vpc", true},
		"up to date": {builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil)), "True VPCReady", "", true},
		"failed": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")),
			"False ApplyFailed", "WorkspaceTemplateApply demo-vpc: VpcLimitExceeded", false},
		"waiting": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "Secret s is empty")),
			"False WaitingForDependencies", "WorkspaceTemplateApply demo-vpc: Secret s is empty", false},
		"being deleted": {builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil), builder.Deleting()),
			"False Deleting", "WorkspaceTemplateApply demo-vpc is being deleted", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Live: row.apply}
			condition := planned(t, f, demoOwner(), nil).Condition("VPCReady", "VPCReady")
			assert.Equal(t, row.summary, string(condition.Status)+" "+condition.Reason)
			assert.Contains(t, condition.Message, row.message)
			assert.Equal(t, row.working, f.Working())
		})
	}
}

func TestTheSummary(t *testing.T) {
	assert.Nil(t, planned(t, &Facts{}, demoOwner(), nil).Summary())
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil))
	started, applied := metav1.NewTime(builder.Created), metav1.NewTime(builder.Created.Add(time.Hour))
	s := &apply.Status
	s.WorkspaceName, s.StartedTime, s.LastAppliedTime = "workspace", &started, &applied
	s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = "ba9876543210", "VpcLimitExceeded", "Quota"
	assert.Equal(t, &infrav1.WorkspaceTemplateApplySummary{
		Name: "demo-vpc", WorkspaceName: "workspace", Ready: metav1.ConditionTrue, StartedTime: &started, LastAppliedTime: &applied,
		LastAppliedRevision: "0123456789ab", LastFailedRevision: "ba9876543210", LastFailureMessage: "VpcLimitExceeded", LastFailureClass: "Quota",
	}, planned(t, &Facts{Live: apply}, demoOwner(), nil).Summary())
}

func TestDeleteHasAUIDPrecondition(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	var given client.DeleteOptions
	c := interceptor.NewClient(newClient(apply), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			given.ApplyOptions(opts)
			return c.Delete(ctx, obj)
		},
	})
	f := &Facts{Live: apply}
	require.NoError(t, Delete(ctx, c, f.Live))
	require.NotNil(t, given.Preconditions)
	assert.Equal(t, apply.UID, *given.Preconditions.UID)
	require.NoError(t, Delete(ctx, c, f.Live), "one that is gone is deleted")
}

// A restarted manager measures again. It must not revert what status reports, also if Ready has the reason of a refused write instead.
func TestAReportedTimeoutIsNotReverted(t *testing.T) {
	object := builder.CAPTControlPlane("demo", builder.WithGeneration(2))
	began := metav1.NewTime(time.Unix(1000, 0))
	report := func(ready string, failedSince time.Time, generation int64) time.Duration {
		object.Status.Conditions = []metav1.Condition{
			{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: ready, ObservedGeneration: generation},
			{Type: infrav1.FailedCondition, Status: metav1.ConditionTrue, Reason: "SecretTimeout", LastTransitionTime: metav1.NewTime(failedSince)},
		}
		return Owner{Object: object}.reportedDuration("SecretTimeout", began.Time)
	}
	later := began.Add(time.Minute)
	assert.Positive(t, report("SecretTimeout", later, 2))
	assert.Positive(t, report(infrav1.WriteRefusedReason, later, 2))
	assert.Zero(t, Owner{Object: object}.reportedDuration("VPCReadyTimeout", began.Time), "it is another timeout")
	assert.Zero(t, report(controlplanev1.WaitingForInfrastructureReason, later, 2), "the timeout of another object")
	assert.Zero(t, report("SecretTimeout", began.Add(-time.Minute), 2), "an earlier operation")
	assert.Zero(t, report("SecretTimeout", later, 1), "an earlier generation, whose timeout may have been shorter")
}

// Terraform runs with a change that is about to be written: what failed before says nothing about it.
func TestAChangeThatIsAboutToBeWrittenIsNotRecovered(t *testing.T) {
	fails := builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ApplyFailedReason, ""))
	fails.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "w"}
	p := planned(t, &Facts{Live: fails}, demoOwner(), nil)
	late := &Timeout{Limit: time.Minute, Running: time.Hour}
	require.NotZero(t, p.Failing(nil))
	p.Differs = true
	assert.Zero(t, p.Failing(late))
}
