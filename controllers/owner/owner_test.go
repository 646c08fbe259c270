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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

const manager = naming.CAPTClusterFieldManager

var ctx = context.Background()

func newClient(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).WithReturnManagedFields().Build()
}

func want() Want {
	return Want{
		Owner: builder.CAPTCluster("demo"), ClusterName: "demo-cluster", Name: "demo-vpc",
		Template: infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"},
		Intent: adoption.Intent{
			Variables:        map[string]string{naming.ClusterVariable: "demo-cluster", naming.VPCVariable: "demo-vpc", "region": "us-east-1", "size": "small"},
			ConnectionSecret: "demo-vpc-connection",
		},
		DeletionPolicy: infrav1.DeletionPolicyRetain,
	}
}

// desired is what would be written, in types.
func desired(t *testing.T, f *Facts) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(f.Desired.Object, apply))
	return apply
}

func TestWhatAnOwnerWrites(t *testing.T) {
	f := &Facts{}
	require.NoError(t, f.Desire(newClient(), want()))
	apply := desired(t, f)
	assert.Equal(t, "demo-vpc", apply.Name)
	assert.Equal(t, map[string]string{clusterv1.ClusterNameLabel: "demo-cluster"}, apply.Labels)
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

func TestTheManagerThatSeesTheOwnerSeesWhatItOwns(t *testing.T) {
	sharded := want()
	sharded.Owner = builder.CAPTCluster("demo", builder.WithLabel(clusterv1.WatchLabel, "shard-1"))
	f := &Facts{}
	require.NoError(t, f.Desire(newClient(), sharded))
	assert.Equal(t, "shard-1", desired(t, f).Labels[clusterv1.WatchLabel])
}

// Another value would be another EKS cluster or VPC, in place of the one that runs.
func TestVariablesThatAreTheIdentityOfCloudResourcesKeepTheirValue(t *testing.T) {
	for _, identity := range naming.IdentityVariables() {
		f := &Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{
			identity: "of-long-ago", "size": "of-long-ago",
		}))}
		require.NoError(t, f.Desire(newClient(), want()))
		variables := desired(t, f).Spec.Variables
		assert.Equal(t, "of-long-ago", variables[identity])
		assert.Equal(t, "small", variables["size"], "others follow the spec")
	}
}

func TestDesiringDoesNotChangeTheVariablesOfTheCaller(t *testing.T) {
	w := want()
	f := &Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{naming.ClusterVariable: "old"}))}
	require.NoError(t, f.Desire(newClient(), w))
	assert.Equal(t, "demo-cluster", w.Intent.Variables[naming.ClusterVariable])
}

func refer(name string) infrav1.WorkspaceTemplateApplyReference {
	return infrav1.WorkspaceTemplateApplyReference{Name: name}
}

// expected is what the owner "demo" would make of the template that the builder gives to a WorkspaceTemplateApply.
var expected = adoption.Expectation{
	SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"},
	Variables: map[string]string{naming.ClusterVariable: "demo"},
}

func TestObserve(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	c := newClient(
		builder.WorkspaceTemplateApply("demo-vpc"),
		builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(owner)),
		builder.WorkspaceTemplateApply("elsewhere", builder.OwnedBy(owner), builder.WithNamespace("other")))

	f, err := Observe(ctx, c, c, owner, refer("by-hand"), expected)
	require.NoError(t, err)
	assert.Equal(t, "by-hand", f.Apply.Name)
	assert.Empty(t, f.Candidates, "what is referred to is not asked about")

	f, err = Observe(ctx, c, c, owner, refer("gone"), expected)
	require.NoError(t, err)
	assert.Nil(t, f.Apply)

	f, err = Observe(ctx, c, c, owner, infrav1.WorkspaceTemplateApplyReference{}, expected)
	require.NoError(t, err)
	assert.Nil(t, f.Apply)
	assert.Equal(t, []adoption.Candidate{
		{Name: "by-hand", Evidence: []adoption.Evidence{adoption.Owned}}, {Name: "demo-vpc", Evidence: []adoption.Evidence{adoption.Named}},
	}, f.Candidates)
}

// Defaulting sets the reference when nothing of the name exists. What is made under it afterwards may not be in the cache.
func TestWhatTheCacheHasNotSeenIsNotOverwritten(t *testing.T) {
	owner, behind := builder.CAPTCluster("demo"), newClient()
	unseen, err := Observe(ctx, behind, down(), owner, refer("demo-vpc"), expected)
	require.NoError(t, err, "who makes nothing does not ask the API server")
	assert.Nil(t, unseen.Apply)

	f := unseen
	require.NoError(t, f.Confirm(ctx, newClient(builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(nil))), owner, refer("demo-vpc"), expected))
	assert.Nil(t, f.Apply)
	assert.Contains(t, f.Claimed, "CAPT does not change it")

	f = unseen
	require.NoError(t, f.Confirm(ctx, newClient(builder.WorkspaceTemplateApply("demo-vpc")), owner, refer("demo-vpc"), expected))
	assert.NotNil(t, f.Apply)
	assert.Empty(t, f.Claimed)
	require.NoError(t, f.Confirm(ctx, down(), owner, refer("demo-vpc"), expected), "what is there need not be confirmed")
}

func TestWhatBelongsToNobodyIsTakenOnlyWhenItCanBeMeant(t *testing.T) {
	stranger := builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{naming.ClusterVariable: "another"}))
	owner := builder.CAPTCluster("demo")
	for name, row := range map[string]struct {
		change func(*adoption.Expectation)
		taken  bool
	}{
		"not by the name alone": {func(*adoption.Expectation) {}, false},
		"by the content": {func(want *adoption.Expectation) {
			want.Variables = map[string]string{naming.ClusterVariable: "another"}
		}, true},
		"when it was the owner's before":                    {func(want *adoption.Expectation) { want.Recorded = "demo-vpc" }, true},
		"not by a name that nobody but a person can choose": {func(want *adoption.Expectation) { want.SchemeName = "other-vpc" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := expected
			row.change(&want)
			f, err := Observe(ctx, newClient(stranger), newClient(stranger), owner, refer("demo-vpc"), want)
			require.NoError(t, err)
			assert.Equal(t, row.taken, f.Apply != nil)
			assert.Equal(t, row.taken, f.Claimed == "")
		})
	}
}

// The older CAPT made Workspaces besides the one of the cluster, each in an own WorkspaceTemplateApply of the owner.
func TestHelpersOfTheOlderCAPTAreNoCandidates(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	helper := builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.OwnedBy(owner), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef.Name = "kubeconfig"
	}))
	c := newClient(helper)
	f, err := Observe(ctx, c, c, owner, infrav1.WorkspaceTemplateApplyReference{}, expected)
	require.NoError(t, err)
	assert.Empty(t, f.Candidates)
	assert.Empty(t, f.Owned)

	f, err = Observe(ctx, c, c, owner, refer(helper.Name), expected)
	require.NoError(t, err)
	assert.Nil(t, f.Apply)
	assert.Contains(t, f.Claimed, "another WorkspaceTemplate")
}

// down is an API server that does not answer.
func down() client.Client {
	return interceptor.NewClient(newClient(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no route to host")
		},
	})
}

func TestWhatCouldNotBeLookedUpIsNotTakenForMissing(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	f, err := Observe(ctx, newClient(), down(), owner, refer("demo-vpc"), expected)
	require.NoError(t, err)
	require.ErrorContains(t, f.Confirm(ctx, down(), owner, refer("demo-vpc"), expected), "no route to host")
	_, err = Observe(ctx, newClient(), down(), builder.CAPTCluster("demo", builder.Deleting()), refer("demo-vpc"), expected)
	require.ErrorContains(t, err, "no route to host")
}

func TestWritingMakesItSoAndThenNothingDiffers(t *testing.T) {
	c := newClient()
	f := &Facts{}
	require.NoError(t, f.Desire(c, want()))
	assert.True(t, f.Differs(manager))
	require.NoError(t, f.Write(ctx, c, manager))
	assert.Equal(t, "demo-vpc", f.Apply.Name)
	assert.NotEmpty(t, f.Apply.ResourceVersion)
	assert.False(t, f.Differs(manager))
}

func TestWhatDoesNotDifferIsNotWritten(t *testing.T) {
	c := newClient()
	f := &Facts{}
	require.NoError(t, f.Desire(c, want()))
	require.NoError(t, f.Write(ctx, c, manager))

	silent := interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			t.Error("nothing differs, and it was written")
			return nil
		},
	})
	require.NoError(t, f.Write(ctx, silent, manager))
	require.NoError(t, (&Facts{}).Write(ctx, silent, manager), "an owner that wants nothing yet writes nothing")
}

// Defect 6: what a person added stays.
func TestWhatAPersonAddedIsNoDifference(t *testing.T) {
	c := newClient()
	f := &Facts{}
	require.NoError(t, f.Desire(c, want()))
	require.NoError(t, f.Write(ctx, c, manager))
	f.Apply.Spec.Variables["environment"] = "production"
	f.Apply.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "mine"}}
	f.Apply.Labels["mine"] = "too"
	assert.False(t, f.Differs(manager))
}

func TestAVariableTheOwnerNoLongerWantsIsADifference(t *testing.T) {
	c := newClient()
	f := &Facts{}
	before := want()
	before.Intent.Variables["gone"] = "x"
	require.NoError(t, f.Desire(c, before))
	require.NoError(t, f.Write(ctx, c, manager))
	require.NoError(t, f.Desire(c, want()))
	assert.True(t, f.Differs(manager))
}

func TestReadyIsNotSaidOfThePast(t *testing.T) {
	upToDate := func(options ...builder.Option) *Facts {
		return &Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc", append(options, builder.UpToDate(nil))...)}
	}
	assert.True(t, upToDate().Ready(manager))
	assert.False(t, (&Facts{}).Ready(manager), "there is none")
	assert.False(t, upToDate(builder.Deleting()).Ready(manager), "it is being deleted")

	unseen := upToDate()
	unseen.Apply.Generation++
	assert.False(t, unseen.Ready(manager), "its controller has not seen the change")

	unwritten := upToDate()
	require.NoError(t, unwritten.Desire(newClient(), want()))
	assert.False(t, unwritten.Ready(manager), "a change is not written yet")
	assert.False(t, (&Facts{Apply: builder.WorkspaceTemplateApply("demo-vpc")}).Ready(manager), "it has no status")
}

func TestConditionOfTheOwner(t *testing.T) {
	for name, row := range map[string]struct {
		apply   *infrav1.WorkspaceTemplateApply
		story   string
		message string
		working bool
	}{
		"none yet":      {nil, "False Provisioning", "about to be created", true},
		"no status yet": {builder.WorkspaceTemplateApply("demo-vpc"), "False Provisioning", "Terraform is at work; see WorkspaceTemplateApply demo-vpc", true},
		"Terraform is at work": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ProvisioningReason, "each of its steps")),
			"False Provisioning", "Terraform is at work; see WorkspaceTemplateApply demo-vpc", true},
		"it waits for its turn": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.WaitingForTurnReason, "one at a time")),
			"False Provisioning", "Terraform is at work; see WorkspaceTemplateApply demo-vpc", true},
		"up to date": {builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil)), "True VPCReady", "", true},
		"failed": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")),
			"False ApplyFailed", "WorkspaceTemplateApply demo-vpc: VpcLimitExceeded", false},
		"waiting": {builder.WorkspaceTemplateApply("demo-vpc", builder.NotUpToDate(infrav1.WaitingForDependenciesReason, "Secret s is empty")),
			"False WaitingForDependencies", "WorkspaceTemplateApply demo-vpc: Secret s is empty", false},
		"being deleted": {builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil), builder.Deleting()),
			"False Deleting", "WorkspaceTemplateApply demo-vpc is being deleted", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Apply: row.apply}
			condition := f.Condition("VPCReady", "VPCReady", manager)
			assert.Equal(t, row.story, string(condition.Status)+" "+condition.Reason)
			assert.Contains(t, condition.Message, row.message)
			assert.Equal(t, row.working, f.Working())
		})
	}
}

func TestAdoptionRequiredNamesTheCandidates(t *testing.T) {
	condition := (&Facts{Candidates: []adoption.Candidate{
		{Name: "a", Evidence: []adoption.Evidence{adoption.Named}}, {Name: "b", Evidence: []adoption.Evidence{adoption.Recorded, adoption.Owned}},
	}}).AdoptionCondition("AdoptionRequired")
	assert.Equal(t, metav1.ConditionTrue, condition.Status)
	assert.Contains(t, condition.Message, "a (it has the name that the naming scheme gives), b (status records it, this object owns it) may belong to this object")
	assert.Equal(t, metav1.ConditionFalse, (&Facts{}).AdoptionCondition("AdoptionRequired").Status)
}

func TestDeletingSaysWhatTheApplyWaitsFor(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.Deleting())
	f := &Facts{Apply: apply}
	assert.Equal(t, "waiting for WorkspaceTemplateApply demo-vpc to be deleted", f.DeletingCondition("Deleting", "").Message)

	apply.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Reason: infrav1.DestroyFailedReason, Message: "DependencyViolation"}}
	assert.Equal(t, "waiting for WorkspaceTemplateApply demo-vpc: DependencyViolation", f.DeletingCondition("Deleting", "").Message)
}

func TestTheSummary(t *testing.T) {
	assert.Nil(t, (&Facts{}).Summary(manager))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.UpToDate(nil))
	when := metav1.NewTime(builder.Created.Add(time.Hour))
	apply.Status.LastAppliedTime = &when
	summary := (&Facts{Apply: apply}).Summary(manager)
	assert.Equal(t, "demo-vpc", summary.Name)
	assert.Equal(t, metav1.ConditionTrue, summary.Ready)
	assert.Equal(t, "0123456789ab", summary.LastAppliedRevision)
	assert.Equal(t, &when, summary.LastAppliedTime)
}

func TestOnlyTheVeryApplyIsDeleted(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	var given client.DeleteOptions
	c := interceptor.NewClient(newClient(apply), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			given.ApplyOptions(opts)
			return c.Delete(ctx, obj)
		},
	})
	f := &Facts{Apply: apply}
	require.NoError(t, f.Delete(ctx, c))
	require.NotNil(t, given.Preconditions)
	assert.Equal(t, apply.UID, *given.Preconditions.UID)
	require.NoError(t, f.Delete(ctx, c), "one that is gone is deleted")
}

// What the older CAPT made is referred to by name, so that it looks like the owner's; it is left as it was all the same.
func TestWhatNobodyHasAdoptedIsNeitherWrittenNorLetGo(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer))
	want := adoption.Expectation{SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"}}
	facts := taken(owner, want, apply)
	assert.Nil(t, facts.Apply)
	assert.Equal(t, []adoption.Candidate{{Name: "demo-vpc", Evidence: []adoption.Evidence{adoption.Referred}}}, facts.Candidates)
	assert.Equal(t, []string{"demo-vpc"}, facts.Owned, "the owner stays until it is adopted")
	assert.Contains(t, facts.AdoptionCondition("AdoptionRequired").Message, "WorkspaceTemplateApply demo-vpc has Workspace demo-vpc, which was created by CAPT v0.3")
	assert.Contains(t, facts.DeletingCondition("Deleting", "").Message, "captctl migrate")

	apply.Spec.WorkspaceName = "demo-vpc"
	assert.Equal(t, apply, taken(owner, want, apply).Apply, "it was adopted")
}

// What awaits adoption keeps its status, and nothing is created for it.
func TestWhatAwaitsAdoption(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	legacy := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	others := builder.OwnedBy(builder.CAPTCluster("another"))
	made := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", options...)
	}
	for name, row := range map[string]struct {
		apply     *infrav1.WorkspaceTemplateApply
		ref       infrav1.WorkspaceTemplateApplyReference
		legacy    bool
		recorded  string
		awaits    bool
		undecided bool
	}{
		"it refers to one of v0.3":                 {made(legacy), refer("demo-vpc"), false, "", true, true},
		"it refers to an adopted one":              {made(legacy, builder.WithWorkspaceName("demo-vpc")), refer("demo-vpc"), true, "", false, false},
		"it refers to a new one":                   {made(), refer("demo-vpc"), false, "", false, false},
		"it refers to another's of v0.3":           {made(legacy, others), refer("demo-vpc"), false, "", false, false},
		"v0.3 left it, and it refers to another's": {made(others), refer("demo-vpc"), true, "", true, false},
		"it refers to another's":                   {made(others), refer("demo-vpc"), false, "", false, false},
		"one of v0.3 may be its own":               {made(legacy), infrav1.WorkspaceTemplateApplyReference{}, false, "", true, true},
		"v0.3 left it, and one may be its own":     {made(), infrav1.WorkspaceTemplateApplyReference{}, true, "", true, true},
		"one may be its own":                       {made(), infrav1.WorkspaceTemplateApplyReference{}, false, "", false, true},
		"one of v0.3 of its cluster, of another template": {
			made(legacy, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), infrav1.WorkspaceTemplateApplyReference{}, false, "", true, true,
		},
		"one of v0.3 that it owns, of another template": {
			made(legacy, builder.OwnedBy(owner), builder.WithVariables(nil), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Name, apply.Spec.TemplateRef.Name = "production", "vpc-v1"
			})), infrav1.WorkspaceTemplateApplyReference{}, false, "", true, true,
		},
		"v0.3 left it, and nothing may be its own":             {made(builder.WithNamespace("elsewhere")), infrav1.WorkspaceTemplateApplyReference{}, true, "", false, false},
		"what v0.3 recorded is gone":                           {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "demo-vpc", true, true},
		"what v0.3 recorded is gone, and it refers to a new":   {made(builder.WithNamespace("elsewhere")), refer("new-vpc"), true, "demo-vpc", false, false},
		"v0.3 recorded nothing, and it refers to a new one":    {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), true, "", false, false},
		"what this version recorded is gone and created again": {made(builder.WithNamespace("elsewhere")), refer("demo-vpc"), false, "demo-vpc", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := expected
			want.Legacy, want.Recorded = row.legacy, row.recorded
			c := newClient(row.apply)
			f, err := Observe(ctx, c, c, owner, row.ref, want)
			require.NoError(t, err)
			assert.Equal(t, row.awaits, f.AwaitsAdoption)
			assert.Equal(t, row.undecided, f.Undecided())
			status := f.AdoptionCondition("AdoptionRequired").Status
			assert.Equal(t, row.awaits || row.undecided, status == metav1.ConditionTrue)
			require.NoError(t, f.Confirm(ctx, c, owner, row.ref, want))
			assert.Equal(t, row.awaits, f.AwaitsAdoption, "a look past the cache finds the same")
		})
	}
	deleted := builder.CAPTCluster("demo", builder.Deleting())
	want := expected
	want.Legacy, want.Recorded = true, "demo-vpc"
	f, err := Observe(ctx, newClient(), newClient(), deleted, refer("demo-vpc"), want)
	require.NoError(t, err)
	assert.False(t, f.Undecided(), "nothing holds up its deletion")
}
