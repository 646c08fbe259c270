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

package validation_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func fargate(selectors ...controlplanev1.FargateSelector) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{
			{Name: "fp", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}, Selectors: selectors},
		}
	})
}

func selecting(namespace string, pairs ...string) controlplanev1.FargateSelector {
	selector := controlplanev1.FargateSelector{Namespace: namespace, Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		selector.Labels[pairs[i]] = pairs[i+1]
	}
	return selector
}

func TestSelectorsOfFargateProfiles(t *testing.T) {
	const labels = "spec.fargateProfiles[0].selectors[0].labels"
	invalid := func(path, text string) []finding { return []finding{{path, field.ErrorTypeInvalid, text}} }
	for title, row := range map[string]row{
		"a namespace":                    {object: []builder.Option{fargate(selecting("kube-system"))}},
		"any namespace":                  {object: []builder.Option{fargate(selecting("*"))}},
		"namespaces that begin alike":    {object: []builder.Option{fargate(selecting("team-?-*"))}},
		"labels":                         {object: []builder.Option{fargate(selecting("a", "app.kubernetes.io/name", "web-1", "empty", ""))}},
		"labels with wildcards":          {object: []builder.Option{fargate(selecting("a", "k*", "v?*"))}},
		"a namespace in capitals":        {object: []builder.Option{fargate(selecting("Team"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "no pod can match this")},
		"a namespace that begins with -": {object: []builder.Option{fargate(selecting("-*"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "* and ? may stand for characters")},
		"a key with a space":             {object: []builder.Option{fargate(selecting("a", "a b", "c"))}, refused: invalid(labels+"[a b]", "name part")},
		"a value with a space":           {object: []builder.Option{fargate(selecting("a", "k", "b c"))}, refused: invalid(labels+"[k]", "no pod can match this")},
		"a value that is too long":       {object: []builder.Option{fargate(selecting("a", "k", strings.Repeat("v", 64)))}, refused: invalid(labels+"[k]", "no pod can match this")},
		"the second of them":             {object: []builder.Option{fargate(selecting("a"), selecting("B"))}, refused: invalid("spec.fargateProfiles[0].selectors[1].namespace", "no pod can match this")},
		"a key with two slashes":         {object: []builder.Option{fargate(selecting("a", "x/y/z", "v"))}, refused: invalid(labels+"[x/y/z]", "no pod can match this")},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestTemplatesOfFargateProfiles(t *testing.T) {
	of := func(ref infrav1.WorkspaceTemplateReference) builder.Option {
		return plane(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.FargateProfiles = []controlplanev1.FargateProfile{
				{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}, Selectors: []controlplanev1.FargateSelector{selecting("a")}},
				{Name: "b", WorkspaceTemplateRef: ref, Selectors: []controlplanev1.FargateSelector{selecting("b")}},
			}
		})
	}
	for title, row := range map[string]row{
		"there": {object: []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "default"})}},
		"not yet there": {object: []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "later"})},
			warnings: []string{"spec.fargateProfiles[1].workspaceTemplateRef: WorkspaceTemplate later does not exist yet"}},
		"kept by its owners": {world: []validation.Owner{builder.WorkspaceTemplate("fargate", builder.WithNamespace("shared"))},
			object:  []builder.Option{of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "shared"})},
			refused: []finding{{"spec.fargateProfiles[1].workspaceTemplateRef", field.ErrorTypeForbidden, "spec.allowedNamespaces"}}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}
