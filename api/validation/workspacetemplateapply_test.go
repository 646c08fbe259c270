// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
	"github.com/capt-provider/capt/test/builder"
)

// applyRow is a WorkspaceTemplateApply in a world, and what validation reports.
type applyRow struct {
	world    []validation.Owner
	apply    *infrav1.WorkspaceTemplateApply
	errors   []finding
	warnings []string
}

type applyRule func(context.Context, validation.World, *infrav1.WorkspaceTemplateApply) (validation.Findings, error)

func testApplies(t *testing.T, rule applyRule, rows map[string]applyRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			findings, err := rule(context.Background(), newWorld(row.world...), row.apply)
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.errors...)
			assertWarned(t, findings.Warnings, row.warnings...)
		})
	}
}

var (
	vpc = builder.WorkspaceTemplate("vpc")
	// wide is a template of cluster-wide Workspaces that every namespace may use.
	wide = builder.WorkspaceTemplate("wide", builder.WithNamespace("shared"), builder.WithScope(terraform.ScopeCluster), with(func(spec *infrav1.WorkspaceTemplateSpec) {
		spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"*"}}
	}))
)

// of says which template a WorkspaceTemplateApply refers to.
func of(namespace, name string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Namespace: namespace, Name: name}
	})
}

func TestWorkspaceTemplateApplies(t *testing.T) {
	world := []validation.Owner{vpc}
	waitingIn := func(namespace string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "a"}, {Name: "b", Namespace: namespace}}
		})
	}
	const own = `must be "default", the namespace of the WorkspaceTemplateApply. Remove the field`
	inModule := builder.WorkspaceTemplate("vpc", builder.WithModule(`output "a" { value = "${cluster_name}" }`))
	testApplies(t, applies.WorkspaceTemplateApply, map[string]applyRow{
		"a good one":               {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc")},
		"one without its template": {apply: builder.WorkspaceTemplateApply("demo-vpc"), warnings: []string{"spec.templateRef: WorkspaceTemplate vpc does not exist yet"}},
		"one of a template it may not use": {world: []validation.Owner{shared(infrav1.AllowedNamespaces{})}, apply: builder.WorkspaceTemplateApply("demo-vpc", of("shared", "vpc")),
			errors: []finding{{"spec.templateRef", field.ErrorTypeForbidden, "WorkspaceTemplate shared/vpc does not exist, or does not allow namespace default"}}},
		"outputs into a Secret":            {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", ""))},
		"outputs into a Secret of its own": {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", "default"))},
		"outputs into another namespace":   {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", "other")), errors: []finding{{"spec.writeConnectionSecretToRef.namespace", field.ErrorTypeForbidden, own}}},
		"outputs of a helper, into another namespace": {world: world, apply: builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.WithConnectionSecret("s", "other"), builder.OwnedBy(builder.CAPTControlPlane("demo"))),
			warnings: []string{"spec.writeConnectionSecretToRef.namespace: is not \"default\""}},
		"outputs of what is called like a helper": {world: world, apply: builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.WithConnectionSecret("s", "other")),
			errors: []finding{{"spec.writeConnectionSecretToRef.namespace", field.ErrorTypeForbidden, own}}},
		"waiting for a Secret of its own":    {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", waitingIn("default"))},
		"waiting for one of another":         {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", waitingIn("other")), errors: []finding{{"spec.waitForSecrets[1].namespace", field.ErrorTypeForbidden, own}}},
		"a legal name of the Workspace":      {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("b.c-1"))},
		"no legal name of the Workspace":     {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("B_C")), errors: []finding{{"spec.workspaceName", field.ErrorTypeInvalid, "RFC 1123"}}},
		"a variable that cannot be one":      {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "demo", "a-b": ""})), errors: []finding{{"spec.variables[a-b]", field.ErrorTypeInvalid, "Use letters"}}, warnings: []string{"${a-b}"}},
		"a value that would change a module": {world: []validation.Owner{inModule}, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": `"`})), errors: []finding{{"spec.variables[cluster_name]", field.ErrorTypeInvalid, "the value of variable \"cluster_name\" has characters that could change the module"}}},
		"a variable that is missing":         {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(nil)), warnings: []string{"placeholder ${cluster_name}"}},
		"CAPT gives what it always gives":    {world: world, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo")), builder.WithVariables(map[string]string{"region": "x"}))},
	})
}

func TestAWorkspaceCannotMoveToAnotherScope(t *testing.T) {
	recorded := builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest))
	inClusterScope := builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope()))
	small := builder.WorkspaceTemplate("small")
	for name, row := range map[string]struct {
		old    []builder.Option
		to     builder.Option
		errors []finding
	}{
		"the same template":                {[]builder.Option{recorded}, of("", "vpc"), nil},
		"the same template in other words": {[]builder.Option{inClusterScope}, of("default", "vpc"), nil},
		"another one of the same scope":    {[]builder.Option{recorded}, of("", "small"), nil},
		"another scope": {[]builder.Option{recorded}, of("shared", "wide"), []finding{{"spec.templateRef", field.ErrorTypeForbidden,
			"Workspace demo-vpc has scope Namespaced, but WorkspaceTemplate shared/wide has scope Cluster, and a Workspace cannot move to another scope"}}},
		"another scope, the other way":       {[]builder.Option{inClusterScope}, of("", "small"), []finding{{"spec.templateRef", field.ErrorTypeForbidden, "Workspace demo-vpc has scope Cluster, but WorkspaceTemplate default/small has scope Namespaced, and a Workspace cannot move to another scope"}}},
		"another scope, before there is any": {nil, of("shared", "wide"), nil},
		"a template that is not there yet":   {[]builder.Option{recorded}, of("", "later"), nil},
		"a template that is not allowed":     {[]builder.Option{recorded}, of("shared", "vpc"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			old := builder.WorkspaceTemplateApply("demo-vpc", row.old...)
			apply := builder.WorkspaceTemplateApply("demo-vpc", row.to)
			errs, err := applies.WorkspaceTemplateApplyChange(context.Background(), newWorld(vpc, small, wide, shared(infrav1.AllowedNamespaces{})), old, apply)
			require.NoError(t, err)
			assertRefused(t, errs, row.errors...)
		})
	}
}

func TestTheIdentityOfACreatedWorkspaceIsImmutable(t *testing.T) {
	recorded := builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest))
	named := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WorkspaceName = "demo-vpc" })
	forbidden := func(variables ...string) (findings []finding) {
		for _, variable := range variables {
			findings = append(findings, finding{"spec.variables[" + variable + "]", field.ErrorTypeForbidden,
				"cannot be changed or removed: Terraform would destroy the cloud resources of Workspace demo-vpc and create others"})
		}
		return findings
	}
	all := map[string]string{"cluster_name": "demo", "vpc_name": "net", "vpc_id": "vpc-1", "region": "eu-west-1", "size": "small"}
	but := func(variable, value string) map[string]string {
		changed := maps.Clone(all)
		changed[variable] = value
		return changed
	}
	for name, row := range map[string]struct {
		status builder.Option
		old    map[string]string
		to     map[string]string
		errors []finding
	}{
		"the same":                        {recorded, all, all, nil},
		"another cluster":                 {recorded, all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"another VPC":                     {recorded, all, but("vpc_name", "hunter2"), forbidden("vpc_name")},
		"the id of another VPC":           {recorded, all, but("vpc_id", "hunter2"), forbidden("vpc_id")},
		"another region":                  {recorded, all, but("region", "hunter2"), forbidden("region")},
		"emptied":                         {recorded, all, but("cluster_name", ""), forbidden("cluster_name")},
		"another size":                    {recorded, all, but("size", "large"), nil},
		"one removed":                     {recorded, all, map[string]string{"vpc_name": "net", "vpc_id": "vpc-1", "region": "eu-west-1"}, forbidden("cluster_name")},
		"all removed":                     {recorded, all, nil, forbidden("cluster_name", "vpc_name", "vpc_id", "region")},
		"one that was not there":          {recorded, map[string]string{"size": "small"}, all, nil},
		"one that was empty":              {recorded, but("vpc_id", ""), all, nil},
		"recorded by name":                {named, all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"made by CAPT v0.3":               {builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"corrected, before there is any":  {builder.WithWorkspaceName("demo-vpc"), all, but("cluster_name", "prod"), nil},
		"taken away, before there is any": {builder.WithWorkspaceName("demo-vpc"), all, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			old := builder.WorkspaceTemplateApply("demo-vpc", row.status, builder.WithVariables(row.old))
			apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(row.to))
			errs, err := applies.WorkspaceTemplateApplyChange(t.Context(), newWorld(vpc), old, apply)
			require.NoError(t, err)
			assertRefused(t, errs, row.errors...)
			assert.NotContains(t, fmt.Sprint(errs), "hunter2", "values may be secrets")
		})
	}
}

func TestTheNameOfAWorkspace(t *testing.T) {
	for name, row := range map[string]struct {
		apply    *infrav1.WorkspaceTemplateApply
		template *infrav1.WorkspaceTemplate
		want     string
	}{
		"spec says":               {builder.WorkspaceTemplateApply("a-apply", builder.WithWorkspaceName("b")), nil, "b"},
		"the scheme":              {builder.WorkspaceTemplateApply("a-apply"), vpc, "a"},
		"the scheme of the scope": {builder.WorkspaceTemplateApply("a-apply"), wide, "default-a-6uo2r"},
		"it is not known":         {builder.WorkspaceTemplateApply("a-apply"), nil, ""},
		"no name yet":             {builder.WorkspaceTemplateApply(""), vpc, ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, applies.WorkspaceName(row.apply, row.template)) })
	}
}
