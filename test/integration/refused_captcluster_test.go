// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"strings"
	"testing"
)

// network is a CAPTCluster.
func network(spec string) string { return document("CAPTCluster", "demo", spec) }

// legacyNetwork is one in v1beta1.
func legacyNetwork(spec string) string { return legacyDocument("CAPTCluster", "demo", spec) }

// platform is a namespace with a template that it keeps to itself.
func platform() []string {
	return []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: platform}\n",
		strings.Replace(template("private", vpcModule, "sandbox"), "  name: private\n", "  name: private\n  namespace: platform\n", 1),
	}
}

// pasted is a template that puts a variable into the text of its module.
func pasted(name string) string {
	return template(name, "\noutput \"owner\" {\n  value = \"${owner}\"\n}\n", "sandbox")
}

func TestCAPTClustersThatAreRefused(t *testing.T) {
	t.Parallel()
	refuse(t, []refusal{
		{name: "region in capitals", document: network(`{region: Frankfurt, vpc: {existingID: vpc-1}}`),
			field: "spec.region", says: "should match"},
		{name: "no region", document: network(`{vpc: {existingID: vpc-1}}`),
			field: "spec.region", says: "Required value"},
		{name: "region without a number", document: network(`{region: eu-central, vpc: {existingID: vpc-1}}`),
			field: "spec.region", says: "should match"},
		{name: "an availability zone", document: network(`{region: eu-central-1a, vpc: {existingID: vpc-1}}`),
			field: "spec.region", says: "should match"},
		{name: "no VPC", document: network(`{region: eu-central-1, vpc: {}}`),
			field: "spec.vpc", says: "exactly one of existingID and template"},
		{name: "two VPCs", document: network(`{region: eu-central-1, vpc: {existingID: vpc-1, template: {ref: {name: vpc}}}}`),
			field: "spec.vpc", says: "exactly one of existingID and template"},
		{name: "a subnet for a VPC", document: network(`{region: eu-central-1, vpc: {existingID: subnet-1}}`),
			field: "spec.vpc.existingID", says: "should match"},
		{name: "a VPC id in capitals", document: network(`{region: eu-central-1, vpc: {existingID: vpc-ABC}}`),
			field: "spec.vpc.existingID", says: "should match"},
		{name: "a Secret beside a template", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}, connectionSecretRef: {name: s}}}`),
			field: "spec.vpc.connectionSecretRef", says: "is only used with existingID"},
		{name: "a template without a name", document: network(`{region: eu-central-1, vpc: {template: {ref: {}}}}`),
			field: "spec.vpc.template.ref.name", says: "Required value"},
		{name: "an invalid deletion policy", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, deletionPolicy: Keep}}}`),
			field: "spec.vpc.template.deletionPolicy", says: `supported values: "Delete", "Retain"`},
		{name: "a variable with a dash", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {a-b: c}}}}`),
			field: "spec.vpc.template.variables[a-b]", says: "letters, digits and underscores"},
		{name: "a variable that begins with a digit", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {1a: c}}}}`),
			field: "spec.vpc.template.variables[1a]", says: "letters, digits and underscores"},
		{name: "a value that would end a string of the module", given: []string{pasted("vpc")},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {owner: 'me" }'}}}}`),
			field:    "spec.vpc.template.variables[owner]", says: "pass the value in forProvider.vars or varmap"},
		{name: "a template that others keep to themselves", given: platform(),
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: private, namespace: platform}}}}`),
			field:    "spec.vpc.template.ref", says: "spec.allowedNamespaces"},
		{name: "a WorkspaceTemplateApply that another CAPTCluster refers to",
			given:    []string{document("CAPTCluster", "other", `{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: shared}}`)},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: shared}}`),
			field:    "spec.workspaceTemplateApplyRef.name", says: "CAPTCluster other"},
		{name: "the WorkspaceTemplateApply of a control plane",
			given:    []string{plane(`{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: shared}}`)},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: shared}}`),
			field:    "spec.workspaceTemplateApplyRef.name", says: "CAPTControlPlane demo"},
		{name: "another region than the control plane's",
			given:    []string{cluster("demo"), plane(`{version: "1.35", region: eu-west-1, workspaceTemplateRef: {name: eks}}`)},
			document: network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`),
			field:    "spec.region", says: "eu-west-1"},
		{name: "a name too long for the names derived from it",
			document: document("CAPTCluster", strings.Repeat("n", 252), `{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`),
			field:    "metadata.name", says: "characters"},
		{name: "another region", given: []string{network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`)},
			document: network(`{region: eu-west-1, vpc: {existingID: vpc-1}}`),
			field:    "spec.region", says: "region is immutable"},
		{name: "another VPC", given: []string{network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`)},
			document: network(`{region: eu-central-1, vpc: {existingID: vpc-2}}`),
			field:    "spec.vpc.existingID", says: "existingID is immutable"},
		{name: "a template in place of a VPC", given: []string{network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`)},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`),
			field:    "spec.vpc", says: "existingID and template cannot replace each other"},
		{name: "another name of the VPC", given: []string{network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, name: one}}}`)},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, name: two}}}`),
			field:    "spec.vpc.template.name", says: "name is immutable: Terraform would create another VPC"},
		{name: "another WorkspaceTemplateApply",
			given:    []string{network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: one}}`)},
			document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: two}}`),
			field:    "spec.workspaceTemplateApplyRef", says: "another WorkspaceTemplateApply is another VPC"},
		{name: "v1beta1: two VPCs", document: legacyNetwork(`{region: eu-central-1, existingVpcId: vpc-1, vpcTemplateRef: {name: vpc}}`),
			field: "spec", says: "exactly one of existingVpcId and vpcTemplateRef"},
		{name: "v1beta1: no VPC", document: legacyNetwork(`{region: eu-central-1}`),
			field: "spec", says: "exactly one of existingVpcId and vpcTemplateRef"},
		{name: "v1beta1: retaining a VPC that CAPT does not manage", document: legacyNetwork(`{region: eu-central-1, existingVpcId: vpc-1, retainVpcOnDelete: true}`),
			field: "spec.retainVpcOnDelete", says: "vpcTemplateRef"},
		{name: "v1beta1: region", document: legacyNetwork(`{region: Frankfurt, existingVpcId: vpc-1}`),
			field: "spec.region", says: "should match"},
		{name: "v1beta1: another region", given: []string{network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`)},
			document: legacyNetwork(`{region: eu-west-1, existingVpcId: vpc-1}`),
			field:    "spec.region", says: "region is immutable"},
		{name: "v1beta1: another WorkspaceTemplateApply",
			given:    []string{network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: one}}`)},
			document: legacyNetwork(`{region: eu-central-1, vpcTemplateRef: {name: vpc}, workspaceTemplateApplyName: two}`),
			field:    "spec.workspaceTemplateApplyRef", says: "another WorkspaceTemplateApply is another VPC"},
		{name: "template: region", document: document("CAPTClusterTemplate", "class", `{template: {spec: {region: Frankfurt, vpc: {existingID: vpc-1}}}}`),
			field: "spec.template.spec.region", says: "should match"},
		{name: "template: two VPCs", document: document("CAPTClusterTemplate", "class", `{template: {spec: {region: eu-central-1, vpc: {existingID: vpc-1, template: {ref: {name: vpc}}}}}}`),
			field: "spec.template.spec.vpc", says: "exactly one of existingID and template"},
		{name: "the variable of a Fargate profile", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {profile_name: a}}}}`),
			field: "spec.vpc.template.variables[profile_name]", says: "is reserved for Fargate profiles"},
		{name: "template: a variable with a dash", document: document("CAPTClusterTemplate", "class", `{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {a-b: c}}}}}}`),
			field: "spec.template.spec.vpc.template.variables[a-b]", says: "letters, digits and underscores"},
	})
}

// plane is a CAPTControlPlane.
func plane(spec string) string { return document("CAPTControlPlane", "demo", spec) }

// legacyPlane is one in v1beta1.
func legacyPlane(spec string) string { return legacyDocument("CAPTControlPlane", "demo", spec) }

// planeWith is a CAPTControlPlane that is right but for one thing.
func planeWith(more string, args ...any) string {
	return plane(`{version: "1.35", workspaceTemplateRef: {name: eks}, ` + fmt.Sprintf(more, args...) + `}`)
}
