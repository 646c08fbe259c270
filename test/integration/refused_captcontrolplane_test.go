// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestCAPTControlPlanesThatAreRefused(t *testing.T) {
	t.Parallel()
	refuse(t, []refusal{
		{name: "a word for a version", document: plane(`{version: latest, workspaceTemplateRef: {name: eks}}`),
			field: "spec.version", says: "should match"},
		{name: "half a version", document: plane(`{version: "1", workspaceTemplateRef: {name: eks}}`),
			field: "spec.version", says: "should match"},
		{name: "no version", document: plane(`{workspaceTemplateRef: {name: eks}}`),
			field: "spec.version", says: "Required value"},
		{name: "a version before the one that Terraform has", given: running("1.35"),
			document: plane(`{version: "1.34", region: eu-central-1, workspaceTemplateRef: {name: eks}}`),
			field:    "spec.version", says: "the change to 1.35 is pending or in progress"},
		{name: "two minor versions at once", given: running("1.33"),
			document: plane(`{version: "v1.35.0", region: eu-central-1, workspaceTemplateRef: {name: eks}}`),
			field:    "spec.version", says: "one minor version at a time. Upgrade to 1.34 first"},
		{name: "no template", document: plane(`{version: "1.35"}`),
			field: "spec.workspaceTemplateRef", says: "Required value"},
		{name: "a template that others keep to themselves", given: platform(),
			document: plane(`{version: "1.35", workspaceTemplateRef: {name: private, namespace: platform}}`),
			field:    "spec.workspaceTemplateRef", says: "spec.allowedNamespaces"},
		{name: "region", document: planeWith(`region: Frankfurt`), field: "spec.region", says: "should match"},
		{name: "another region than the network's", given: []string{cluster("demo"), network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`)},
			document: planeWith(`region: eu-west-1`), field: "spec.region", says: "eu-central-1"},
		{name: "another region", given: running("1.35"),
			document: planeWith(`region: eu-west-1`), field: "spec.region", says: "the control plane exists in region"},
		{name: "the variable of a Fargate profile", document: planeWith(`variables: {profile_name: a}`),
			field: "spec.variables[profile_name]", says: "is reserved for Fargate profiles"},
		{name: "a variable with a dash", document: planeWith(`variables: {a-b: c}`),
			field: "spec.variables[a-b]", says: "letters, digits and underscores"},
		{name: "a value that would end a string of the module", given: []string{pasted("eks")}, document: planeWith(`variables: {owner: '"'}`),
			field: "spec.variables[owner]", says: "pass the value in forProvider.vars or varmap"},
		{name: "an unreachable endpoint", document: planeWith(`endpointAccess: {public: Disabled, private: Disabled}`),
			field: "spec.endpointAccess", says: "cannot be reached with both endpoints Disabled"},
		{name: "an invalid network", document: planeWith(`endpointAccess: {publicCIDRs: [10.0.0.1/99]}`),
			field: "spec.endpointAccess.publicCIDRs[0]", says: "CIDR notation"},
		{name: "an address for a network", document: planeWith(`endpointAccess: {publicCIDRs: [10.0.0.1]}`),
			field: "spec.endpointAccess.publicCIDRs[0]", says: "CIDR notation"},
		{name: "the same network twice", document: planeWith(`endpointAccess: {publicCIDRs: [10.0.0.0/8, 10.0.0.0/8]}`),
			field: "spec.endpointAccess.publicCIDRs[1]", says: "Duplicate value"},
		{name: "networks for an endpoint that is not public", document: planeWith(`endpointAccess: {public: Disabled, private: Enabled, publicCIDRs: [10.0.0.0/8]}`),
			field: "spec.endpointAccess.publicCIDRs", says: "publicCIDRs has no effect while public is Disabled"},
		{name: "no network at all", document: planeWith(`endpointAccess: {publicCIDRs: []}`),
			field: "spec.endpointAccess.publicCIDRs", says: "at least 1 items"},
		{name: "networks that the template does not pass on", given: []string{controlPlaneTemplate()}, document: planeWith(`endpointAccess: {publicCIDRs: [10.0.0.0/8]}`),
			field: "spec.endpointAccess.publicCIDRs", says: "does not pass ${endpoint_public_access_cidrs} to its module"},
		{name: "a public endpoint that the template does not close", given: []string{controlPlaneTemplate()}, document: planeWith(`endpointAccess: {public: Disabled, private: Enabled}`),
			field: "spec.endpointAccess.public", says: "does not pass ${endpoint_public_access} to its module"},
		{name: "an add-on twice", document: planeWith(`addons: [{name: coredns}, {name: coredns}]`),
			field: "spec.addons[1]", says: "Duplicate value"},
		{name: "an add-on without a name", document: planeWith(`addons: [{version: v1}]`),
			field: "spec.addons[0].name", says: "Required value"},
		{name: "settings of an add-on that are not YAML", document: planeWith(`addons: [{name: coredns, configurationValues: '{"a": '}]`),
			field: "spec.addons[0].configurationValues", says: "JSON or YAML"},
		{name: "settings of an add-on that are a list", document: planeWith(`addons: [{name: coredns, configurationValues: '[1, 2]'}]`),
			field: "spec.addons[0].configurationValues", says: "JSON or YAML"},
		{name: "a tag of AWS' own", document: planeWith(`additionalTags: {"aws:x": v}`),
			field: "spec.additionalTags", says: "reserved by AWS"},
		{name: "a tag of AWS' own in capitals", document: planeWith(`additionalTags: {"AWS:x": v}`),
			field: "spec.additionalTags[AWS:x]", says: "reserved by AWS"},
		{name: "a tag key that is too long", document: planeWith(`additionalTags: {%q: v}`, strings.Repeat("k", 129)),
			field: "spec.additionalTags", says: "1 to 128 characters"},
		{name: "a tag value that is too long", document: planeWith(`additionalTags: {k: %q}`, strings.Repeat("v", 257)),
			field: "spec.additionalTags.k", says: "Too long"},
		{name: "a character that tags cannot have", document: planeWith(`additionalTags: {k: "a;b"}`),
			field: "spec.additionalTags[k]", says: "letters, digits"},
		{name: "too many tags", document: planeWith(`additionalTags: {%s}`, many(51, "t%d: v")),
			field: "spec.additionalTags", says: "at most 50"},
		{name: "no time at all", document: planeWith(`timeouts: {controlPlaneSeconds: 0}`),
			field: "spec.timeouts.controlPlaneSeconds", says: "greater than or equal to 10"},
		{name: "more time than a day", document: planeWith(`timeouts: {vpcReadySeconds: 86401}`),
			field: "spec.timeouts.vpcReadySeconds", says: "less than or equal to 86400"},
		{name: "a kubeconfig from nowhere", document: planeWith(`kubeconfig: {source: Magic}`),
			field: "spec.kubeconfig.source", says: "supported values"},
		{name: "an invalid probe", document: planeWith(`endpointProbe: Sometimes`),
			field: "spec.endpointProbe", says: "supported values"},
		{name: "a pause that begins longer than it may become", document: planeWith(`recovery: {backoff: {initialSeconds: 60, maxSeconds: 30}}`),
			field: "spec.recovery.backoff", says: "must not exceed"},
		{name: "recovery that destroys", document: planeWith(`recovery: {actions: [{type: RecreateWorkspace}]}`),
			field: "spec.recovery.actions[0]", says: "allowDestroy"},
		{name: "another WorkspaceTemplateApply", given: []string{planeWith(`workspaceTemplateApplyRef: {name: one}`)},
			document: planeWith(`workspaceTemplateApplyRef: {name: two}`),
			field:    "spec.workspaceTemplateApplyRef", says: "another WorkspaceTemplateApply is another EKS cluster"},
		{name: "a WorkspaceTemplateApply that another control plane refers to",
			given:    []string{document("CAPTControlPlane", "other", `{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: shared}}`)},
			document: planeWith(`workspaceTemplateApplyRef: {name: shared}`),
			field:    "spec.workspaceTemplateApplyRef.name", says: "CAPTControlPlane other"},
		{name: "a name too long for the names derived from it",
			document: document("CAPTControlPlane", strings.Repeat("n", 250), `{version: "1.35", workspaceTemplateRef: {name: eks}}`),
			field:    "metadata.name", says: "characters"},
		{name: "a kubeconfig Secret that is another cluster's",
			given:    []string{cluster("demo"), planeWith(`region: eu-central-1`), cluster("demo-user")},
			document: document("CAPTControlPlane", "demo-user", `{version: "1.35", workspaceTemplateRef: {name: eks}}`),
			field:    "metadata.name", says: "demo-user-kubeconfig"},
		{name: "v1beta1: a word for a version", document: legacyPlane(`{version: latest, workspaceTemplateRef: {name: eks}}`),
			field: "spec.version", says: "should match"},
		{name: "v1beta1: an unreachable endpoint",
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, controlPlaneConfig: {region: eu-central-1, endpointAccess: {public: false, private: false}}}`),
			field:    "spec.endpointAccess", says: "cannot be reached with both endpoints Disabled"},
		{name: "v1beta1: networks that the template does not pass on", given: []string{controlPlaneTemplate()},
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, controlPlaneConfig: {region: eu-central-1, endpointAccess: {public: true, private: false, publicCIDRs: [10.0.0.0/8]}}}`),
			field:    "spec.endpointAccess.publicCIDRs", says: "does not pass ${endpoint_public_access_cidrs} to its module"},
		{name: "v1beta1: a tag of AWS' own",
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, controlPlaneConfig: {region: eu-central-1}, additionalTags: {"aws:x": v}}`),
			field:    "spec.additionalTags", says: "reserved by AWS"},
		{name: "v1beta1: a version before the one that Terraform has", given: running("1.35"),
			document: legacyPlane(`{version: "1.34", workspaceTemplateRef: {name: eks}, controlPlaneConfig: {region: eu-central-1}}`),
			field:    "spec.version", says: "is pending or in progress"},
		{name: "v1beta1: another region", given: running("1.35"),
			document: legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, controlPlaneConfig: {region: eu-west-1}}`),
			field:    "spec.region", says: "the control plane exists in region"},
		{name: "template: an invalid network",
			document: document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, endpointAccess: {publicCIDRs: [nowhere]}}}}`),
			field:    "spec.template.spec.endpointAccess.publicCIDRs[0]", says: "CIDR notation"},
		{name: "template: a character that tags cannot have",
			document: document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, additionalTags: {k: "a;b"}}}}`),
			field:    "spec.template.spec.additionalTags[k]", says: "letters, digits"},
	})
}

// running is a control plane that was given to Terraform in a version and a region.
func running(version string) []string {
	return []string{
		plane(`{version: "` + version + `", region: eu-central-1, workspaceTemplateRef: {name: eks}}`),
		document("WorkspaceTemplateApply", "demo-eks-controlplane-apply", `{templateRef: {name: eks}, variables: {cluster_name: demo, region: eu-central-1, kubernetes_version: "`+version+`"}}`),
	}
}

// many joins n copies of a format, each with its number.
func many(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ", ")
}
