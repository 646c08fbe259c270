/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package adoption_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestCandidates(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	namesake := builder.CAPTCluster("demo", builder.WithUID("another"))
	apply := func(name string, options ...builder.Option) infrav1.WorkspaceTemplateApply {
		return *builder.WorkspaceTemplateApply(name, options...)
	}

	for name, row := range map[string]struct {
		applies []infrav1.WorkspaceTemplateApply
		want    []string
	}{
		"nothing there": {nil, nil},
		"one of the name that the scheme gives, whoever owns it": {
			[]infrav1.WorkspaceTemplateApply{apply("demo-vpc")}, []string{"demo-vpc"}},
		"one of another name that the owner owns": {
			[]infrav1.WorkspaceTemplateApply{apply("made-by-hand", builder.OwnedBy(owner))}, []string{"made-by-hand"}},
		"both in one count once": {
			[]infrav1.WorkspaceTemplateApply{apply("demo-vpc", builder.OwnedBy(owner))}, []string{"demo-vpc"}},
		"owned by an object of the same name and another UID": {
			[]infrav1.WorkspaceTemplateApply{apply("made-by-hand", builder.OwnedBy(namesake))}, nil},
		"a name that only begins like the scheme's": {
			[]infrav1.WorkspaceTemplateApply{apply("demo-vpc-2")}, nil},
		"several are sorted": {
			[]infrav1.WorkspaceTemplateApply{
				apply("z", builder.OwnedBy(owner)), apply("demo-vpc"), apply("stranger"), apply("a", builder.OwnedBy(owner)),
			}, []string{"a", "demo-vpc", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			names, owned := adoption.Candidates(owner, "demo-vpc", row.applies)
			assert.Equal(t, row.want, names)
			for _, name := range owned {
				assert.Contains(t, names, name)
				assert.True(t, slices.ContainsFunc(row.applies, func(a infrav1.WorkspaceTemplateApply) bool {
					return a.Name == name && len(a.OwnerReferences) == 1 && a.OwnerReferences[0].UID == owner.UID
				}))
			}
		})
	}
}

func TestWhatAnOwnerMayTake(t *testing.T) {
	owner := builder.CAPTCluster("demo")
	want := func(change func(*adoption.Expectation)) adoption.Expectation {
		expectation := adoption.Expectation{
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
	template := func(ref infrav1.WorkspaceTemplateReference) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef = ref })
	}

	for name, row := range map[string]struct {
		want     adoption.Expectation
		apply    *infrav1.WorkspaceTemplateApply
		conflict string // Empty when it may be taken.
	}{
		"its own, whatever it holds":         {want(nil), apply(strange, builder.OwnedBy(owner)), ""},
		"another's":                          {want(nil), apply(builder.OwnedBy(builder.CAPTCluster("other"))), "belongs to CAPTCluster other"},
		"that of an owner of the same name":  {want(nil), apply(builder.OwnedBy(builder.CAPTCluster("demo", builder.WithUID("before")))), "belongs to CAPTCluster demo"},
		"another's, though it was its own":   {want(func(e *adoption.Expectation) { e.Recorded = "demo-vpc" }), apply(builder.OwnedBy(builder.CAPTCluster("other"))), "belongs to"},
		"nobody's, as it would be made":      {want(nil), apply(), ""},
		"the namespace of the template said": {want(nil), apply(template(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: builder.Namespace})), ""},
		"another template":                   {want(nil), apply(template(infrav1.WorkspaceTemplateReference{Name: "eks"})), "template is another one"},
		"a template of another namespace":    {want(nil), apply(template(infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "shared"})), "template is another one"},
		"another cluster":                    {want(nil), apply(strange), "variable cluster_name is another one"},
		"no cluster":                         {want(nil), apply(builder.WithVariables(nil)), "variable cluster_name is another one"},
		"another VPC": {want(nil), apply(builder.WithVariables(map[string]string{"cluster_name": "demo", "vpc_name": "other"})),
			"variable vpc_name is another one"},
		"no name of the VPC":                         {want(nil), apply(builder.WithVariables(map[string]string{"cluster_name": "demo"})), ""},
		"a VPC, which a control plane does not name": {want(func(e *adoption.Expectation) { delete(e.Variables, "vpc_name") }), apply(), ""},
		"while the Cluster is not known": {want(func(e *adoption.Expectation) { e.Variables["cluster_name"] = "" }),
			apply(builder.WithVariables(nil)), "variable cluster_name is another one"},
		"a name that a person chose":       {want(func(e *adoption.Expectation) { e.SchemeName = "x-vpc" }), apply(strange), ""},
		"its own without owner reference":  {want(func(e *adoption.Expectation) { e.Recorded = "demo-vpc" }), apply(strange), ""},
		"another one than it had recorded": {want(func(e *adoption.Expectation) { e.Recorded = "by-hand" }), apply(strange), "nobody owns it"},
	} {
		t.Run(name, func(t *testing.T) {
			got := adoption.Conflict(owner, row.want, row.apply)
			if row.conflict == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, row.conflict)
			assert.Contains(t, got, "nothing is written to it")
		})
	}
}
