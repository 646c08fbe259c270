// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/test/builder"
)

// Each of these would destroy, replace or duplicate an EKS cluster.

func ofTemplate(name string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = name })
}

// A copied reference, a wrong name, or a name that another client used for another purpose: Terraform would destroy what runs there, and
// make an EKS cluster in the same state.
func TestAWrongReferenceRewritesNothing(t *testing.T) {
	eks := ofTemplate("eks")
	for name, row := range map[string]struct {
		ref     string
		options []builder.Option
	}{
		"that of another control plane":     {"prod-apply", []builder.Option{eks, builder.OwnedBy(builder.CAPTControlPlane("prod"))}},
		"a VPC of the default name":         {applyName, []builder.Option{ofTemplate("vpc")}},
		"a VPC that was made by hand":       {"unrelated", []builder.Option{ofTemplate("vpc")}},
		"another cluster of this template":  {"unrelated", []builder.Option{eks, builder.WithVariables(map[string]string{"cluster_name": "prod"})}},
		"a cluster of unknown name":         {"unrelated", []builder.Option{eks, builder.WithVariables(nil)}},
		"a helper of CAPT v0.3 of this one": {"unrelated", []builder.Option{ofTemplate("kubeconfig"), builder.OwnedBy(builder.CAPTControlPlane("demo"))}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
				builder.WorkspaceTemplateApply(row.ref, append(row.options, builder.UpToDate(outputs()), builder.WithFinalizers("x/y"))...),
				builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef(row.ref), builder.WithFinalizers("held/by-the-test")))
			before := read(env, row.ref, &infrav1.WorkspaceTemplateApply{})
			assert.Equal(t, []string{"status"}, env.reconcile(), "it is not held for what is not its own")
			assert.Equal(t, "False ReferenceConflict", env.summary()["DependenciesReady"])

			require.NoError(t, env.Delete(t.Context(), env.get()))
			env.reconcile()
			assert.Equal(t, before, read(env, row.ref, &infrav1.WorkspaceTemplateApply{}))
		})
	}
}

func TestAReferencedApplyIsUsedIfItMatches(t *testing.T) {
	env := newEnvironment(t, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		builder.WorkspaceTemplateApply("by-hand", ofTemplate("eks")),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef("by-hand")))
	assert.Contains(t, env.reconcile(), "apply by-hand")
	assert.Equal(t, "by-hand", env.get().Status.WorkspaceTemplateApply.Name)

	// Now that it is recorded, another template is a change of the running cluster, which the user may want.
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "eks-2" })
	env.reconcile()
	assert.Equal(t, "eks-2", read(env, "by-hand", &infrav1.WorkspaceTemplateApply{}).Spec.TemplateRef.Name)
}

func TestARunningClusterDoesNotMoveToAnotherRegion(t *testing.T) {
	env := built(t)
	before := read(env, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables

	require.NoError(t, env.Client.Delete(context.Background(), read(env, "demo", &infrav1.CAPTCluster{})))
	elsewhere := vpc(builder.WithRegion("us-east-1"))
	elsewhere.Status.VPC.ID, elsewhere.ResourceVersion = "vpc-2", ""
	require.NoError(t, env.Client.Create(context.Background(), elsewhere))
	env.reconcile()

	assert.Equal(t, before, read(env, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables)
	assert.Contains(t, env.summary()["DependenciesReady"], "RegionConflict")
}

func TestAnUnwrittenEndpointIsNotReported(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraformMade()
	env.FailOn("patch", errors.New("denied by a webhook"))
	require.Error(t, env.try())
	got := env.get()
	assert.False(t, got.Spec.ControlPlaneEndpoint.IsValid())
	assert.Nil(t, got.Status.Initialization.ControlPlaneInitialized)
	assert.NotEqual(t, infrav1.StateReady, got.Status.State)
}

// Which steps EKS takes is tested with api/validation. What was stored before there was a webhook is not written either; AWS
// upgrades what it no longer supports, and only a later change of the version is refused.
func TestAVersionThatEKSRefusesIsNotWritten(t *testing.T) {
	for name, row := range map[string]struct{ spec, runs, refused string }{
		"the next version":        {"v1.32", "1.31", ""},
		"two versions at once":    {"v1.33", "1.31", "spec.version: the cluster runs 1.31 and EKS upgrades one minor version at a time. Upgrade to 1.32 first"},
		"AWS has upgraded itself": {"v1.31", "1.32", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObservation(t, builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = row.spec })).apply(
				builder.WithVariables(map[string]string{"kubernetes_version": "1.31"}), builder.UpToDate(map[string]string{"cluster_version": row.runs}))
			got := o.plan().Apply.Blocked
			if row.refused == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, infrav1.InvalidVersionReason, got.Reason)
			assert.Equal(t, row.refused, got.Message)
		})
	}
}

// Status records it, and nothing matches: a new one would be a second EKS cluster.
func TestNothingIsCreatedIfStatusRecordsACluster(t *testing.T) {
	env := newEnvironment(t, prepared(builder.WithEndpoint("https://"+host, 443))...)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired", env.summary()["DependenciesReady"])

	assert.Equal(t, "True AdoptionRequired", env.summary()["Degraded"], "it may serve")
	assert.Zero(t, env.again)
	env.clock.Pass(reasons.Grace)
	assert.Empty(t, env.reconcile())
	assert.Equal(t, infrav1.StateDegraded, env.get().Status.State)

	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.WithApplyRef("another")(c) })
	assert.Contains(t, env.reconcile(), "apply another", "the user decided")
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
}

// A control plane that has an endpoint exists, and one that has none is new, whatever may belong to them.
func TestOnlyANewControlPlaneIsFailedIfAUserMustDecide(t *testing.T) {
	for name, row := range map[string]struct {
		options []builder.Option
		want    infrav1.State
	}{
		"new":                 {nil, infrav1.StateFailed},
		"its status was lost": {[]builder.Option{builder.WithEndpoint(host, 443)}, infrav1.StateDegraded},
		"it is paused":        {[]builder.Option{builder.WithEndpoint(host, 443), builder.Paused()}, infrav1.StatePending},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, append(prepared(row.options...), builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks")))...)
			env.reconcile()
			assert.Contains(t, conditions.GetMessage(env.get(), "AdoptionRequired"), "by-hand")
			env.clock.Pass(reasons.Grace)
			env.reconcile()
			assert.Equal(t, row.want, env.get().Status.State)
		})
	}
}

func TestAKnownEndpointIsNormalizedAndNotOverwritten(t *testing.T) {
	for stored, want := range map[string]string{
		"https://" + host:               host,
		"https://of-before.example.com": "of-before.example.com",
		"of-before.example.com":         "of-before.example.com",
		"http://none.example.com":       host,
	} {
		env := newEnvironment(t, prepared(builder.WithEndpoint(stored, 443), builder.WithApplyRef(applyName))...)
		env.reconcile()
		assert.NotContains(t, env.get().Spec.ControlPlaneEndpoint.Host, "https://", "Cluster API can copy it while Terraform runs")
		env.terraformMade()
		env.reconcile()
		assert.Equal(t, clusterv1.APIEndpoint{Host: want, Port: 443}, env.get().Spec.ControlPlaneEndpoint)
		assert.Equal(t, want+":443", env.get().Status.Endpoint)
		assert.Equal(t, want != host, env.summary()["EndpointAvailable"] == "False EndpointChanged")
		assert.Empty(t, env.reconcile(), "at rest nothing is written")
	}
}

// A cluster that was recreated has another endpoint, which the module may not return.
func TestAnEndpointIsNotReplacedByNone(t *testing.T) {
	for _, output := range []string{"", "http://x/y"} {
		env := built(t)
		env.terraform(builder.NotUpToDate(infrav1.WorkspaceDeletingReason, "why"))
		env.reconcile()
		require.Equal(t, "False NotAvailable", env.summary()["Available"])
		env.terraform(builder.UpToDate(map[string]string{"cluster_endpoint": output}))
		env.reconcile()
		assert.Equal(t, host, env.get().Spec.ControlPlaneEndpoint.Host)
		assert.Equal(t, "False NotAvailable", env.summary()["Available"])
	}
}

// Nothing is written while it is paused.
func TestStatusHasTheNormalizedEndpoint(t *testing.T) {
	o := newObservation(t, builder.WithEndpoint("https://"+host, 443)).with(func(f *Facts) { f.Paused = "annotation" })
	assert.Equal(t, host+":443", o.status().Endpoint)
	assert.Equal(t, "True EndpointKnown", builder.ConditionSummary(o.controlPlane.Status.Conditions)["EndpointAvailable"])
}

// Profiles and helpers go first, side by side: a helper may use a profile.
func TestHelpersAreDeletedBeforeTheEKSCluster(t *testing.T) {
	holding := builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef(applyName), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer))
	ofControlPlane := builder.OwnedBy(controlPlane)
	env := newEnvironment(t, builder.DeletedCluster("demo"), controlPlane,
		builder.WorkspaceTemplateApply(applyName, ofTemplate("eks"), ofControlPlane, holding),
		builder.WorkspaceTemplateApply("demo-kubeconfig-apply", ofTemplate("kubeconfig"), ofControlPlane, holding),
		builder.WorkspaceTemplateApply("demo-profile", ofTemplate("fargate"), ofControlPlane, holding, builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup)))
	isDeleted := func(name string) bool {
		apply := read(env, name, &infrav1.WorkspaceTemplateApply{})
		return apply == nil || !apply.DeletionTimestamp.IsZero()
	}
	gone := func(name string) {
		change(env, name, &infrav1.WorkspaceTemplateApply{}, func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	}
	env.reconcile()
	assert.True(t, isDeleted("demo-kubeconfig-apply"))
	assert.True(t, isDeleted("demo-profile"))
	gone("demo-kubeconfig-apply")
	env.reconcile()
	assert.False(t, isDeleted(applyName), "the profile is still there")
	gone("demo-profile")
	env.reconcile()
	assert.True(t, isDeleted(applyName))
	require.NotNil(t, env.get())
	gone(applyName)
	env.reconcile()
	assert.Nil(t, env.get())
}

// A contended ResourceQuota answers with a conflict, too, and no watch reports its end.
func TestASecretThatAResourceQuotaDelaysIsWrittenAgainSoon(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraformMade()
	env.FailOn("apply demo-kubeconfig", apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "compute", errors.New("the object has been modified")))
	require.ErrorContains(t, env.try(), "resourcequotas", "an error makes the work queue try again")
	env.Refuse = nil
	env.reconcile()
	require.NotEmpty(t, env.published())
}

// Nothing is deleted while what is to be retained stands on what would be destroyed: neither the EKS cluster nor its profiles.
func TestNothingOfARetainedControlPlaneIsDeletedBeforeTheConflictIsResolved(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef(applyName), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer))
	recorded := func(name string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			builder.WithWorkspaceName(name)(apply)
			builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest))(apply)
			builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)(apply)
		})
	}
	env := newEnvironment(t, builder.DeletedCluster("demo"), controlPlane,
		builder.WorkspaceTemplateApply("demo-vpc", recorded("net"), builder.OwnedBy(builder.CAPTCluster("demo"))),
		builder.WorkspaceTemplateApply(applyName, ofTemplate("eks"), builder.OwnedBy(controlPlane), recorded("eks"), builder.WaitingForWorkspace("net", ""), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)),
		builder.WorkspaceTemplateApply("demo-profile", ofTemplate("fargate"), builder.OwnedBy(controlPlane), recorded("profile"), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup)))
	isDeleted := func(name string) bool {
		return !read(env, name, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero()
	}
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.False(t, isDeleted("demo-profile"))
	assert.False(t, isDeleted(applyName))
	assert.Equal(t, "True "+infrav1.DeletionPolicyConflictReason, env.summary()["Deleting"])
	assert.Contains(t, env.message("Deleting"), "Set spec.vpc.template.deletionPolicy of CAPTCluster demo to Retain, "+
		"or spec.deletionPolicy of WorkspaceTemplateApply "+applyName+" to Delete")
	assert.Empty(t, env.reconcile(), "at rest nothing is written")

	assert.Len(t, env.requests().Matching(t.Context(), nil), 1, "another policy of the VPC is noticed")
	change(env, "demo-vpc", &infrav1.WorkspaceTemplateApply{}, func(vpc *infrav1.WorkspaceTemplateApply) { vpc.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	env.reconcile()
	assert.True(t, isDeleted("demo-profile"))
}

// What a user of another namespace can do does not end the tokens of a control plane that had the name of the EKS cluster first. Of two
// control planes with the same name, the older one gets tokens.
func TestOnlyTheReferredWorkspaceTemplateApplyTakesAClusterName(t *testing.T) {
	const namespace = "a-secret-project"
	of := func(uid types.UID) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("theirs", builder.WithNamespace(namespace), builder.WithCreation(builder.Created.Add(-time.Hour)),
			builder.WithApplyRef("own"), builder.WithUID(uid))
	}
	other := of("theirs")
	claim := func(name string, age time.Duration, region string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithNamespace(namespace), builder.WithCreation(builder.Created.Add(-age)),
			builder.UpToDate(nil), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": region})}, options...)...)
	}
	owned := builder.OwnedBy(other)
	ofCAPTCluster := builder.OwnedBy(builder.CAPTCluster("theirs", builder.WithNamespace(namespace)))
	unnamed := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceName = "" })
	for name, row := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		taken bool
	}{
		"it refers to another one":             {claim("extra", time.Hour, builder.Region, owned), false},
		"it refers to one created later":       {claim("own", -time.Second, builder.Region, owned), false},
		"the name can still be changed":        {claim("own", time.Hour, builder.Region, owned, unnamed), false},
		"it refers to one of no control plane": {claim("own", time.Hour, builder.Region), false},
		"of a CAPTCluster":                     {claim("own", time.Hour, builder.Region, ofCAPTCluster), false},
		"its owner no longer exists":           {claim("own", time.Hour, builder.Region, builder.OwnedBy(of("before"))), false},
		"it had the name first":                {claim("own", time.Second, builder.Region, owned), true},
		"one of the same second":               {claim("own", 0, builder.Region, owned), true},
		"an older one of another region":       {claim("own", time.Second, "eu-west-1", owned), true},
		"an older one of no region so far":     {claim("own", time.Second, "", owned), true},
	} {
		t.Run(name, func(t *testing.T) {
			env, identity := withToken(t, "Token")
			require.NoError(t, env.Client.Create(t.Context(), other.DeepCopy()))
			require.NoError(t, env.Client.Create(t.Context(), row.apply))
			env.clock.Pass(10 * time.Minute)
			env.reconcile()
			if !row.taken {
				assert.Equal(t, 2, identity.Made)
				assert.Equal(t, "True KubeconfigReady", env.kubeconfigReady())
				return
			}
			assert.Equal(t, 1, identity.Made)
			assert.Equal(t, 5*time.Minute, env.again, "no watch reports that the other one lost its owner")
			assert.Contains(t, env.kubeconfigReady(), "False KubeconfigConflict no token is created for EKS cluster \"demo\": another CAPTControlPlane of this management cluster")
			assert.NotContains(t, env.kubeconfigReady(), "project", "details omitted")

			env.spec(func(c *controlplanev1.CAPTControlPlane) { withSource("Auto")(c) })
			env.reconcile()
			assert.False(t, holdsToken(env.published()), "Auto does without")

			require.NoError(t, env.Delete(t.Context(), row.apply))
			assert.Equal(t, demo(), kubeconfigsecret.OfSameCluster(env.Client)(t.Context(), row.apply), "its deletion causes a reconcile")
			env.reconcile()
			assert.True(t, holdsToken(env.published()))
		})
	}
}
