// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

func TestEveryKindOfSampleClusterHasAFargateProfile(t *testing.T) {
	for flavor, samples := range load(t) {
		if slices.Contains([]string{"cluster-template.yaml", "cluster-template-clusterclass.yaml"}, flavor) {
			continue // For clusterctl, a cluster with a Fargate profile has its own template.
		}
		require.True(t, slices.ContainsFunc(ofKind[*controlplanev1.CAPTControlPlane](samples), func(c *controlplanev1.CAPTControlPlane) bool {
			return len(c.Spec.FargateProfiles) > 0
		}), flavor)
		for _, c := range ofKind[*controlplanev1.CAPTControlPlaneTemplate](samples) {
			require.NotEmpty(t, c.Spec.Template.Spec.FargateProfiles, "%s: %s", flavor, c.Name)
		}
	}
}

// TestSampleVPCsWriteTheVariablesThatTemplatesRead compares both ends of a variables file: the values that the VPC template writes,
// and the variables that the reading templates expect.
func TestSampleVPCsWriteTheVariablesThatTemplatesRead(t *testing.T) {
	for flavor, samples := range load(t) {
		given := map[string][]string{}
		templates := ofKind[*infrav1.WorkspaceTemplate](samples)
		for _, template := range templates {
			for output, text := range outputsOf(t, template.Spec.Template.Spec.ForProvider.Module) {
				for _, assignment := range assignments.FindAllStringSubmatch(text, -1) {
					given[output] = append(given[output], assignment[1])
				}
			}
		}
		readers := 0
		for _, template := range templates {
			params := template.Spec.Template.Spec.ForProvider
			setByCAPT := sets.New(validation.FargateVariables()...)
			if strings.HasSuffix(template.Name, "-nodegroup") {
				setByCAPT.Insert(validation.MachinePoolVariables()...)
			}
			for _, pool := range ofKind[*infrav1.CAPTMachinePool](samples) {
				if pool.Spec.WorkspaceTemplateRef.Name == template.Name {
					setByCAPT.Insert(sets.List(sets.KeySet(pool.Spec.Variables))...)
				}
			}
			for _, apply := range ofKind[*infrav1.WorkspaceTemplateApply](samples) {
				if apply.Spec.TemplateRef.Name == template.Name {
					setByCAPT.Insert(sets.List(sets.KeySet(apply.Spec.Variables))...)
				}
			}
			left := modules.TemplateInterface(&template.Spec).Names().Difference(setByCAPT)
			for _, file := range params.VarFiles {
				readers++
				inFile := left.Intersection(sets.New(given[file.SecretKeyRef.Key]...))
				require.NotEmpty(t, inFile, "%s reads a file and has no variable for it", template.Name)
				for name := range left.Difference(inFile) {
					require.True(t, modules.ParseTemplate(&template.Spec).Declarations().Variables[name].HasDefault, "%s requires %s, which is not in the Secret's key", template.Name, name)
				}
			}
		}
		require.NotZero(t, readers, flavor)
	}
}

// assignments matches the assignments of a variables file.
var assignments = regexp.MustCompile(`(?m)^\s*(\w+) +=`)

// outputsOf returns the outputs of a module as text.
func outputsOf(t *testing.T, module string) map[string]string {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(module), "main.tf", hcl.InitialPos)
	require.False(t, diags.HasErrors(), diags)
	outputs := map[string]string{}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		if block.Type == "output" {
			outputs[block.Labels[0]] = string(block.Body.Attributes["value"].Expr.Range().SliceBytes([]byte(module)))
		}
	}
	return outputs
}
