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
