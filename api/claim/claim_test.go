// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func of(template infrav1.WorkspaceTemplateReference) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef = template })
}

var eks = of(infrav1.WorkspaceTemplateReference{Name: "eks"})

func TestOwnedAppliesAreCandidatesIfTheOwnerHasNoTemplate(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	candidates := candidatesOf(claim.Expectation{SchemeName: "demo-vpc"}, owner, []infrav1.WorkspaceTemplateApply{*builder.WorkspaceTemplateApply("by-hand", eks, builder.OwnedBy(owner))})
	assert.Equal(t, []claim.Candidate{{Name: "by-hand", Evidence: []claim.Evidence{claim.Owned}}}, candidates)
}

func TestCandidateStringListsTheEvidence(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	want := claim.Expectation{SchemeName: "demo-vpc", Recorded: "demo-vpc"}
	candidates := candidatesOf(want, owner, []infrav1.WorkspaceTemplateApply{*builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner))})
	assert.Equal(t, "demo-vpc (status records it, this object owns it, its name follows the naming scheme)", candidates[0].String())
}

func TestConflict(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	want := func(change func(*claim.Expectation)) claim.Expectation {
		expectation := claim.Expectation{
			SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"},
			Variables: map[string]string{"cluster_name": "demo", "vpc_name": "net", "region": "eu-west-1"},
		}
		if change != nil {
			change(&expectation)
		}
		return expectation
	}
	apply := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		made := builder.WithVariables(map[string]string{"cluster_name": "demo", "vpc_name": "net"})
		return builder.WorkspaceTemplateApply("demo-vpc", append([]builder.Option{made}, options...)...)
	}
	strange := builder.WithVariables(map[string]string{"cluster_name": "another"})
	const anotherTemplate = "it refers to another WorkspaceTemplate"
	owned, recorded := builder.OwnedBy(owner), func(e *claim.Expectation) { e.Recorded = "demo-vpc" }
	chosen := func(e *claim.Expectation) { e.SchemeName = "x-vpc" }

	for name, row := range map[string]struct {
		want     claim.Expectation
		apply    *infrav1.WorkspaceTemplateApply
		conflict string // Empty when there is no conflict.
	}{
		"its own, of whatever identity":                 {want(nil), apply(strange, owned), ""},
		"its own, without an identity":                  {want(nil), apply(builder.WithVariables(nil), owned), ""},
		"its own, of another template":                  {want(nil), apply(owned, eks), anotherTemplate},
		"another one of its own":                        {want(chosen), apply(owned, eks), anotherTemplate},
		"its own, of another template, recorded":        {want(recorded), apply(owned, eks), ""},
		"owned, unknown Cluster":                        {want(func(e *claim.Expectation) { e.Variables["cluster_name"] = "" }), apply(owned), ""},
		"another's":                                     {want(nil), apply(builder.OwnedBy(builder.CAPTCluster("other"))), "belongs to CAPTCluster other"},
		"owned by an earlier object of the same name":   {want(nil), apply(builder.OwnedBy(builder.CAPTCluster("demo", builder.WithUID("before")))), "belongs to CAPTCluster demo"},
		"another's, though it was its own":              {want(recorded), apply(builder.OwnedBy(builder.CAPTCluster("other"))), "belongs to"},
		"without owner, as it would be created":         {want(nil), apply(), ""},
		"explicit namespace of the template":            {want(nil), apply(of(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: builder.Namespace})), ""},
		"another template":                              {want(nil), apply(eks), anotherTemplate},
		"a template of another namespace":               {want(nil), apply(of(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"})), anotherTemplate},
		"another cluster":                               {want(nil), apply(strange), "it has another cluster_name"},
		"no cluster":                                    {want(nil), apply(builder.WithVariables(nil)), "it has no cluster_name"},
		"an empty name of the cluster":                  {want(nil), apply(builder.WithVariables(map[string]string{"cluster_name": ""})), "it has no cluster_name"},
		"another VPC":                                   {want(nil), apply(builder.WithVariables(map[string]string{"cluster_name": "demo", "vpc_name": "other"})), "it has another vpc_name"},
		"no name of the VPC":                            {want(nil), apply(builder.WithVariables(map[string]string{"cluster_name": "demo"})), ""},
		"a VPC, which a control plane does not name":    {want(func(e *claim.Expectation) { delete(e.Variables, "vpc_name") }), apply(), ""},
		"unknown Cluster":                               {want(func(e *claim.Expectation) { e.Variables["cluster_name"] = "" }), apply(), "before the Cluster of this object exists"},
		"unknown Cluster, no cluster_name":              {want(func(e *claim.Expectation) { e.Variables["cluster_name"] = "" }), apply(builder.WithVariables(nil)), "before the Cluster of this object exists"},
		"a name that the user chose":                    {want(chosen), apply(), ""},
		"a name that the user chose, another template":  {want(chosen), apply(eks), anotherTemplate},
		"a name that the user chose, another cluster":   {want(chosen), apply(strange), "it has another cluster_name"},
		"its own without owner reference":               {want(recorded), apply(strange), ""},
		"its own without owner reference, and template": {want(recorded), apply(strange, eks), ""},
		"recorded, unknown Cluster":                     {want(func(e *claim.Expectation) { recorded(e); e.Variables["cluster_name"] = "" }), apply(), ""},
		"another one than it had recorded":              {want(func(e *claim.Expectation) { e.Recorded = "by-hand" }), apply(strange), "it has another cluster_name"},
	} {
		t.Run(name, func(t *testing.T) {
			assertConflict(t, row.conflict, claim.Conflict(owner, row.want, row.apply))
		})
	}
}

// assertConflict compares a conflict with a part of its message, which is empty for none.
func assertConflict(t *testing.T, want, got string) {
	t.Helper()
	if want == "" {
		assert.Empty(t, got)
		return
	}
	assert.Contains(t, got, want)
	assert.Contains(t, got, "nothing is written")
}

func TestConflictMessages(t *testing.T) {
	want := claim.Expectation{SchemeName: "demo-vpc", Template: infrav1.WorkspaceTemplateReference{Name: "vpc"}, Variables: map[string]string{"cluster_name": "demo"}}
	secret := builder.WorkspaceTemplateApply("by-hand", builder.WithVariables(map[string]string{"cluster_name": "hunter2"}))
	assert.Equal(t, "nothing is written: WorkspaceTemplateApply by-hand does not match what this object would create: it has another cluster_name. If another one is meant, correct the reference (if it is set already, recreate this object); if by-hand belongs to this object, first give both the same template and cluster_name",
		claim.Conflict(builder.CAPTCluster("demo"), want, secret))

	want.Advice = "Do not delete this object" // Recreating the object would destroy its cloud resources.
	for _, apply := range []*infrav1.WorkspaceTemplateApply{secret, builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTCluster("other")))} {
		message := claim.Conflict(builder.CAPTCluster("demo"), want, apply)
		assert.Contains(t, message, want.Advice)
		assert.NotContains(t, message, "ecreate this object")
	}
}

func candidatesOf(want claim.Expectation, owner metav1.Object, applies []infrav1.WorkspaceTemplateApply) []claim.Candidate {
	return claim.CandidatesBy(applies, func(apply *infrav1.WorkspaceTemplateApply) []claim.Evidence { return want.EvidenceFor(owner, apply) })
}
