// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// applyRow is a WorkspaceTemplateApply among other objects, and the expected findings.
type applyRow struct {
	existing []validation.Owner
	apply    *infrav1.WorkspaceTemplateApply
	errors   []finding
	warnings []string
}

type applyRule func(context.Context, validation.Reader, *infrav1.WorkspaceTemplateApply) (validation.Findings, error)

func testApplies(t *testing.T, rule applyRule, rows map[string]applyRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			expect(t, row.errors, row.warnings...)(rule(context.Background(), newFakeReader(row.existing...), row.apply))
		})
	}
}

var (
	vpc = builder.WorkspaceTemplate("vpc")
	// wide is a template for cluster-scoped Workspaces that all namespaces can use.
	wide = builder.WorkspaceTemplate("wide", builder.WithNamespace("shared"), builder.WithScope(terraform.ScopeCluster), with(func(spec *infrav1.WorkspaceTemplateSpec) {
		spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"*"}}
	}))
)

// of returns an option that sets the template of a WorkspaceTemplateApply.
func of(namespace, name string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Namespace: namespace, Name: name}
	})
}

func TestWorkspaceTemplateApplies(t *testing.T) {
	existing := []validation.Owner{vpc}
	waitingIn := func(namespace string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "a"}, {Name: "b", Namespace: namespace}}
		})
	}
	const own = `must be "default", the namespace of the WorkspaceTemplateApply. Remove the field`
	inModule := builder.WorkspaceTemplate("vpc", builder.WithModule(`output "a" { value = "${cluster_name}" }`))
	testApplies(t, validation.ValidateWorkspaceTemplateApply, map[string]applyRow{
		"a good one":               {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc")},
		"one without its template": {apply: builder.WorkspaceTemplateApply("demo-vpc"), warnings: []string{"spec.templateRef: WorkspaceTemplate vpc does not exist yet"}},
		"template does not allow the namespace": {existing: []validation.Owner{shared(infrav1.AllowedNamespaces{})}, apply: builder.WorkspaceTemplateApply("demo-vpc", of("shared", "vpc")),
			warnings: []string{"spec.templateRef: WorkspaceTemplate shared/vpc does not exist, or does not allow namespace default"}},
		"outputs into a Secret":              {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", ""))},
		"connection Secret in its namespace": {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", "default"))},
		"outputs into another namespace":     {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("s", "other")), errors: []finding{{"spec.writeConnectionSecretToRef.namespace", field.ErrorTypeForbidden, own}}},
		"outputs of a helper, into another namespace": {existing: existing, apply: builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.WithConnectionSecret("s", "other"), builder.OwnedBy(builder.CAPTControlPlane("demo"))),
			warnings: []string{"spec.writeConnectionSecretToRef.namespace: is not \"default\""}},
		"connection Secret of an object with the name of a helper": {existing: existing, apply: builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.WithConnectionSecret("s", "other")),
			errors: []finding{{"spec.writeConnectionSecretToRef.namespace", field.ErrorTypeForbidden, own}}},
		"waits for a Secret in its namespace":        {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", waitingIn("default"))},
		"waits for a Secret in another namespace":    {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", waitingIn("other")), errors: []finding{{"spec.waitForSecrets[1].namespace", field.ErrorTypeForbidden, own}}},
		"a legal name of the Workspace":              {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("b.c-1"))},
		"no legal name of the Workspace":             {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("B_C")), errors: []finding{{"spec.workspaceName", field.ErrorTypeInvalid, "RFC 1123"}}},
		"a variable that cannot be one":              {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "demo", "a-b": ""})), errors: []finding{{"spec.variables[a-b]", field.ErrorTypeInvalid, "Use letters"}}},
		"a value that would change a module":         {existing: []validation.Owner{inModule}, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": `"`})), errors: []finding{{"spec.variables[cluster_name]", field.ErrorTypeInvalid, "the value of variable \"cluster_name\" has characters that could change the module"}}},
		"a variable that is missing":                 {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(nil)), warnings: []string{"placeholder ${cluster_name}"}},
		"variables of an owner without placeholders": {existing: existing, apply: builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo")), builder.WithVariables(map[string]string{"region": "x"}))},
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
		"the same template":                  {[]builder.Option{recorded}, of("", "vpc"), nil},
		"the same template in other words":   {[]builder.Option{inClusterScope}, of("default", "vpc"), nil},
		"another template of the same scope": {[]builder.Option{recorded}, of("", "small"), nil},
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
			findings, err := validation.ValidateChange(context.Background(), newFakeReader(vpc, small, wide, shared(infrav1.AllowedNamespaces{})), old, apply)
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.errors...)
		})
	}
}

func TestTheIdentityOfACreatedWorkspaceIsImmutable(t *testing.T) {
	recorded := builder.WithRecordedWorkspace(builder.Workspace("demo-vpc", builder.AtRest))
	named := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WorkspaceName = "demo-vpc" })
	ofPool := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		recorded(apply)
		builder.OwnedBy(builder.CAPTMachinePool("workers"))(apply)
	})
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
		"the same":                          {recorded, all, all, nil},
		"another cluster":                   {recorded, all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"emptied":                           {recorded, all, but("cluster_name", ""), forbidden("cluster_name")},
		"another size":                      {recorded, all, but("size", "large"), nil},
		"one removed":                       {recorded, all, map[string]string{"vpc_name": "net", "vpc_id": "vpc-1", "region": "eu-west-1"}, forbidden("cluster_name")},
		"another region and VPC":            {recorded, all, map[string]string{"cluster_name": all["cluster_name"], "vpc_name": "x", "vpc_id": "vpc-2", "region": "us-east-1"}, forbidden("vpc_name", "vpc_id", "region")},
		"all removed":                       {recorded, all, nil, forbidden("cluster_name", "vpc_name", "vpc_id", "region")},
		"new variable":                      {recorded, map[string]string{"size": "small"}, all, nil},
		"variable was empty":                {recorded, but("vpc_id", ""), all, nil},
		"recorded by name":                  {named, all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"created by CAPT v0.3":              {builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), all, but("cluster_name", "hunter2"), forbidden("cluster_name")},
		"corrected, before there is any":    {builder.WithWorkspaceName("demo-vpc"), all, but("cluster_name", "prod"), nil},
		"removed before a Workspace exists": {builder.WithWorkspaceName("demo-vpc"), all, nil, nil},
		"another node group of a pool":      {ofPool, but("nodegroup_name", "a"), but("nodegroup_name", "b"), forbidden("nodegroup_name")},
		"another node group of a user":      {recorded, but("nodegroup_name", "a"), but("nodegroup_name", "b"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			old := builder.WorkspaceTemplateApply("demo-vpc", row.status, builder.WithVariables(row.old))
			apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(row.to))
			findings, err := validation.ValidateChange(t.Context(), newFakeReader(vpc), old, apply)
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.errors...)
			assert.NotContains(t, fmt.Sprint(findings.Errors), "hunter2", "values may be secrets")
		})
	}
}

func TestAWorkspaceHasOneOwner(t *testing.T) {
	apply, named, in := builder.WorkspaceTemplateApply, builder.WithWorkspaceName, builder.WithNamespace
	recorded := builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest))
	recordedWide := builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest, builder.InClusterScope()))
	refused := func(text string) []finding { return []finding{{"spec.workspaceName", field.ErrorTypeInvalid, text}} }
	const less, set = `the Workspace name is the name of the WorkspaceTemplateApply without "-apply", which is the same for both`, ". Remove spec.workspaceName"
	const elsewhere = "a WorkspaceTemplateApply of another namespace owns this cluster-scoped Workspace. Choose another name"
	notYet := []string{"does not exist yet"}
	testApplies(t, validation.ValidateWorkspaceTemplateApply, map[string]applyRow{
		"its own name":                               {existing: []validation.Owner{vpc, apply("a", named("w"))}, apply: apply("a", named("w"))},
		"another name":                               {existing: []validation.Owner{vpc, apply("b", named("v"))}, apply: apply("a", named("w"))},
		"name in use":                                {existing: []validation.Owner{vpc, apply("b", named("w"))}, apply: apply("a", named("w")), errors: refused("WorkspaceTemplateApply b owns this Workspace" + set)},
		"name in use by the naming scheme":           {existing: []validation.Owner{vpc, apply("b", named("a"))}, apply: apply("a"), errors: refused("WorkspaceTemplateApply b owns this Workspace" + set)},
		"x-apply beside x":                           {existing: []validation.Owner{vpc, apply("x", named("x"))}, apply: apply("x-apply", named("x")), errors: refused("WorkspaceTemplateApply x owns this Workspace: " + less)},
		"x beside x-apply":                           {existing: []validation.Owner{vpc, apply("x-apply", named("x"))}, apply: apply("x"), errors: refused(less)},
		"x beside an x-apply that has no name yet":   {existing: []validation.Owner{vpc, apply("x-apply")}, apply: apply("x"), errors: refused(less)},
		"x beside an x-apply of another name":        {existing: []validation.Owner{vpc, apply("x-apply", named("other"))}, apply: apply("x")},
		"x and x-apply with an unknown Workspace":    {existing: []validation.Owner{vpc, apply("x-apply", of("", "later"))}, apply: apply("x")},
		"x beside x-apply in the cluster scope":      {existing: []validation.Owner{wide, apply("x-apply", of("shared", "wide"))}, apply: apply("x", of("shared", "wide"), builder.WithVariables(nil)), warnings: []string{"${cluster_name}"}},
		"name in use, template missing":              {existing: []validation.Owner{apply("b", named("w"))}, apply: apply("a", named("w")), errors: refused("WorkspaceTemplateApply b"), warnings: notYet},
		"no name and no template":                    {existing: []validation.Owner{apply("x-apply", named("x"))}, apply: apply("x"), warnings: notYet},
		"the same in another namespace":              {existing: []validation.Owner{vpc, apply("b", in("other"), named("w"))}, apply: apply("a", named("w"))},
		"cluster-wide in another namespace":          {existing: []validation.Owner{wide, apply("b", in("other"), named("w"), of("shared", "wide"))}, apply: apply("a", named("w"), of("shared", "wide")), errors: refused(elsewhere)},
		"recorded cluster-wide in another namespace": {existing: []validation.Owner{wide, apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w"), of("shared", "wide")), errors: refused(elsewhere)},
		"recorded cluster-scoped, template missing":  {existing: []validation.Owner{apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w"), recordedWide), errors: refused(elsewhere), warnings: notYet},
		"namespaced in another namespace":            {existing: []validation.Owner{wide, apply("b", in("other"), named("w"), recorded)}, apply: apply("a", named("w"), of("shared", "wide"))},
		"unknown scope":                              {existing: []validation.Owner{wide, apply("b", in("other"), named("w"))}, apply: apply("a", named("w"), of("shared", "wide"))},
		"the own scope is unknown":                   {existing: []validation.Owner{wide, apply("b", in("other"), named("w"), recordedWide)}, apply: apply("a", named("w")), warnings: notYet},
	})
}

func TestNamesInOtherNamespacesAreNotReported(t *testing.T) {
	other := builder.WorkspaceTemplateApply("secret-project", builder.WithNamespace("secret-team"), builder.WithWorkspaceName("w"), of("shared", "wide"),
		builder.WaitingForWorkspace("w", builder.Namespace))
	findings, err := validation.ValidateWorkspaceTemplateApply(context.Background(), newFakeReader(wide, other),
		builder.WorkspaceTemplateApply("a", builder.WithWorkspaceName("w"), of("shared", "wide"), builder.WaitingForWorkspace("w", "secret-team")))
	require.NoError(t, err)
	require.Len(t, findings.Errors, 2)
	assert.NotContains(t, findings.Errors.ToAggregate().Error(), "secret")
}

func TestWarningAboutANameThatIsNotForANewWorkspace(t *testing.T) {
	apply, named, recorded := builder.WorkspaceTemplateApply, builder.WithWorkspaceName, builder.WithRecordedWorkspace(builder.Workspace("w", builder.AtRest))
	adopted := []string{"no Workspace is created with this name: only an existing Workspace can be adopted"}
	inScheme := named(naming.Workspace(terraform.ScopeCluster, types.NamespacedName{Namespace: builder.Namespace, Name: "a"}))
	testApplies(t, validation.ValidateNewWorkspaceName, map[string]applyRow{
		"no name":                               {existing: []validation.Owner{vpc}, apply: apply("a")},
		"the name of the scheme":                {existing: []validation.Owner{vpc}, apply: apply("a-apply", named("a"))},
		"another name":                          {existing: []validation.Owner{vpc}, apply: apply("a", named("w")), warnings: adopted},
		"another name, recorded":                {existing: []validation.Owner{vpc}, apply: apply("a", named("w"), recorded)},
		"another name, and no template":         {apply: apply("a", named("w"))},
		"the name that CAPT v0.3 gave":          {existing: []validation.Owner{wide}, apply: apply("a-apply", named("a"), of("shared", "wide")), warnings: adopted},
		"the name of the scheme, cluster scope": {existing: []validation.Owner{wide}, apply: apply("a", inScheme, of("shared", "wide"))},
	})
}

// waiting returns a WorkspaceTemplateApply with Workspace w-<name>, which waits for the Workspaces of others.
func waiting(name string, others ...string) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName("w-"+name))
	for _, other := range others {
		builder.WaitingForWorkspace("w-"+other, "")(apply)
	}
	return apply
}

func TestDependencyCyclesAreRejected(t *testing.T) {
	at := func(i int, text string) []finding {
		return []finding{{fmt.Sprintf("spec.waitForWorkspaces[%d]", i), field.ErrorTypeInvalid, text}}
	}
	there := func(namespace string, apply *infrav1.WorkspaceTemplateApply, others ...string) *infrav1.WorkspaceTemplateApply {
		apply.Namespace = namespace
		for _, other := range others {
			builder.WaitingForWorkspace("w-"+other, builder.Namespace)(apply)
		}
		return apply
	}
	from := func(apply *infrav1.WorkspaceTemplateApply, namespace string, others ...string) *infrav1.WorkspaceTemplateApply {
		for _, other := range others {
			builder.WaitingForWorkspace("w-"+other, namespace)(apply)
		}
		return apply
	}
	unnamed := func(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
		apply.Spec.WorkspaceName = ""
		return apply
	}
	const long = "WorkspaceTemplateApplies cannot depend on each other: a → b → c → a. Remove one of these dependencies"
	later := []string{"does not exist yet"}
	testApplies(t, validation.ValidateWorkspaceTemplateApply, map[string]applyRow{
		"without dependencies":               {existing: []validation.Owner{vpc, waiting("b", "a")}, apply: waiting("a")},
		"waiting for a chain":                {existing: []validation.Owner{vpc, waiting("b", "c"), waiting("c")}, apply: waiting("a", "b", "c")},
		"waits for a missing Workspace":      {existing: []validation.Owner{vpc}, apply: waiting("a", "b")},
		"waiting for oneself":                {existing: []validation.Owner{vpc}, apply: waiting("a", "b", "a"), errors: at(1, "Workspace w-a cannot depend on itself. Remove it from the list")},
		"a cycle of two":                     {existing: []validation.Owner{vpc, waiting("b", "a")}, apply: waiting("a", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a")},
		"a cycle of three":                   {existing: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "a")}, apply: waiting("a", "x", "b"), errors: at(1, long)},
		"a cycle of others":                  {existing: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "b")}, apply: waiting("a", "b")},
		"another who waits for itself":       {existing: []validation.Owner{vpc, waiting("b", "b")}, apply: waiting("a", "b")},
		"the shortest of two is reported":    {existing: []validation.Owner{vpc, waiting("b", "c"), waiting("c", "a"), waiting("d", "a")}, apply: waiting("a", "b", "d"), errors: at(1, "WorkspaceTemplateApplies cannot depend on each other: a → d → a")},
		"two ways that meet":                 {existing: []validation.Owner{vpc, waiting("b", "d"), waiting("c", "d"), waiting("d")}, apply: waiting("a", "b", "c")},
		"request replaces the stored object": {existing: []validation.Owner{vpc, waiting("a", "b"), waiting("b", "a")}, apply: waiting("a")},
		"stored object has no workspaceName": {existing: []validation.Owner{vpc, unnamed(waiting("a")), waiting("b", "a")}, apply: waiting("a", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a")},
		"same name in another namespace": {
			existing: []validation.Owner{vpc, waiting("b"), there("other", waiting("b"), "a")}, apply: waiting("a", "b")},
		"own name in another namespace": {existing: []validation.Owner{vpc, there("other", waiting("a"))}, apply: from(waiting("a"), "other", "a")},
		"through other namespaces, which are not reported": {
			existing: []validation.Owner{vpc, there("other", waiting("b", "c")), there("other", waiting("c"), "d"), waiting("d", "a")},
			apply:    from(waiting("a"), "other", "b"), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → (another namespace) → d → a")},
		"the name that the scheme gives": {existing: []validation.Owner{vpc, builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a-apply", builder.WaitingForWorkspace("b", "")), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a-apply → b → a-apply")},
		"the name that the scheme will give": {existing: []validation.Owner{builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a", builder.WaitingForWorkspace("b", "")), errors: at(0, "WorkspaceTemplateApplies cannot depend on each other: a → b → a"), warnings: later},
		"the name in the cluster scope": {existing: []validation.Owner{wide, builder.WorkspaceTemplateApply("b", builder.WithWorkspaceName("b"), builder.WaitingForWorkspace("a", ""))},
			apply: builder.WorkspaceTemplateApply("a", of("shared", "wide"), builder.WaitingForWorkspace("b", ""))},
	})
}

// With thousands of objects that wait for each other, the search makes a few hundred lookups, at most one per Workspace.
func TestSearchForACycleIsLimited(t *testing.T) {
	existing := newFakeReader(vpc)
	for i := range 3000 {
		existing.add(waiting(fmt.Sprint(i), fmt.Sprint(i+1), fmt.Sprint((i*7)%3000)))
	}
	findings, err := validation.ValidateWorkspaceTemplateApply(context.Background(), existing, waiting("a", "0"))
	require.NoError(t, err)
	assert.Empty(t, findings.Errors)
	assert.LessOrEqual(t, existing.looks["ClaimantsOf"], 1002)
}

// Webhooks recognize an error that existed before an update by its text. The errors also become the message of a condition: another order
// would change the message and write status.
func TestErrorsAreDeterministic(t *testing.T) {
	apply, named := builder.WorkspaceTemplateApply, builder.WithWorkspaceName("w")
	params := terraform.WorkspaceParameters{
		InitArgs: []string{"-backend=false"}, PlanArgs: []string{"-state=x"},
		ApplyArgs: []string{"-state=x"}, DestroyArgs: []string{"-state=x"}, Entrypoint: "..",
	}
	tagged := builder.CAPTControlPlane("demo", plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"b#": "#", "a#": "#", "AWS:c#": "#"}
	}))
	messages := sets.New[string]()
	for range 100 {
		got, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(tagged, complete("eks")), tagged)
		require.NoError(t, err)
		messages.Insert(template(params).ToAggregate().Error(), got.Errors.ToAggregate().Error())
		testApplies(t, validation.ValidateWorkspaceTemplateApply, map[string]applyRow{
			"one of several claimants": {apply: apply("a", named),
				existing: []validation.Owner{vpc, apply("e", named), apply("d", named), apply("c", named), apply("b", named)},
				errors:   []finding{{"spec.workspaceName", field.ErrorTypeInvalid, "WorkspaceTemplateApply b owns this Workspace"}}},
			"one of several cycles": {apply: waiting("a", "c", "b"),
				existing: []validation.Owner{vpc, waiting("b", "d", "e"), waiting("c", "e", "d"), waiting("d", "a"), waiting("e", "a")},
				errors:   []finding{{"spec.waitForWorkspaces[0]", field.ErrorTypeInvalid, "WorkspaceTemplateApplies cannot depend on each other: a → c → e → a"}}},
		})
	}
	require.Len(t, messages, 2)
	all := strings.Join(sets.List(messages), "\n")
	require.Equal(t, 5, strings.Count(all, "spec.template.spec.forProvider"))
	require.Equal(t, 7, strings.Count(all, "spec.additionalTags"))
}

func applied(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	recorded := builder.WithRecordedWorkspace(builder.Workspace(name+"-w", builder.AtRest))
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithWorkspaceName(name + "-w"), recorded}, options...)...)
}

// A retained Workspace would depend on one that is destroyed.
func TestRetainConflictCausesAWarning(t *testing.T) {
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	vpc := applied("vpc", builder.OwnedBy(builder.CAPTCluster("demo")))
	roles := applied("roles", builder.WithDeletionPolicy(infrav1.DeletionPolicyDelete))
	on := func(names ...string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			for _, name := range names {
				builder.WaitingForWorkspace(name+"-w", "")(apply)
			}
		})
	}
	allow := func(names string) builder.Option {
		return builder.WithAnnotation(naming.AllowReleaseFromAnnotation, names)
	}
	controlPlane := builder.OwnedBy(builder.CAPTControlPlane("eks"))
	for name, row := range map[string]struct {
		apply  *infrav1.WorkspaceTemplateApply
		others []*infrav1.WorkspaceTemplateApply
		names  string
	}{
		"both are destroyed":                  {applied("eks", on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"retained on a VPC that is deleted":   {applied("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"by the full name":                    {applied("eks", retain, builder.WaitingForWorkspace("vpc-w", builder.Namespace)), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"two, in whatever order":              {applied("eks", retain, on("vpc", "roles")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, "roles, vpc"},
		"two, the other way round":            {applied("eks", retain, on("roles", "vpc")), []*infrav1.WorkspaceTemplateApply{roles, vpc}, "roles, vpc"},
		"one of two is allowed":               {applied("eks", retain, on("vpc", "roles"), allow("roles")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, "vpc"},
		"both are allowed":                    {applied("eks", retain, on("vpc", "roles"), allow("roles,vpc")), []*infrav1.WorkspaceTemplateApply{vpc, roles}, ""},
		"true allows nothing":                 {applied("eks", retain, on("vpc"), allow("true")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
		"the VPC is retained, too":            {applied("eks", retain, on("net")), []*infrav1.WorkspaceTemplateApply{applied("net", retain)}, ""},
		"no dependencies":                     {applied("eks", retain), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"the VPC was never applied":           {applied("eks", retain, on("net")), []*infrav1.WorkspaceTemplateApply{builder.WorkspaceTemplateApply("net", builder.WithWorkspaceName("net-w"))}, ""},
		"of another namespace":                {applied("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{applied("vpc", builder.WithNamespace("other"))}, ""},
		"never applied":                       {builder.WorkspaceTemplateApply("eks", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"a helper that could not be rendered": {applied("eks-kubeconfig-apply", retain, on("vpc"), controlPlane), []*infrav1.WorkspaceTemplateApply{vpc}, ""},
		"named like a helper":                 {applied("eks-kubeconfig-apply", retain, on("vpc")), []*infrav1.WorkspaceTemplateApply{vpc}, "vpc"},
	} {
		t.Run(name, func(t *testing.T) {
			var others []infrav1.WorkspaceTemplateApply
			for _, other := range row.others {
				others = append(others, *other)
			}
			conflict := validation.RetainConflict(row.apply, others)
			if row.names == "" {
				assert.Empty(t, conflict)
				return
			}
			assert.Contains(t, conflict, "the deletion of WorkspaceTemplateApply "+row.names+" destroys resources that it depends on")
		})
	}
	conflict := validation.RetainConflict(applied("eks", retain, on("vpc", "roles")), []infrav1.WorkspaceTemplateApply{*vpc, *roles})
	assert.Contains(t, conflict, "Set spec.deletionPolicy of WorkspaceTemplateApply roles and spec.vpc.template.deletionPolicy of CAPTCluster demo to Retain, "+
		"or spec.deletionPolicy of WorkspaceTemplateApply eks to Delete")
	assert.Contains(t, conflict, "annotation "+naming.AllowReleaseFromAnnotation+" to roles,vpc")
}
