// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

func withApply(options ...builder.Option) *Facts {
	return &Facts{Observed: owner.Observed{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Live: builder.WorkspaceTemplateApply("demo-vpc", options...)}}}
}

// report computes the status, as if the WorkspaceTemplateApply had been written, and returns the step.
func report(captCluster *infrav1.CAPTCluster, f *Facts) owner.Step {
	p, err := plan(captCluster, f)
	if err != nil {
		panic(err)
	}
	p.Differs = false
	api := builder.Only{Object: f.Apply.Live}
	decision, err := (&adoption.Gate{Client: api, Uncached: api}).Check(context.Background(), captCluster)
	if err != nil {
		panic(err)
	}
	decision.Report(captCluster, situation(captCluster, f, p), func() { status(captCluster, f, p) })
	return p.Step
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
			return &Facts{
				Observed: owner.Observed{Cluster: builder.Cluster("demo", builder.WithEndpoint("eks.example.com", 443)), Apply: apply},
				EKS:      &validation.EKSClaim{ControlPlane: builder.CAPTControlPlane("demo"), Cluster: "demo"},
			}
		}
	}
	taken := validation.EKSClaim{
		ControlPlane: builder.CAPTControlPlane("other", builder.WithRegion("eu-west-1")), Cluster: "demo", Apply: builder.WorkspaceTemplateApply("other"),
		Template: builder.WorkspaceTemplate("eks"),
	}
	taken.Apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "other"}
	shows := func(reason string) func() *Facts {
		return func() *Facts { return withApply(builder.NotUpToDate(reason, "why")) }
	}
	living := []row{
		{"no WorkspaceTemplateApply", nil, with(owner.Facts{})},
		{"the user must decide", nil, with(owner.Facts{Candidates: []claim.Candidate{{Name: "by-hand"}}})},
		{"reference belongs to another owner", nil, with(owner.Facts{Conflict: "it belongs to CAPTCluster other"})},
		{"refused by the API server", nil, with(owner.Facts{Refused: assert.AnError})},
		{"not seen by its controller", nil, func() *Facts { return withApply() }},
		{"Terraform running", nil, shows(infrav1.ProvisioningReason)},
		{"template missing", nil, shows(infrav1.TemplateNotFoundReason)},
		{"provider down", nil, shows(infrav1.WorkspaceNotReconciledReason)},
		{"apply fails", nil, shows(infrav1.ApplyFailedReason)},
		{"create interrupted", nil, shows(infrav1.CreateInterruptedReason)},
		{"Workspace destroyed by another client", nil, shows(infrav1.WorkspaceDeletingReason)},
		{"being deleted by another client", nil, func() *Facts { return withApply(builder.UpToDate(outputs), builder.Deleting()) }},
		{"made", nil, func() *Facts { return made(outputs) }},
		{"made, without zones", nil, func() *Facts { return made(map[string]string{"vpc_id": "vpc-1"}) }},
		{"made, its id is not known", nil, func() *Facts { return made(nil) }},
		{"existing VPC", []builder.Option{builder.WithExistingVPC("vpc-0")}, with(owner.Facts{})},
	}
	nameless := living[0]
	all = append(all,
		nameless.but("no control plane", builder.WithGeneration(5), func(f *Facts) { f.EKS = nil }),
		nameless.but("EKS would refuse the name", builder.WithGeneration(5), func(f *Facts) { f.EKS.Cluster = "team1.blue" }),
		nameless.but("the name is taken", builder.WithGeneration(5), func(f *Facts) {
			f.EKS.ControlPlane.Spec.Region, f.EKS.Template, f.OtherClaims = "eu-west-1", builder.WorkspaceTemplate("eks"), []validation.EKSClaim{taken}
		}))
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
	text := []string{fmt.Sprintf("%s, %s", report(captCluster, r.facts()), s.State)}
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	once := captCluster.DeepCopy()
	report(captCluster, r.facts())
	assert.Equal(t, once, captCluster, "at rest nothing is written: %s", r.name)

	assert.Equal(t, captCluster.Generation, s.ObservedGeneration)
	conditionSummary := builder.ConditionSummary(s.Conditions)
	for _, condition := range slices.Sorted(maps.Keys(conditionSummary)) {
		text = append(text, condition+" "+conditionSummary[condition])
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
	alone, deleted := made(nil), made(nil)
	alone.ControlPlanes, deleted.ControlPlanes = []string{"a"}, []string{"a", "b"}
	deleted.Cluster = deleted.Cluster.DeepCopy()
	deleted.Cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for message, facts := range map[string]*Facts{
		"waiting for the deletion of CAPTControlPlane a, which uses the VPC" + desired.AcceptedWithoutCluster("demo"): alone,
		"waiting for the deletion of CAPTControlPlane a, b, which uses the VPC":                                       deleted,
		"waiting for WorkspaceTemplateApply demo-vpc to be deleted":                                                   withApply(builder.Deleting()),
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
		"null":                      nil,
		`["ap-1a"`:                  nil,
		`["ap-1a","ap-1c"]`:         {"ap-1a", "ap-1c"},
		" ap-1a , ap-1c ,":          {"ap-1a", "ap-1c"},
		"ap-1a":                     {"ap-1a"},
		`["ap-1a","ap-1c","ap-1a"]`: {"ap-1a", "ap-1c"}, // One per subnet.
	} {
		var names []string
		for _, domain := range failureDomains(made(map[string]string{"availability_zones": output})) {
			assert.Equal(t, ptr.To(true), domain.ControlPlane)
			assert.Empty(t, domain.Attributes, "nothing is known about a zone but its name")
			names = append(names, domain.Name)
		}
		assert.Equal(t, want, names, output)
	}
}

func TestVariables(t *testing.T) {
	byDefault := builder.CAPTCluster("demo")
	got := desired.VPCIntent(byDefault, "demo-cluster").Variables.Texts()
	assert.Equal(t, map[string]string{"cluster_name": "demo-cluster", "vpc_name": "demo-vpc", "region": "ap-northeast-1"}, got)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(got)), validation.VPCVariables(), "admission warns of variables that have no effect")

	mine := builder.CAPTCluster("demo", builder.WithRegion("us-gov-west-1"), builder.With(func(c *infrav1.CAPTCluster) {
		c.Spec.VPC.Template.Name = "net"
		c.Spec.VPC.Template.Variables = infrav1.TextVariables(map[string]string{"cidr": "10.0.0.0/16", "region": "x", "vpc_name": "x", "cluster_name": "x"})
	}))
	before := mine.DeepCopy()
	assert.Equal(t, map[string]string{"cluster_name": "demo-cluster", "vpc_name": "net", "region": "us-gov-west-1", "cidr": "10.0.0.0/16"},
		desired.VPCIntent(mine, "demo-cluster").Variables.Texts(), "CAPT's own win")
	assert.Equal(t, before, mine)
}

// legacyControlPlane is as CAPT v0.3 left it.
func legacyControlPlane() *controlplanev1.CAPTControlPlane {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks"))
	controlPlane.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(builder.Created)}}
	return controlPlane
}

// An existing VPC has nothing to adopt, so that the control plane shows whether the cluster was adopted.
func TestACAPTClusterWithAnExistingVPCIsAdoptedWithItsControlPlane(t *testing.T) {
	captCluster := ofV03(owned, builder.WithExistingVPC("vpc-1"))
	apply := builder.WorkspaceTemplateApply("demo-eks", builder.OwnedBy(legacyControlPlane()), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.TemplateRef = legacyControlPlane().Spec.WorkspaceTemplateRef
		}))
	env := newEnvironment(t, builder.Cluster("demo", builder.WithEndpoint("https://eks.example.com", 443)), captCluster, legacyControlPlane(), apply)

	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.conditionSummary()["AdoptionRequired"])
	assert.Contains(t, env.message("AdoptionRequired"), "CAPTControlPlane demo of the same Cluster")
	assert.Empty(t, env.get().Status.Endpoint)
	assert.Zero(t, env.get().Status.ObservedGeneration)

	update(env, env.apply("demo-eks"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.WorkspaceName = "demo-eks" })
	env.reconcile()
	assert.Equal(t, "True Ready", env.conditionSummary()["Ready"])
	assert.Equal(t, "False AdoptionNotRequired", env.conditionSummary()["AdoptionRequired"])
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, env.get().Finalizers)
	assert.Equal(t, int64(1), env.get().Status.ObservedGeneration)
}

// The VPC was built once. To create what CAPT v0.3 recorded a second time would build another one.
func TestWhatV03RecordedIsNotCreatedAgain(t *testing.T) {
	captCluster := ofV03(owned, builder.WithApplyRef("demo-vpc"))
	captCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "demo-vpc"}
	env := newEnvironment(t, builder.Cluster("demo"), captCluster)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.conditionSummary()["AdoptionRequired"])
	assert.Equal(t, "True Ready", env.conditionSummary()["Ready"])

	update(env, env.get(), func(c *infrav1.CAPTCluster) { c.Spec.WorkspaceTemplateApplyRef.Name = "another-vpc" })
	assert.Contains(t, env.reconcile(), "apply another-vpc", "the user decided")
}

// ofV03 is a CAPTCluster whose VPC CAPT v0.3 created, before its first reconcile.
func ofV03(options ...builder.Option) *infrav1.CAPTCluster {
	captCluster := builder.CAPTCluster("demo", options...)
	captCluster.Status.VPC.ID, captCluster.Status.Initialization.Provisioned = "vpc-1", ptr.To(true)
	captCluster.Status.Conditions = []metav1.Condition{legacyVPC(metav1.ConditionTrue, "VPCCreated")}
	return captCluster
}

// legacyVPC is the condition of CAPT v0.3, which has no observedGeneration.
func legacyVPC(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: infrav1.VPCReadyCondition, Status: status, Reason: reason, Message: "as v0.3 said", LastTransitionTime: metav1.NewTime(builder.Created)}
}

// unadopted are the facts before the adoption.
func unadopted() *Facts {
	return &Facts{Observed: owner.Observed{Cluster: builder.Cluster("demo"), Apply: owner.Facts{Block: &desired.Blocked{Reason: engine.DecisionReason, Message: "demo-vpc"}, Held: true}}}
}

// What CAPT v0.3 reported is what is so until the adoption. Only conditions are written, and those about adoption and pause alone, but
// for Ready, which v0.3 wrote as a field.
func TestTheStatusIsKeptBeforeAdoption(t *testing.T) {
	notReady := ofV03()
	notReady.Status.Initialization.Provisioned = ptr.To(false)
	notReady.Status.Conditions = []metav1.Condition{legacyVPC(metav1.ConditionFalse, "VPCCreating")}
	rolledBack := ofV03()
	rolledBack.Status.ObservedGeneration = 1
	report(rolledBack, made(map[string]string{"vpc_id": "vpc-1"}))
	noCluster, paused := unadopted(), unadopted()
	noCluster.Cluster, paused.Paused = nil, "annotation"
	for name, row := range map[string]struct {
		captCluster *infrav1.CAPTCluster
		facts       *Facts
		want        map[string]string
	}{
		"it was ready":       {ofV03(), unadopted(), map[string]string{"VPCReady": "True VPCCreated", "Ready": "True Ready"}},
		"without a Cluster":  {ofV03(), noCluster, map[string]string{"VPCReady": "True VPCCreated", "Ready": "True Ready"}},
		"it is paused":       {ofV03(), paused, map[string]string{"VPCReady": "True VPCCreated", "Ready": "True Ready", "Paused": "True Paused"}},
		"it was not ready":   {notReady, unadopted(), map[string]string{"VPCReady": "False VPCCreating", "Ready": "False VPCCreating"}},
		"it was rolled back": {rolledBack, unadopted(), map[string]string{"VPCReady": "True VPCReady", "Ready": "True Ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := row.captCluster.DeepCopy()
			assert.Equal(t, owner.Wait, report(row.captCluster, row.facts))
			row.want["AdoptionRequired"] = "True AdoptionRequired"
			assert.Equal(t, row.want, builder.ConditionSummary(row.captCluster.Status.Conditions))
			once := row.captCluster.DeepCopy()
			report(row.captCluster, row.facts)
			assert.Equal(t, once, row.captCluster, "at rest nothing is written")
			before.Status.Conditions, once.Status.Conditions = nil, nil
			assert.Equal(t, before, once)
		})
	}
}

// A CAPTCluster that has no status has none to lose, and says why it is not built.
func TestAnEmptyStatusIsNotKept(t *testing.T) {
	captCluster, facts := builder.CAPTCluster("demo"), unadopted()
	for range 2 {
		report(captCluster, facts)
		assert.Equal(t, "False AdoptionRequired", builder.ConditionSummary(captCluster.Status.Conditions)["Ready"])
	}
	facts.Apply.Block.Message = "another"
	report(captCluster, facts)
	assert.Contains(t, conditions.GetMessage(captCluster, "Ready"), "another")
}

func TestAnAdoptedCAPTClusterStaysReadyUntilItIsObserved(t *testing.T) {
	paused := withApply()
	paused.Paused = "annotation"
	for want, facts := range map[string]*Facts{
		"":                  withApply(), // Nothing is written.
		"True Ready":        made(map[string]string{"vpc_id": "vpc-1"}),
		"False ApplyFailed": withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")),
	} {
		captCluster := ofV03()
		report(captCluster, facts)
		assert.Equal(t, want, builder.ConditionSummary(captCluster.Status.Conditions)["Ready"])
		assert.Equal(t, want == "", assert.ObjectsAreEqual(ofV03(), captCluster))
	}
	captCluster := ofV03()
	report(captCluster, paused)
	assert.Equal(t, map[string]string{"VPCReady": "True VPCCreated", "Paused": "True Paused"}, builder.ConditionSummary(captCluster.Status.Conditions))
}

func TestATimeoutKeepsTheCause(t *testing.T) {
	for name, row := range map[string]struct {
		options []builder.Option
		running time.Duration
		change  func(f *Facts)
		want    string
	}{
		"by default":           {nil, 15 * time.Minute, nil, "VPCReadyTimeout"},
		"not yet":              {nil, 15*time.Minute - 1, nil, "ApplyFailed"},
		"another timeout":      {[]builder.Option{builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.TimeoutSeconds = 60 })}, time.Minute, nil, "VPCReadyTimeout"},
		"paused":               {nil, time.Hour, func(f *Facts) { f.Paused = "annotation" }, "ApplyFailed"},
		"up to date meanwhile": {nil, time.Hour, func(f *Facts) { f.Apply = made(map[string]string{"vpc_id": "vpc-1"}).Apply }, "Ready"},
	} {
		captCluster, facts := builder.CAPTCluster("demo", row.options...), withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "no more VPCs"))
		facts.Running.Terraform = ptr.To(row.running)
		if row.change != nil {
			row.change(facts)
		}
		report(captCluster, facts)
		assert.Equal(t, row.want, conditions.GetReason(captCluster, infrav1.ReadyCondition), name)
		if row.want == infrav1.VPCReadyTimeoutReason {
			message := conditions.GetMessage(captCluster, infrav1.ReadyCondition)
			assert.Contains(t, message, "(spec.vpc.template.timeoutSeconds): WorkspaceTemplateApply demo-vpc: no more VPCs", name)
		}
	}
}

func TestAnOutputWithoutValueIsNoVPC(t *testing.T) {
	declares := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Template.Spec.ForProvider.Module = `output "vpc_id" { value = null }`
	}))
	for name, row := range map[string]struct {
		outputs  map[string]string
		template *infrav1.WorkspaceTemplate
		want     string
	}{
		"a list":             {map[string]string{"vpc_id": `["vpc-1"]`}, nil, `output "vpc_id" of its module is a list or an object, and must be a string. Correct the expression of the output`},
		"null as a text":     {map[string]string{"vpc_id": "null"}, nil, `output "vpc_id" of its module has the value "null", which means that there is none. Correct the expression of the output`},
		"a line break":       {map[string]string{"vpc_id": "vpc-1\n"}, nil, `has the value "vpc-1\n", with a space or a line break`},
		"None":               {map[string]string{"vpc_id": "None"}, declares, `has the value "None"`},
		"empty":              {map[string]string{"vpc_id": ""}, nil, `output "vpc_id" of its module is empty. Correct the expression of the output`},
		"null":               {map[string]string{"x": "y"}, declares, `output "vpc_id" of its module is null, or sensitive. Correct the expression of the output`},
		"no output":          {nil, builder.WorkspaceTemplate("vpc"), `its module has no output "vpc_id". Add the output to the module`},
		"a module elsewhere": {nil, nil, `its module has no output "vpc_id". Add the output to the module`},
	} {
		captCluster, facts := builder.CAPTCluster("demo"), made(row.outputs)
		facts.Template.Template = row.template
		captCluster.Status.VPC.ID = "null" // An earlier version recorded it.
		report(captCluster, facts)
		assert.Equal(t, infrav1.VPCIDMissingReason, conditions.GetReason(captCluster, infrav1.ReadyCondition), name)
		assert.Contains(t, conditions.GetMessage(captCluster, infrav1.ReadyCondition), row.want, name)

		facts.Apply = made(map[string]string{"vpc_id": "vpc-1"}).Apply
		report(captCluster, facts)
		assert.Equal(t, infrav1.VPCStatus{ID: "vpc-1"}, captCluster.Status.VPC, name)
	}
}

func TestAnotherVPCIsAnEvent(t *testing.T) {
	of := func(id string) *infrav1.CAPTCluster {
		return builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = id }))
	}
	assert.Empty(t, vpcEvents(of(""), of("vpc-1")))
	assert.Empty(t, vpcEvents(of("vpc-1"), of("vpc-1")))
	assert.Contains(t, vpcEvents(of("vpc-1"), of("vpc-2"))[0].Message, "was vpc-1 and is vpc-2")
}

// What blocks Terraform has no timeout of Terraform, which may run with what was written before.
func TestWhichTimeoutAVPCHas(t *testing.T) {
	f := &Facts{Observed: owner.Observed{Running: owner.Running{Terraform: ptr.To(time.Minute)}}}
	condition := engine.False(infrav1.VPCReadyCondition, infrav1.ProvisioningReason, "")
	p := &owner.Plan{Owner: owner.Owner{Object: builder.CAPTCluster("demo")}}
	assert.Equal(t, "spec.vpc.template.timeoutSeconds", f.timeoutOf(builder.CAPTCluster("demo"), p, &condition).Field)
	p.Blocked = &condition
	assert.Nil(t, f.timeoutOf(builder.CAPTCluster("demo"), p, &condition))
	p.Blocked, f.Paused = nil, "annotation"
	assert.Nil(t, f.timeoutOf(builder.CAPTCluster("demo"), p, &condition))
}

func TestAPausedDeletionWaitsForTheEndOfThePause(t *testing.T) {
	f := &Facts{ControlPlanes: []string{"demo"}}
	assert.Contains(t, deletingCondition(f).Message, "CAPTControlPlane")
	f.Paused = "annotation"
	assert.Contains(t, deletingCondition(f).Message, "annotation")
}
