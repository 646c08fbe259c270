// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func of(template infrav1.WorkspaceTemplateReference) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef = template })
}

var eks = of(infrav1.WorkspaceTemplateReference{Name: "eks"})

func TestCandidates(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	namesake := builder.CAPTCluster("demo", builder.WithUID("another"))
	owned, ofOlder := builder.OwnedBy(owner), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	apply := func(name string, options ...builder.Option) infrav1.WorkspaceTemplateApply {
		return *builder.WorkspaceTemplateApply(name, options...)
	}
	in := func(applies ...infrav1.WorkspaceTemplateApply) []infrav1.WorkspaceTemplateApply { return applies }
	want := claim.Expectation{SchemeName: "demo-vpc", Recorded: "recorded", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"}}

	for name, row := range map[string]struct {
		applies []infrav1.WorkspaceTemplateApply
		want    []string
	}{
		"nothing there": {nil, nil},
		// The name is in use, so the user must decide what happens to the object.
		"name of the naming scheme, of a Fargate profile": {in(apply("demo-vpc", of(infrav1.WorkspaceTemplateReference{Name: "vpc"}), builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "batch"}))), []string{"demo-vpc"}},
		"name of the naming scheme, any owner":            {in(apply("demo-vpc")), []string{"demo-vpc"}},
		"name of the naming scheme, another template":     {in(apply("demo-vpc", eks, owned)), []string{"demo-vpc"}},
		"recorded by the owner":                           {in(apply("recorded")), []string{"recorded"}},
		"recorded by the owner, another template":         {in(apply("recorded", eks, owned)), []string{"recorded"}},
		"owned, another name":                             {in(apply("made-by-hand", owned)), []string{"made-by-hand"}},
		"its template in other words": {
			in(apply("made-by-hand", owned, of(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: builder.Namespace}))), []string{"made-by-hand"}},
		"helpers of CAPT v0.3": {
			in(apply("demo-kubeconfig-apply", owned, of(infrav1.WorkspaceTemplateReference{Name: "kubeconfig"})), apply("demo-spot-role-x", owned, eks)), nil},
		"a template of that name in another namespace": {
			in(apply("made-by-hand", owned, of(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "other"}))), nil},
		"both in one count once":                              {in(apply("demo-vpc", owned)), []string{"demo-vpc"}},
		"owned by an object of the same name and another UID": {in(apply("made-by-hand", builder.OwnedBy(namesake))), nil},
		"a name that only begins like the scheme's":           {in(apply("demo-vpc-2")), nil},
		"CAPT v0.3, no owner, same cluster":                   {in(apply("made-by-hand", ofOlder)), []string{"made-by-hand"}},
		"CAPT v0.3, no owner, no cluster_name":                {in(apply("made-by-hand", ofOlder, builder.WithVariables(nil))), []string{"made-by-hand"}},
		"CAPT v0.3, no owner, another cluster": {
			in(apply("made-by-hand", ofOlder, builder.WithVariables(map[string]string{"cluster_name": "other"}))), nil},
		"CAPT v0.3, no owner, another template":                  {in(apply("made-by-hand", ofOlder, eks)), []string{"made-by-hand"}},
		"CAPT v0.3, no owner, another template, no cluster_name": {in(apply("made-by-hand", ofOlder, eks, builder.WithVariables(nil))), nil},
		"CAPT v0.3, no owner, another template and cluster": {
			in(apply("made-by-hand", ofOlder, eks, builder.WithVariables(map[string]string{"cluster_name": "other"}))), nil},
		"CAPT v0.3, owned, another template":       {in(apply("made-by-hand", ofOlder, eks, owned, builder.WithVariables(nil))), []string{"made-by-hand"}},
		"this version, owned, another template":    {in(apply("made-by-hand", eks, owned)), nil},
		"a helper of CAPT v0.3's, not adopted yet": {in(apply("demo-kubeconfig-apply", ofOlder, owned, eks)), nil},
		"CAPT v0.3, of a Fargate profile": {
			in(apply("made-by-hand", ofOlder, eks, builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "web"}))), nil},
		"CAPT v0.3, of a machine": {
			in(apply("made-by-hand", ofOlder, eks, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.OwnerReferences = []metav1.OwnerReference{{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CaptMachine", Name: "worker", UID: "machine"}}
			}))), nil},
		"CAPT v0.3, adopted separately": {
			in(apply("made-by-hand", ofOlder, builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.WorkspaceName = "made-by-hand" }))), nil},
		"CAPT v0.3, owned by another object": {in(apply("made-by-hand", ofOlder, builder.OwnedBy(namesake))), nil},
		"several are sorted":                 {in(apply("z", owned), apply("demo-vpc"), apply("stranger"), apply("a", owned)), []string{"a", "demo-vpc", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			candidates := claim.CandidatesBy(row.applies, func(apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
				if found := want.EvidenceFor(owner, apply); len(found) > 0 {
					return found
				}
				return legacy.Evidence(want, owner, apply)
			})
			var names []string
			for _, candidate := range candidates {
				assert.NotEmpty(t, candidate.Evidence, candidate.Name)
				names = append(names, candidate.Name)
			}
			ownedNames := claim.Names(candidates, claim.Owned)
			assert.Equal(t, row.want, names)
			assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return !slices.ContainsFunc(row.applies, func(a infrav1.WorkspaceTemplateApply) bool {
					return a.Name == name && len(a.OwnerReferences) == 1
				})
			}), ownedNames)
		})
	}
}

// CAPT v0.3 set observedGeneration of owners neither in status nor in conditions.
func TestLegacyStatusIsRecognized(t *testing.T) {
	old, own := metav1.Condition{Type: "VPCReady"}, metav1.Condition{Type: "AdoptionRequired", ObservedGeneration: 1}
	for name, row := range map[string]struct {
		observed   int64
		conditions []metav1.Condition
		want       bool
	}{
		"new":                              {0, nil, false},
		"as v0.3 left it":                  {0, []metav1.Condition{old}, true},
		"with a condition of this version": {0, []metav1.Condition{old, own}, true},
		"of this version":                  {1, []metav1.Condition{own}, false},
		"observed by this version":         {1, []metav1.Condition{old, own}, false},
		"new, and a request was refused":   {0, []metav1.Condition{own}, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, legacy.LegacyStatus(row.observed, row.conditions)) })
	}
}

// Clients read the Secret by its name, and another name would change the Workspace.
func TestConnectionSecretOfAnExistingApplyIsKept(t *testing.T) {
	intent := desired.Intent{Variables: infrav1.TextVariables(map[string]string{"cluster_name": "demo"}), ConnectionSecret: "demo-vpc-connection"}
	recorded := func(name string, options ...builder.Option) builder.Option {
		return builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest, options...))
	}
	for name, row := range map[string]struct {
		options []builder.Option
		want    string
	}{
		"a new one":                               {nil, "demo-vpc-connection"},
		"another connection Secret":               {[]builder.Option{builder.WithConnectionSecret("mine", "default")}, "mine"},
		"adopted, without one":                    {[]builder.Option{recorded("demo-vpc", builder.InClusterScope())}, ""},
		"adopted, with one":                       {[]builder.Option{recorded("demo-vpc", builder.InClusterScope()), builder.WithConnectionSecret("mine", "default")}, "mine"},
		"created by this version, Secret removed": {[]builder.Option{recorded(naming.Workspace(terraform.ScopeCluster, types.NamespacedName{Namespace: "default", Name: "demo-vpc"}), builder.InClusterScope())}, "demo-vpc-connection"},
		"created by this version in a namespace, Secret removed": {[]builder.Option{recorded("demo-vpc")}, "demo-vpc-connection"},
	} {
		t.Run(name, func(t *testing.T) {
			apply := builder.WorkspaceTemplateApply("demo-vpc", row.options...)
			assert.Equal(t, row.want, intent.For(apply).ConnectionSecret)
			written := intent.AppliedTo(apply).Spec.WriteConnectionSecretToRef
			if row.want == "" {
				assert.Nil(t, written)
				return
			}
			assert.Equal(t, row.want, written.Name)
		})
	}
}

func TestIsPending(t *testing.T) {
	owner := builder.CAPTControlPlane("demo")
	ofOlder := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	ofMachine := builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.Group + "/v1beta1", Kind: "CaptMachine", Name: "demo", UID: "demo"}}
	})
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	required := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionTrue}}
	notRequired := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionFalse, ObservedGeneration: 1}}
	refused := []metav1.Condition{{Type: infrav1.AdoptionRequiredCondition, Status: metav1.ConditionUnknown, ObservedGeneration: 1}}
	old := []metav1.Condition{{Type: "VPCReady", Status: metav1.ConditionTrue}}
	network := func(change func(*infrav1.CAPTCluster), options ...builder.Option) metav1.Object {
		return builder.CAPTCluster("demo", append(options, builder.With(change))...)
	}
	controlPlane := func(change func(*controlplanev1.CAPTControlPlane), options ...builder.Option) metav1.Object {
		return builder.CAPTControlPlane("demo", append(options, builder.With(change))...)
	}

	for name, row := range map[string]struct {
		object metav1.Object
		want   bool
	}{
		"a new WorkspaceTemplateApply":                 {builder.WorkspaceTemplateApply("x"), false},
		"CAPT v0.3":                                    {builder.WorkspaceTemplateApply("x", ofOlder), true},
		"CAPT v0.3, being deleted":                     {builder.WorkspaceTemplateApply("x", builder.Deleting(), ofOlder), true},
		"CAPT v0.3, retained":                          {builder.WorkspaceTemplateApply("x", ofOlder, retain), true},
		"adopted":                                      {builder.WorkspaceTemplateApply("x", ofOlder, builder.WithWorkspaceName("x")), false},
		"a helper":                                     {builder.WorkspaceTemplateApply("demo-kubeconfig-apply", ofOlder, builder.OwnedBy(owner)), true},
		"a helper that is left alone":                  {builder.WorkspaceTemplateApply("demo-kubeconfig-apply", ofOlder, retain, builder.OwnedBy(owner)), false},
		"of a CaptMachine":                             {builder.WorkspaceTemplateApply("demo-machine", ofOlder, ofMachine), true},
		"of a CaptMachine, left alone":                 {builder.WorkspaceTemplateApply("demo-machine", ofOlder, ofMachine, retain), false},
		"the control plane's own, retained":            {builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", ofOlder, retain, builder.OwnedBy(owner)), true},
		"a new CAPTCluster":                            {builder.CAPTCluster("demo"), false},
		"a CAPTCluster with AdoptionRequired":          {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = required }), true},
		"a CAPTCluster that does not ask":              {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = notRequired }), false},
		"a CAPTCluster with a refused request":         {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = refused }), true},
		"a CAPTCluster that was not looked at yet":     {network(func(c *infrav1.CAPTCluster) { c.Status.Conditions = old }, builder.WithApplyRef("x")), true},
		"one from Git beside a Workspace of CAPT v0.3": {builder.WorkspaceTemplateApply("x", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.Conditions = required })), true},
		"a built CAPTCluster without a reference":      {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }), true},
		"a built CAPTCluster with a reference":         {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }, builder.WithApplyRef("x")), false},
		"a CAPTCluster with an existing VPC":           {network(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" }, builder.WithExistingVPC("vpc-1")), false},
		"a new CAPTControlPlane":                       {owner, false},
		"a CAPTControlPlane with AdoptionRequired":     {controlPlane(func(c *controlplanev1.CAPTControlPlane) { c.Status.Conditions = required }), true},
		"a built CAPTControlPlane without a reference": {builder.CAPTControlPlane("demo", builder.WithEndpoint("demo.example.com", 443)), true},
		"a built CAPTControlPlane with a reference":    {builder.CAPTControlPlane("demo", builder.WithEndpoint("demo.example.com", 443), builder.WithApplyRef("x")), false},
		"a WorkspaceTemplate":                          {builder.WorkspaceTemplate("x"), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, legacy.IsPending(row.object)) })
	}
}

func TestWhyAnAdoptionIsNotProven(t *testing.T) {
	changes := func(c infrav1.PlannedChanges) infrav1.RevisionPreview {
		return infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &c}
	}
	for want, found := range map[string]infrav1.RevisionPreview{
		"Terraform would update aws_eks_cluster.this, and 1 more": changes(infrav1.PlannedChanges{
			Counts:    []infrav1.PlannedCount{{Action: infrav1.PlanUpdate, Count: 2}},
			Resources: []infrav1.PlannedResource{{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: infrav1.PlanUpdate}},
		}),
		"Terraform would change something: the log is gone":                      changes(infrav1.PlannedChanges{Unknown: "the log is gone"}),
		"Terraform would change something: the Terraform state has no resources": {Result: infrav1.PreviewChanges, Message: "the Terraform state has no resources."},
		"Terraform would change something":                                       {Result: infrav1.PreviewChanges},
		"its plan fails: no":                                                     {Result: infrav1.PreviewFailed, Message: "no"},
	} {
		assert.Equal(t, want, overview.WhyNotEmpty(found))
	}
}
