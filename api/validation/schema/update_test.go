// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// change is an update of a spec and the fields that it must be refused for, none if it is fine.
type change struct {
	kind     runtimeschema.GroupVersionKind
	old, new string
	refused  []string
}

func (c change) run(t *testing.T) {
	t.Helper()
	s := of(t, c.kind)
	fields := []string{}
	for _, err := range s.ValidateUpdate(t.Context(), object(t, c.kind, c.new), object(t, c.kind, c.old)) {
		fields = append(fields, err.Field)
	}
	require.ElementsMatch(t, c.refused, fields)
}

func plane(fields string) string {
	return `{version: "1.35", workspaceTemplateRef: {name: x}, ` + fields + `}`
}

// profiles is a control plane with a Fargate profile.
func profiles(fields string) string {
	return plane(`fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}` + fields + `}]`)
}

func TestObjectFromBeforeARuleCanBeChangedElsewhere(t *testing.T) {
	for name, c := range map[string]change{
		"bad pattern stays":          {controlPlane, `{version: newest, workspaceTemplateRef: {name: x}}`, `{version: newest, workspaceTemplateRef: {name: z}}`, nil},
		"bad pattern becomes good":   {controlPlane, `{version: newest, workspaceTemplateRef: {name: x}}`, plane(``), nil},
		"bad pattern becomes worse":  {controlPlane, `{version: newest, workspaceTemplateRef: {name: x}}`, `{version: latest, workspaceTemplateRef: {name: x}}`, []string{"spec.version"}},
		"another field gets bad":     {controlPlane, `{version: newest, workspaceTemplateRef: {name: x}}`, `{version: newest, workspaceTemplateRef: {name: x}, region: here}`, []string{"spec.region"}},
		"bad rule stays":             {controlPlane, plane(`endpointAccess: {public: Disabled}`), plane(`endpointAccess: {public: Disabled}, region: eu-west-1`), nil},
		"bad rule, other object":     {controlPlane, plane(`endpointAccess: {public: Disabled}`), plane(`endpointAccess: {public: Disabled, publicCIDRs: [10.0.0.0/8]}`), []string{"spec.endpointAccess", "spec.endpointAccess.publicCIDRs"}},
		"bad tag stays":              {controlPlane, plane(`additionalTags: {"aws:a": b}`), plane(`additionalTags: {"aws:a": b}, region: eu-west-1`), nil},
		"bad tag, and another one":   {controlPlane, plane(`additionalTags: {"aws:a": b}`), plane(`additionalTags: {"aws:a": b, c: d}`), []string{"spec.additionalTags"}},
		"bad item of a map stays":    {controlPlane, plane(`fargateProfiles: [{name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}]`), plane(`fargateProfiles: [{name: c, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}, {name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: z}}]`), nil},
		"bad item of a list moves":   {controlPlane, plane(`recovery: {actions: [{type: RecreateWorkspace}]}`), plane(`recovery: {actions: [{type: Requeue}, {type: RecreateWorkspace}]}`), []string{"spec.recovery.actions[1]"}},
		"duplicates stay":            {controlPlane, plane(`addons: [{name: a}, {name: a}]`), plane(`addons: [{name: a}, {name: a}, {name: b}]`), nil},
		"duplicates are new":         {controlPlane, plane(`addons: [{name: a}]`), plane(`addons: [{name: a}, {name: a}]`), []string{"spec.addons[1]"}},
		"missing object stays":       {cluster, `{region: eu-west-1, vpc: {}}`, `{region: eu-west-1, vpc: {}, workspaceTemplateApplyRef: {name: a}}`, nil},
		"required field was missing": {cluster, `{vpc: {existingID: vpc-1}}`, `{vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`, []string{"spec.region", "spec"}},
	} {
		t.Run(name, c.run)
	}
}

func TestFieldsThatAreWrittenOnceAreImmutable(t *testing.T) {
	for name, c := range map[string]change{
		"region":                {cluster, `{region: eu-west-1, vpc: {existingID: vpc-1}}`, `{region: eu-west-2, vpc: {existingID: vpc-1}}`, []string{"spec.region"}},
		"bad region":            {cluster, `{region: here, vpc: {existingID: vpc-1}}`, `{region: eu-west-2, vpc: {existingID: vpc-1}}`, []string{"spec.region"}},
		"optional region":       {controlPlane, plane(``), plane(`region: eu-west-1`), nil},
		"other optional region": {controlPlane, plane(`region: eu-west-1`), plane(`region: eu-west-2`), nil},
		"no region any more":    {controlPlane, plane(`region: eu-west-1`), plane(``), nil},
		"reference":             {controlPlane, plane(``), plane(`workspaceTemplateApplyRef: {name: a}`), nil},
		"same reference":        {controlPlane, plane(`workspaceTemplateApplyRef: {name: a}`), plane(`workspaceTemplateApplyRef: {name: a}, region: eu-west-1`), nil},
		"other reference":       {controlPlane, plane(`workspaceTemplateApplyRef: {name: a}`), plane(`workspaceTemplateApplyRef: {name: b}`), []string{"spec.workspaceTemplateApplyRef"}},
		"a rollback's removal":  {controlPlane, plane(`workspaceTemplateApplyRef: {name: a}`), plane(``), nil},
		"a profile's reference": {controlPlane, profiles(`, workspaceTemplateApplyRef: {name: a}`), profiles(``), []string{"spec.fargateProfiles[0].workspaceTemplateApplyRef"}},
		"other VPC reference":   {cluster, `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: b}}`, []string{"spec.workspaceTemplateApplyRef"}},
		"other Workspace":       {apply, `{templateRef: {name: x}, workspaceName: a}`, `{templateRef: {name: x}, workspaceName: b}`, []string{"spec.workspaceName"}},
		"a Workspace taken out": {apply, `{templateRef: {name: x}, workspaceName: a}`, `{templateRef: {name: x}}`, nil},
	} {
		t.Run(name, c.run)
	}
}
