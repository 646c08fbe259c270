// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// terraformed is a WorkspaceTemplate with parameters for Terraform.
func terraformed(forProvider string) string {
	return document("WorkspaceTemplate", "vpc", `{template: {spec: {forProvider: `+forProvider+`}}}`)
}

func TestWorkspaceTemplatesThatAreRefused(t *testing.T) {
	t.Parallel()
	const module = "spec.template.spec.forProvider.module"
	refuse(t, []refusal{
		{name: "HCL that does not end", document: terraformed(`{source: Inline, module: "locals {\n  a = 1\n"}`),
			field: module, says: "line 1, column 8"},
		{name: "HCL without a value", document: terraformed(`{source: Inline, module: "locals {\n  a =\n}\n"}`),
			field: module, says: "line 2, column 6"},
		{name: "JSON that does not end", document: terraformed(`{source: Inline, inlineFormat: JSON, module: '{"locals": '}`),
			field: module, says: "line 1"},
		{name: "an invalid source", document: terraformed(`{source: Elsewhere, module: x}`),
			field: "spec.template.spec.forProvider.source", says: "supported values"},
		{name: "an invalid format", document: terraformed(`{source: Inline, inlineFormat: YAML, module: ""}`),
			field: "spec.template.spec.forProvider.inlineFormat", says: "supported values"},
		{name: "a variable of Terraform's own", document: terraformed(`{source: Inline, module: "", env: [{name: TF_CLI_ARGS, value: x}]}`),
			field: "spec.template.spec.forProvider.env[0].name", says: "are reserved for the provider"},
		{name: "a variable of the loader", document: terraformed(`{source: Inline, module: "", env: [{name: LD_PRELOAD, value: x}]}`),
			field: "spec.template.spec.forProvider.env[0].name", says: "are reserved for the provider"},
		{name: "the search path", document: terraformed(`{source: Inline, module: "", env: [{name: OK, value: x}, {name: PATH, value: x}]}`),
			field: "spec.template.spec.forProvider.env[1].name", says: "are reserved for the provider"},
		{name: "a variable that is given twice", document: terraformed(`{source: Inline, module: "variable \"a\" {}", vars: [{key: a, value: x}, {key: b, value: x}, {key: a, value: z}]}`),
			field: "spec.template.spec.forProvider.vars[2].key", says: "Duplicate value"},
		{name: "an environment variable that is given twice", document: terraformed(`{source: Inline, module: "", env: [{name: A, value: x}, {name: A, value: x}]}`),
			field: "spec.template.spec.forProvider.env[1].name", says: "Duplicate value"},
		{name: "v1beta1: a variable that is given twice", document: legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {forProvider: {source: Inline, module: "", vars: [{key: a, value: x}, {key: a, value: z}]}}}}`),
			field: "spec.template.spec.forProvider.vars[1].key", says: "Duplicate value"},
		{name: "state elsewhere", document: terraformed(`{source: Inline, module: "", initArgs: ["-backend-config=x"]}`),
			field: "spec.template.spec.forProvider.initArgs[0]", says: "the Terraform backend is set in the ProviderConfig"},
		{name: "a plan of another state", document: terraformed(`{source: Inline, module: "", planArgs: ["-state=x"]}`),
			field: "spec.template.spec.forProvider.planArgs[0]", says: "the Terraform backend is set in the ProviderConfig"},
		{name: "state beside the state", document: terraformed(`{source: Inline, module: "", applyArgs: ["-state-out=x"]}`),
			field: "spec.template.spec.forProvider.applyArgs[0]", says: "the Terraform backend is set in the ProviderConfig"},
		{name: "another folder", document: terraformed(`{source: Inline, module: "", destroyArgs: ["-chdir=/"]}`),
			field: "spec.template.spec.forProvider.destroyArgs[0]", says: "the Terraform backend is set in the ProviderConfig"},
		{name: "out of the module", document: terraformed(`{source: Remote, module: "git::https://example.com/x", entrypoint: "../y"}`),
			field: "spec.template.spec.forProvider.entrypoint", says: "must be a directory within the module"},
		{name: "an invalid scope", document: document("WorkspaceTemplate", "vpc", `{workspaceScope: Galaxy, template: {spec: {forProvider: {source: Inline, module: ""}}}}`),
			field: "spec.workspaceScope", says: "supported values"},
		{name: "another scope", given: []string{document("WorkspaceTemplate", "vpc", `{workspaceScope: Cluster, template: {spec: {forProvider: {source: Inline, module: ""}}}}`)},
			document: document("WorkspaceTemplate", "vpc", `{workspaceScope: Namespaced, template: {spec: {forProvider: {source: Inline, module: ""}}}}`),
			field:    "spec.workspaceScope", says: "Create another WorkspaceTemplate"},
		{name: "a secret in plain text",
			document: document("WorkspaceTemplate", "vpc", `{publishOutputs: [a, b], template: {spec: {forProvider: {source: Inline, module: "output \"a\" { value = 1 }\noutput \"b\" {\n  value = 1\n  sensitive = true\n}\n"}}}}`),
			field:    "spec.publishOutputs[1]", says: "sensitive"},
		{name: "namespaces that are none", document: document("WorkspaceTemplate", "vpc", `{allowedNamespaces: {names: ["team-*"]}, template: {spec: {forProvider: {source: Inline, module: ""}}}}`),
			field: "spec.allowedNamespaces.names[0]", says: "namespace"},
		{name: "a selector that selects nothing", document: document("WorkspaceTemplate", "vpc", `{allowedNamespaces: {selector: {matchExpressions: [{key: team, operator: Resembles}]}}, template: {spec: {forProvider: {source: Inline, module: ""}}}}`),
			field: "spec.allowedNamespaces.selector", says: "Resembles"},
		{name: "no namespace at all", document: document("WorkspaceTemplate", "vpc", `{allowedNamespaces: {}, template: {spec: {forProvider: {source: Inline, module: ""}}}}`),
			field: "spec.allowedNamespaces", says: "at least 1"},
		{name: "no module", document: document("WorkspaceTemplate", "vpc", `{template: {spec: {}}}`),
			field: "spec.template.spec.forProvider", says: "Required value"},
		{name: "v1beta1: HCL that does not end", document: legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {forProvider: {source: Inline, module: "locals {\n"}}}}`),
			field: module, says: "line 1, column 8"},
	})
}

// applied is a WorkspaceTemplateApply.
func applied(name, more string) string {
	return document("WorkspaceTemplateApply", name, `{templateRef: {name: vpc}`+more+`}`)
}

func TestWorkspaceTemplateAppliesThatAreRefused(t *testing.T) {
	t.Parallel()
	waits := func(name, workspace, others string) string {
		return applied(name, `, workspaceName: `+workspace+`, waitForWorkspaces: [`+others+`]`)
	}
	refuse(t, []refusal{
		{name: "no template", document: document("WorkspaceTemplateApply", "a", `{}`),
			field: "spec.templateRef", says: "Required value"},
		{name: "a template that others keep to themselves", given: platform(),
			document: document("WorkspaceTemplateApply", "a", `{templateRef: {name: private, namespace: platform}}`),
			field:    "spec.templateRef", says: "spec.allowedNamespaces"},
		{name: "another Workspace", given: []string{applied("a", `, workspaceName: one`)}, document: applied("a", `, workspaceName: two`),
			field: "spec.workspaceName", says: "workspaceName is immutable"},
		{name: "a Workspace that belongs to another one", given: []string{vpcTemplate(), applied("b", `, workspaceName: one`)},
			document: applied("a", `, workspaceName: one`),
			field:    "spec.workspaceName", says: "WorkspaceTemplateApply b"},
		{name: "x beside x-apply", given: []string{vpcTemplate(), applied("x-apply", ``)}, document: applied("x", ``),
			field: "spec.workspaceName", says: "WorkspaceTemplateApply x-apply"},
		{name: "x-apply beside x", given: []string{vpcTemplate(), applied("x", ``)}, document: applied("x-apply", ``),
			field: "spec.workspaceName", says: "WorkspaceTemplateApply x"},
		{name: "a name that no Workspace can have", document: applied("a", `, workspaceName: Not_A_Name`),
			field: "spec.workspaceName", says: "RFC 1123"},
		{name: "a name that is kept for a VPC", given: []string{network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`)},
			document: document("WorkspaceTemplateApply", "demo-vpc", `{templateRef: {name: other}}`),
			field:    "metadata.name", says: "CAPTCluster demo"},
		{name: "a name that is kept for a control plane", given: []string{plane(`{version: "1.35", workspaceTemplateRef: {name: eks}}`)},
			document: document("WorkspaceTemplateApply", "demo-eks-controlplane-apply", `{templateRef: {name: other}}`),
			field:    "metadata.name", says: "CAPTControlPlane demo"},
		{name: "a name that is kept for a VPC, with a template that exists", given: []string{vpcTemplate(), template("other", vpcModule, "sandbox"), network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`)},
			document: document("WorkspaceTemplateApply", "demo-vpc", `{templateRef: {name: other}}`),
			field:    "metadata.name", says: "CAPTCluster demo"},
		{name: "waiting for itself", document: waits("a", "a", `{name: a}`),
			field: "spec.waitForWorkspaces[0]", says: "itself"},
		{name: "a cycle of two", given: []string{waits("a", "a", `{name: b}`)}, document: waits("b", "b", `{name: a}`),
			field: "spec.waitForWorkspaces[0]", says: "b → a → b"},
		{name: "a cycle of three", given: []string{waits("a", "wa", `{name: wb}`), waits("b", "wb", `{name: wc}`)},
			document: waits("c", "wc", `{name: elsewhere}, {name: wa}`),
			field:    "spec.waitForWorkspaces[1]", says: "c → a → b → c"},
		{name: "a Workspace waited for twice", document: waits("a", "a", `{name: b}, {name: b}`),
			field: "spec.waitForWorkspaces[1]", says: "Duplicate value"},
		{name: "outputs into another namespace", document: applied("a", `, writeConnectionSecretToRef: {name: s, namespace: kube-system}`),
			field: "spec.writeConnectionSecretToRef.namespace", says: "the namespace of the WorkspaceTemplateApply. Remove the field"},
		{name: "a Secret of another namespace", document: applied("a", `, waitForSecrets: [{name: s, namespace: kube-system}]`),
			field: "spec.waitForSecrets[0].namespace", says: "the namespace of the WorkspaceTemplateApply. Remove the field"},
		{name: "a Secret waited for twice", document: applied("a", `, waitForSecrets: [{name: s}, {name: s}]`),
			field: "spec.waitForSecrets[1]", says: "Duplicate value"},
		{name: "a variable with a dash", document: applied("a", `, variables: {a-b: c}`),
			field: "spec.variables[a-b]", says: "letters, digits and underscores"},
		{name: "a value that would end a string of the module", given: []string{pasted("vpc")}, document: applied("a", `, variables: {owner: '"'}`),
			field: "spec.variables[owner]", says: "pass the value in forProvider.vars or varmap"},
		{name: "a value that would begin an expression", given: []string{pasted("vpc")}, document: applied("a", `, variables: {owner: '${file("/etc/passwd")}'}`),
			field: "spec.variables[owner]", says: "pass the value in forProvider.vars or varmap"},
		{name: "a number for a text", document: applied("a", `, variables: {a: 1}`),
			field: "spec.variables.a", says: "must be of type string"},
		{name: "an invalid deletion policy", document: applied("a", `, deletionPolicy: Keep`),
			field: "spec.deletionPolicy", says: "supported values"},
		{name: "v1beta1: a cycle", given: []string{waits("a", "a", `{name: b}`)},
			document: legacyDocument("WorkspaceTemplateApply", "b", `{templateRef: {name: vpc}, waitForWorkspaces: [{name: a}]}`),
			field:    "spec.waitForWorkspaces[0]", says: "b → a → b"},
	})
}

// Each of these would make Terraform replace existing resources.
func TestChangesThatWouldReplaceAClusterAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running := func(variables string) string {
		return document("WorkspaceTemplateApply", "by-hand", `{templateRef: {name: vpc}, variables: {`+variables+`}}`)
	}
	w.apply(vpcTemplate(), controlPlaneTemplate(), running(`cluster_name: demo, vpc_name: net`))
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "by-hand", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)

	w.refuses(running(`cluster_name: other, vpc_name: net`), "spec.variables[cluster_name]", "cannot be changed or removed")
	w.refuses(plane(`{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: by-hand}}`),
		"spec.workspaceTemplateApplyRef.name", "it refers to another WorkspaceTemplate")
}
