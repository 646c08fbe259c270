// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
)

// request is a document that the API server answers. The rules themselves are tested in api/validation and webhooks/admission; these rows prove
// that each kind's webhook, each index of the manager's cache and each version of the schema is in use. TestLibraryAndAPIServerAgreeAboutEveryRule
// has all rules of v1beta2.
type request struct {
	name string
	// given exists before. An object of the same name makes the document an update of it.
	given    []string
	document string
	// field is what the refusal names, and text is a part of what it says about it.
	field, text string
}

// refuses waits until a document is refused: webhooks see what was there before a moment later than the API server.
func (env environment) refuses(document, field, text string) {
	env.Helper()
	env.Eventually(func() string {
		err := env.dryRun(env.Client, document)
		if slices.ContainsFunc(causesOf(err), func(c metav1.StatusCause) bool { return c.Field == field && strings.Contains(c.Message, text) }) {
			return ""
		}
		return fmt.Sprintf("want %s: %s\ngot %v", field, text, err)
	})
}

// dryRun creates an object, or applies it when it exists, without doing it.
func (env environment) dryRun(c client.Client, document string) error {
	env.Helper()
	object := fixture.Decode(env, env.Namespace, document)
	err := c.Create(env.Context(), object.DeepCopy(), client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		return c.Apply(env.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership, client.DryRunAll)
	}
	return err
}

// causesOf are the single errors of a refusal that is one of the object, as the API server itself refuses.
func causesOf(err error) []metav1.StatusCause {
	var status *apierrors.StatusError
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return nil
	}
	return status.ErrStatus.Details.Causes
}

const vpcRef = `vpc: {template: {ref: {name: vpc}}}`

func TestObjectsThatAreRefused(t *testing.T) {
	t.Parallel()
	waits := func(name, workspace, other string) string {
		return applied(name, `variables: {vpc_name: a}, workspaceName: `+workspace+`, waitForWorkspaces: [{name: `+other+`}]`)
	}
	inline := func(module string) string {
		return `{template: {spec: {forProvider: {source: Inline, module: ` + module + `}}}}`
	}
	profile := `fargateProfiles: [{name: web, selectors: [{namespace: a}], workspaceTemplateRef: {name: fargate}}]`
	refers := plane(`workspaceTemplateApplyRef: {name: shared}`)
	for _, row := range []request{
		{name: "CAPTCluster: webhook", document: network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {a-b: c}}}}`),
			field: "spec.vpc.template.variables[a-b]", text: "letters, digits and underscores"},
		{name: "CAPTCluster: what another owner refers to", given: []string{refers},
			document: network(`{region: eu-central-1, ` + vpcRef + `, workspaceTemplateApplyRef: {name: shared}}`),
			field:    "spec.workspaceTemplateApplyRef.name", text: "CAPTControlPlane demo"},
		{name: "CAPTCluster: another region than that of the control plane", given: []string{fixture.Cluster(), plane(`region: eu-west-1`)},
			document: network(`{region: eu-central-1, vpc: {existingID: vpc-1}}`), field: "spec.region", text: "eu-west-1"},
		{name: "CAPTCluster in v1beta1: rule", document: legacyDocument("CAPTCluster", "demo", `{region: eu-central-1}`),
			field: "spec", text: "exactly one of existingVpcId and vpcTemplateRef"},
		{name: "CAPTCluster in v1beta1: rule of v1beta2", document: legacyDocument("CAPTCluster", "demo", `{region: Frankfurt, existingVpcId: vpc-1}`),
			field: "spec.region", text: "should match"},
		{name: "CAPTCluster in v1beta1: rule of v1beta2 about an update",
			given:    []string{network(`{region: eu-central-1, ` + vpcRef + `, workspaceTemplateApplyRef: {name: one}}`)},
			document: legacyDocument("CAPTCluster", "demo", `{region: eu-west-1, vpcTemplateRef: {name: vpc}}`),
			field:    "spec.region", text: "region is immutable"},
		{name: "CAPTClusterTemplate: webhook", field: "spec.template.spec.vpc.template.variables[a-b]", text: "letters, digits and underscores",
			document: document("CAPTClusterTemplate", "class", `{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {a-b: c}}}}}}`)},

		{name: "CAPTControlPlane: required field, before defaulting", document: document("CAPTControlPlane", "demo", `{workspaceTemplateRef: {name: eks}}`),
			field: "spec.version", text: "Required value"},
		{name: "CAPTControlPlane: webhook", document: plane(`additionalTags: {k: "a;b"}`), field: "spec.additionalTags[k]", text: "letters, digits"},
		{name: "CAPTControlPlane: the WorkspaceTemplateApply of a copy", given: []string{refers},
			document: document("CAPTControlPlane", "copy", `{version: "1.36", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: shared}}`),
			field:    "spec.workspaceTemplateApplyRef.name", text: "in use by CAPTControlPlane demo"},
		{name: "CAPTControlPlane: two minor versions at once", field: "spec.version", text: "one minor version at a time. Upgrade to 1.34 first",
			given: []string{document("CAPTControlPlane", "demo", `{version: "1.33", region: eu-central-1, workspaceTemplateRef: {name: eks}}`),
				document("WorkspaceTemplateApply", fixture.ControlPlane, `{templateRef: {name: eks}, variables: {cluster_name: demo, region: eu-central-1, kubernetes_version: "1.33"}}`)},
			document: plane(`region: eu-central-1`)},
		{name: "CAPTControlPlane: a kubeconfig Secret of another cluster",
			given:    []string{fixture.Cluster(), plane(`region: eu-central-1`), strings.ReplaceAll(fixture.Cluster(), "demo", "demo-user")},
			document: document("CAPTControlPlane", "demo-user", `{version: "1.35", workspaceTemplateRef: {name: eks}}`),
			field:    "metadata.name", text: "demo-user-kubeconfig"},
		{name: "CAPTControlPlane: reference of a Fargate profile",
			given:    []string{document("CAPTControlPlane", "other", `{version: "1.35", workspaceTemplateRef: {name: eks}, workspaceTemplateApplyRef: {name: x}}`)},
			document: plane(`fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: fargate}, workspaceTemplateApplyRef: {name: x}}]`),
			field:    "spec.fargateProfiles[0].workspaceTemplateApplyRef.name", text: "in use by CAPTControlPlane other"},
		{name: "CAPTControlPlane in v1beta1: rule of v1beta2", document: legacyPlane(`controlPlaneConfig: {region: eu-central-1, endpointAccess: {public: false, private: false}}`),
			field: "spec.endpointAccess", text: "cannot be reached with both endpoints Disabled"},
		{name: "CAPTControlPlane in v1beta1: webhook",
			document: legacyPlane(`additionalFargateProfiles: [{name: a, selectors: [{namespace: Team_1}], workspaceTemplateRef: {name: f}}]`),
			field:    "spec.fargateProfiles[0].selectors[0].namespace", text: "cannot match any pod"},
		{name: "CAPTControlPlaneTemplate: webhook",
			document: document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, additionalTags: {k: "a;b"}}}}`),
			field:    "spec.template.spec.additionalTags[k]", text: "letters, digits"},

		{name: "WorkspaceTemplate: webhook", document: document("WorkspaceTemplate", "vpc", inline(`"locals {\n  a = 1\n"`)),
			field: "spec.template.spec.forProvider.module", text: "line 1, column 8"},
		{name: "WorkspaceTemplate in v1beta1: webhook", document: legacyDocument("WorkspaceTemplate", "vpc", inline(`"locals {\n"`)),
			field: "spec.template.spec.forProvider.module", text: "line 1, column 8"},
		{name: "WorkspaceTemplateApply: a Workspace of another", given: []string{applied("b", `variables: {vpc_name: b}, workspaceName: one`)}, document: applied("a", `variables: {vpc_name: a}, workspaceName: one`),
			field: "spec.workspaceName", text: "WorkspaceTemplateApply b"},
		{name: "WorkspaceTemplateApply: a name kept for a VPC", given: []string{network(`{region: eu-central-1, ` + vpcRef + `}`)},
			document: document("WorkspaceTemplateApply", fixture.VPC, `{templateRef: {name: other}}`), field: "metadata.name", text: "CAPTCluster demo"},
		{name: "WorkspaceTemplateApply: a name kept for a Fargate profile", given: []string{fixture.Cluster(), plane(profile)},
			document: document("WorkspaceTemplateApply", "demo-web-fargate-apply", `{templateRef: {name: other}}`), field: "metadata.name", text: "its Fargate profile web"},
		{name: "WorkspaceTemplateApply: a cycle", given: []string{waits("a", "wa", "wb"), waits("b", "wb", "wc")}, document: waits("c", "wc", "wa"),
			field: "spec.waitForWorkspaces[0]", text: "c → a → b → c"},
		{name: "WorkspaceTemplateApply in v1beta1: a cycle", given: []string{waits("a", "a", "b")},
			document: legacyDocument("WorkspaceTemplateApply", "b", `{templateRef: {name: vpc}, variables: {vpc_name: b}, waitForWorkspaces: [{name: a}]}`),
			field:    "spec.waitForWorkspaces[0]", text: "b → a → b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t)
			env.User(append([]string{env.VPCTemplate(fixture.VPCModule)}, row.given...)...)
			env.refuses(row.document, row.field, row.text)
			env.refusesWithoutCluster(row)
		})
	}
}

// refusesWithoutCluster requires that captctl validate reports what the API server refuses. It cannot know what an update changes.
func (env environment) refusesWithoutCluster(row request) {
	env.Helper()
	object := fixture.Decode(env, env.Namespace, row.document)
	for _, given := range row.given {
		if before := fixture.Decode(env, env.Namespace, given); before.GetKind() == object.GetKind() && before.GetName() == object.GetName() {
			return
		}
	}
	var out strings.Builder
	in := strings.NewReader(strings.Join(append(append([]string{env.VPCTemplate(fixture.VPCModule)}, row.given...), row.document), "\n---\n"))
	streams := genericiooptions.IOStreams{In: in, Out: &out, ErrOut: io.Discard}
	require.Error(env, command.New("captctl", []string{"validate", "-", "-o", "json", "--namespace", env.Namespace}, streams).ExecuteContext(env.Context()))
	var report manifests.Report
	require.NoError(env, json.Unmarshal([]byte(out.String()), &report))
	require.True(env, slices.ContainsFunc(report.Findings, func(f manifests.Finding) bool {
		return f.Level == manifests.LevelError && f.Field == row.field && strings.Contains(f.Message, row.text)
	}), "%+v", report.Findings)
}

// Otherwise a tenant could find out which templates exist in other namespaces.
func TestATemplateOfAnotherNamespaceLooksLikeAMissingOne(t *testing.T) {
	t.Parallel()
	env, platform := newEnvironment(t), newEnvironment(t)
	platform.User(platform.VPCTemplate(fixture.VPCModule))
	api, heard := env.listening()
	env.Eventually(func() string { // The webhooks see the template.
		require.NoError(t, platform.dryRun(api, document("WorkspaceTemplateApply", "a", `{templateRef: {name: vpc}, variables: {vpc_name: a}}`)))
		said := heard.take()
		return fixture.Unless(!strings.Contains(said, "does not exist"), "%s", said)
	})
	for _, written := range []string{
		network(`{region: eu-central-1, vpc: {template: {ref: REF}}}`),
		legacyPlane(`additionalFargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: REF}]`),
		document("CAPTControlPlane", fixture.Demo, `{version: "1.35", workspaceTemplateRef: REF}`),
		document("WorkspaceTemplateApply", "a", `{templateRef: REF}`),
	} {
		var answers []string
		for _, template := range []string{"vpc", "absent"} {
			require.NoError(t, env.dryRun(api, strings.ReplaceAll(written, "REF", `{name: `+template+`, namespace: `+platform.Namespace+`}`)))
			answers = append(answers, strings.ReplaceAll(heard.take(), platform.Namespace+"/"+template, "TEMPLATE"))
		}
		require.Contains(t, answers[0], "WorkspaceTemplate TEMPLATE does not exist, or does not allow namespace "+env.Namespace)
		require.Equal(t, answers[1], answers[0])
	}
}

func TestWhatCAPTv03WroteIsAdmitted(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	selectors := strings.Repeat("{namespace: 'n-*', labels: {a: b, c: d, e: f, g: h, i: j}}, ", 5)
	for _, document := range []string{
		legacyDocument("CAPTCluster", "demo", `{region: eu-central-1, vpcTemplateRef: {name: vpc}, retainVpcOnDelete: true, vpcConfig: {name: main}}`),
		legacyPlane(`controlPlaneConfig: {region: eu-central-1, endpointAccess: {public: true, private: true}}, additionalTags: {a: b}`),
		legacyPlane(`additionalFargateProfiles: [{name: Batch_1-a, selectors: [` + selectors + `], workspaceTemplateRef: {name: f}}]`),
		legacyDocument("CAPTControlPlaneTemplate", "class", `{template: {spec: {version: "1.35", workspaceTemplateRef: {name: eks}}}}`),
		legacyDocument("WorkspaceTemplate", "vpc", `{template: {metadata: {description: d}, spec: {providerConfigRef: {name: aws},
			writeConnectionSecretToRef: {name: "${cluster_name}-eks", namespace: default}, forProvider: {source: Inline, module: "variable \"a\" { default = 1 }"}}}}`),
		legacyDocument("WorkspaceTemplateApply", "a-apply", `{templateRef: {name: vpc, namespace: default}, variables: {a: b}, retainWorkspaceOnDelete: true}`),
	} {
		require.NoError(t, env.dryRun(env.Client, document), document)
	}
}

// warnings records the warnings of the API server.
type warnings struct {
	sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since it was called last.
func (w *warnings) take() string {
	w.Lock()
	defer w.Unlock()
	texts := strings.Join(w.texts, "\n")
	w.texts = nil
	return texts
}

// listening returns a client whose warnings are recorded.
func (env environment) listening() (client.Client, *warnings) {
	env.Helper()
	heard, config := &warnings{}, shared.Config()
	config.WarningHandler = heard
	api, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(env, err)
	return api, heard
}

func TestProblemsThatALaterObjectCanResolveAreWarnings(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	api, heard := env.listening()
	env.User(closed(env), plane(`endpointAccess: {publicCIDRs: [203.0.113.0/24]}`))
	for warning, document := range map[string]string{
		"spec.vpc.template.ref: WorkspaceTemplate vpc does not exist yet. Nothing is created until it exists": network(`{region: eu-central-1, ` + vpcRef + `}`),
		"spec.recovery.actions[0].parameters[profile]: has no effect":                                         plane(`recovery: {actions: [{type: Reapply, parameters: {profile: a}}]}`),
		"spec.fargateProfiles[0].name: is not a valid label value": legacyPlane(
			`additionalFargateProfiles: [{name: a_, selectors: [{namespace: a}], workspaceTemplateRef: {name: f}}]`),
		"spec.template.spec.recovery.actions[0].parameters[profile]: has no effect": document(
			"CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, recovery: {actions: [{type: Reapply, parameters: {profile: a}}]}}}}`),
		"the API servers of 1 CAPTControlPlanes will be": env.ControlPlaneTemplate(fixture.ControlPlaneModule),
		"spec.templateRef: WorkspaceTemplate vpc":        applied("a", ``),
		"has neither a value nor a default": document(
			"WorkspaceTemplate", "new", `{passVariables: None, template: {spec: {forProvider: {source: Inline, module: "variable \"a\" {}"}}}}`),
	} {
		env.Eventually(func() string {
			heard.take()
			require.NoError(t, env.dryRun(api, document), document)
			if said := heard.take(); !strings.Contains(said, warning) {
				return fmt.Sprintf("want %q, got %q", warning, said)
			}
			return ""
		})
	}
}

// Each of these would make Terraform replace existing resources.
func TestChangesThatWouldReplaceAClusterAreRefused(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(append(env.Templates(), applied("by-hand", `variables: {cluster_name: demo, vpc_name: net}`))...)
	env.awaitUpToDate("by-hand")
	env.refuses(applied("by-hand", `variables: {cluster_name: other, vpc_name: net}`), "spec.variables[cluster_name]", "cannot be changed or removed")
	env.refuses(plane(`workspaceTemplateApplyRef: {name: by-hand}`), "spec.workspaceTemplateApplyRef.name", "it refers to another WorkspaceTemplate")
}
