// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
)

func TestCAPTClustersThatAreAdmitted(t *testing.T) {
	t.Parallel()
	admit(t, map[string]string{
		"a partition of its own":      network(`{region: us-gov-west-1, vpc: {existingID: vpc-1}}`),
		"a region in China":           network(`{region: cn-north-1, vpc: {existingID: vpc-1}}`),
		"the sovereign cloud":         network(`{region: eusc-de-east-1, vpc: {existingID: vpc-1}}`),
		"a two-digit region":          network(`{region: ap-northeast-10, vpc: {existingID: vpc-0a1b2c3d4e5f67890}}`),
		"subnets from a Secret":       network(`{region: eu-central-1, vpc: {existingID: vpc-1, connectionSecretRef: {name: s}}}`),
		"a VPC that is retained":      network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, deletionPolicy: Retain}}}`),
		"a VPC with a name":           network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, name: main}}}`),
		"variables":                   network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}, variables: {cidr: 10.0.0.0/16, _A1: "x\ny", empty: ""}}}}`),
		"a reference to what is made": network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: made-by-hand}}`),
		"v1beta1: an existing VPC":    legacyNetwork(`{region: eu-central-1, existingVpcId: vpc-1}`),
		"v1beta1: a template":         legacyNetwork(`{region: eu-central-1, vpcTemplateRef: {name: vpc}, retainVpcOnDelete: true, vpcConfig: {name: main}}`),
		"template":                    document("CAPTClusterTemplate", "class", `{template: {metadata: {labels: {a: b}}, spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}}}`),
	})
}

func TestCAPTControlPlanesThatAreAdmitted(t *testing.T) {
	t.Parallel()
	admit(t, map[string]string{
		"version 1.35":               plane(`{version: "1.35", workspaceTemplateRef: {name: eks}}`),
		"version v1.35":              plane(`{version: v1.35, workspaceTemplateRef: {name: eks}}`),
		"version 1.35.0":             plane(`{version: 1.35.0, workspaceTemplateRef: {name: eks}}`),
		"version v1.35.0":            plane(`{version: v1.35.0, workspaceTemplateRef: {name: eks}}`),
		"a version EKS may not have": plane(`{version: v1.99.0, workspaceTemplateRef: {name: eks}}`),
		"private only":               planeWith(`endpointAccess: {public: Disabled, private: Enabled}`),
		"public from some networks":  planeWith(`endpointAccess: {publicCIDRs: [203.0.113.0/24, "2001:db8::/32"]}`),
		"add-ons": planeWith(`addons: [{name: coredns, version: v1.11.1-eksbuild.1, configurationValues: '{"computeType": "Fargate"}'},
			{name: vpc-cni, configurationValues: "env:\n  WARM_IP_TARGET: \"1\"\n"}]`),
		"tags":                                 planeWith(`additionalTags: {"team:name/x": "a+b-c=d.e_f:g/h@i j", straße: "", %s: v}`, strings.Repeat("k", 128)),
		"fifty tags":                           planeWith(`additionalTags: {%s}`, many(50, "t%d: v")),
		"timeouts":                             planeWith(`timeouts: {controlPlaneSeconds: 10, vpcReadySeconds: 86400, secretSeconds: 10}`),
		"a Fargate profile":                    profile(`name: Batch_1-a, selectors: [{namespace: a, labels: {a: b, c: d, e: f, g: h, "k.io/i": j}}, {namespace: "team-*"}]`),
		"a profile of five selectors":          profile(`name: a, selectors: [` + many(5, "{namespace: n%d}") + `]`),
		"a profile of the longest name":        profile(fmt.Sprintf(`name: %s, selectors: [{namespace: %s, labels: {"x.io/*": "?"}}]`, strings.Repeat("N", 100), strings.Repeat("n", 63))),
		"v1beta1: a profile of five selectors": legacyProfile(`name: Batch_1-a, selectors: [` + many(5, "{namespace: 'n%d-*', labels: {a: b, c: d, e: f, g: h, i: j}}") + `]`),
		"template: a profile":                  profileOfClass(`name: a, selectors: [{namespace: a}]`),
		"kubeconfig from a token":              planeWith(`kubeconfig: {source: Token}`),
		"recovery":                             planeWith(`recovery: {maxRetries: 2, backoff: {initialSeconds: 10, maxSeconds: 10}}`),
		"recovery that destroys":               planeWith(`recovery: {actions: [{type: RecreateWorkspace, parameters: {allowDestroy: "true"}}]}`),
		"an endpoint":                          planeWith(`controlPlaneEndpoint: {host: example.com, port: 443}`),
		"v1beta1: as notes write":              legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks, namespace: default}, controlPlaneConfig: {region: eu-central-1, endpointAccess: {public: true, private: true}}, additionalTags: {a: b}}`),
		"v1beta1: with profiles":               legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, additionalFargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: f}}]}`),
		"template":                             document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, additionalTags: {a: b}}}}`),
		"v1beta1: template":                    legacyDocument("CAPTControlPlaneTemplate", "class", `{template: {spec: {version: "1.35", workspaceTemplateRef: {name: eks}}}}`),
		"a template of another namespace that is not there yet": plane(`{version: "1.35", workspaceTemplateRef: {name: eks, namespace: not-there-yet}}`),
	})
}

func TestWorkspaceTemplatesThatAreAdmitted(t *testing.T) {
	t.Parallel()
	admit(t, map[string]string{
		"nothing but a source":      terraformed(`{source: Inline, module: ""}`),
		"JSON":                      terraformed(`{source: Inline, inlineFormat: JSON, module: '{"output": {"a": {"value": "${1 + 1}"}}}'}`),
		"from afar":                 terraformed(`{source: Remote, module: "git::https://example.com/modules.git//eks?ref=v1", entrypoint: modules/eks}`),
		"from Flux":                 document("WorkspaceTemplate", "vpc", `{allowedNamespaces: {names: [team]}, template: {spec: {forProvider: {source: Flux, module: "GitRepository::team/modules"}}}}`),
		"placeholders":              terraformed(`{source: Inline, module: "variable \"a\" {}\noutput \"b\" { value = \"${var.a}-${name}\" }\n", vars: [{key: a, value: "${a}"}]}`),
		"settings":                  terraformed(`{source: Inline, module: "", env: [{name: AWS_REGION, value: eu-central-1}], initArgs: ["-upgrade"], planArgs: ["-parallelism=2"], varmap: {a: {b: [1, true]}}}`),
		"for all namespaces":        document("WorkspaceTemplate", "vpc", `{workspaceScope: Cluster, allowedNamespaces: {names: ["*"], selector: {matchLabels: {a: b}}}, publishOutputs: [a], template: {metadata: {description: d, version: v1, tags: {a: b}}, spec: {forProvider: {source: Inline, module: "output \"a\" { value = 1 }"}}}}`),
		"v1beta1":                   legacyDocument("WorkspaceTemplate", "vpc", `{template: {metadata: {description: d}, spec: {providerConfigRef: {name: aws}, writeConnectionSecretToRef: {name: "${cluster_name}-eks", namespace: default}, forProvider: {source: Inline, module: "variable \"a\" { default = 1 }"}}}}`),
		"WorkspaceTemplateApply":    applied("a", `, workspaceName: b.c, variables: {a: '"any" ${value}'}, writeConnectionSecretToRef: {name: s}, waitForSecrets: [{name: s, keys: [k]}], waitForWorkspaces: [{name: one}, {name: two, namespace: other}], deletionPolicy: Retain`),
		"tags in variables":         applied("a", `, variables: {tags_kubernetes.io/x: z}`),
		"outputs where they belong": applied("apply", ``),
		"v1beta1: WorkspaceTemplateApply": legacyDocument("WorkspaceTemplateApply", "a-apply",
			`{templateRef: {name: vpc, namespace: default}, variables: {a: b}, retainWorkspaceOnDelete: true}`),
	})
}

// Examples from the documentation are admitted, and so is what CAPT v0.3 left in a cluster, when it is recreated from Git.
func TestExamplesAndLegacyManifestsAreAdmitted(t *testing.T) {
	t.Parallel()
	reference := os.Getenv("CAPT_REFERENCE")
	if reference == "" {
		reference = "../../../shared/reference"
	}
	for _, folder := range []string{"../../config/samples/aws", "../../config/samples/sandbox", "../../config/samples/sandbox/clusterclass", filepath.Join(reference, "legacy")} {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
				t.Skipf("no reference data in %s; CAPT_REFERENCE names their folder", folder)
			}
			w := newWorld(t)
			files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
			require.NoError(t, err)
			admitted := 0
			for _, file := range files {
				for _, object := range w.manifests(file) {
					require.NoError(t, w.dryRun(t.Context(), object), "%s in %s", object.GetName(), file)
					admitted++
				}
			}
			require.Positive(t, admitted)
		})
	}
}

// manifests reads CAPT's own documents of a file, as a user keeps them in Git.
func (w *world) manifests(file string) []*unstructured.Unstructured {
	w.Helper()
	data, err := os.ReadFile(file)
	require.NoError(w, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			require.NoError(w, err, file)
		}
		capts := strings.HasPrefix(object.GetKind(), "CAPT") || strings.HasPrefix(object.GetKind(), "WorkspaceTemplate")
		if !capts {
			continue
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(w.namespace)
		}
		object.SetResourceVersion("")
		object.SetUID("")
		object.SetOwnerReferences(nil)
		objects = append(objects, object)
	}
}

// admit shows that documents are admitted.
func admit(t *testing.T, documents map[string]string) {
	t.Helper()
	w := newWorld(t)
	for name, document := range documents {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, w.dryRun(t.Context(), w.object(document)))
		})
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

// take returns what was warned of since it was called last.
func (w *warnings) take() []string {
	w.Lock()
	defer w.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func TestWhatALaterObjectCanResolveIsAWarning(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given    []string
		document string
		warning  string
	}{
		"a VPC template that is not there": {nil, network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`),
			"spec.vpc.template.ref: WorkspaceTemplate vpc does not exist"},
		"a control plane template that is not there": {nil, planeWith(`region: eu-central-1`),
			"spec.workspaceTemplateRef: WorkspaceTemplate eks does not exist"},
		"a profile template that is not there": {nil, profile(`name: a, selectors: [{namespace: a}]`),
			"spec.fargateProfiles[0].workspaceTemplateRef: WorkspaceTemplate fargate does not exist"},
		"eleven profiles": {nil, planeWith(`fargateProfiles: [%s]`, many(11, "{name: p%[1]d, selectors: [{namespace: n%[1]d}], workspaceTemplateRef: {name: fargate}}")),
			"spec.fargateProfiles: the default quota of EKS is 10"},
		"v1beta1: eleven profiles": {nil, legacyPlane(`{version: "1.35", workspaceTemplateRef: {name: eks}, additionalFargateProfiles: [` +
			many(11, "{name: p%[1]d, selectors: [{namespace: n%[1]d}], workspaceTemplateRef: {name: fargate}}") + `]}`), "spec.fargateProfiles: the default quota of EKS is 10"},
		"a selector twice": {nil, profile(`name: a, selectors: [{namespace: a, labels: {b: c}}, {namespace: a, labels: {b: c}}]`),
			"spec.fargateProfiles[0].selectors[1]: duplicates another selector of the profile"},
		"a selector of two profiles": {nil, planeWith(`fargateProfiles: [{name: a, selectors: [{namespace: x}], workspaceTemplateRef: {name: f}}, {name: b, selectors: [{namespace: x}], workspaceTemplateRef: {name: f}}]`),
			"spec.fargateProfiles[1].selectors[0]: Fargate profile a has the same selector"},
		"a profile that no label can name": {nil, profile(`name: a_, selectors: [{namespace: a}]`), "spec.fargateProfiles[0].name: is not a valid label value"},
		"a variable that profiles do not have": {[]string{template("fargate", "\n", "sandbox", "kubernetes_version")}, profile(`name: a, selectors: [{namespace: a}]`),
			"/fargate has no value and is not replaced: templates of Fargate profiles"},
		"v1beta1: a variable that profiles do not have": {[]string{template("fargate", "\n", "sandbox", "kubernetes_version")}, legacyProfile(`name: a, selectors: [{namespace: a}]`),
			"placeholder ${kubernetes_version} of WorkspaceTemplate"},
		"selectors within a module": {[]string{template("fargate", "\noutput \"s\" {\n  value = \"${selectors}\"\n}\n", "sandbox")}, profile(`name: a, selectors: [{namespace: a}]`),
			`the value of variable "selectors" has characters that could change the module`},
		"a profile whose WorkspaceTemplateApply is another's": {[]string{cluster("demo"), applyOf("demo-a-fargate-apply", "fargate", `cluster_name: demo`)}, profile(`name: a, selectors: [{namespace: a}]`),
			"spec.fargateProfiles[0]: nothing is created for this profile: WorkspaceTemplateApply demo-a-fargate-apply does not match what this object would create for Fargate profile a: it has no profile_name"},
		"v1beta1: a profile whose WorkspaceTemplateApply is another's": {[]string{cluster("demo"), applyOf("demo-a-fargate-apply", "fargate", `cluster_name: demo, profile_name: b`)}, legacyProfile(`name: a, selectors: [{namespace: a}]`),
			"spec.fargateProfiles[0]: nothing is created for this profile: WorkspaceTemplateApply demo-a-fargate-apply does not match what this object would create for Fargate profile a: it has another profile_name"},
		"template: a selector twice": {nil, profileOfClass(`name: a, selectors: [{namespace: a}, {namespace: a}]`),
			"spec.template.spec.fargateProfiles[0].selectors[1]: duplicates another selector of the profile"},
		"a reference of a profile to what is not made": {nil, profile(`name: a, selectors: [{namespace: a}], workspaceTemplateApplyRef: {name: by-hand}`),
			"spec.fargateProfiles[0].workspaceTemplateApplyRef.name: WorkspaceTemplateApply by-hand does not exist"},
		"a template of another namespace": {nil, plane(`{version: "1.35", workspaceTemplateRef: {name: eks, namespace: not-there-yet}}`),
			"spec.workspaceTemplateRef: WorkspaceTemplate not-there-yet/eks does not exist, or does not allow"},
		"a version EKS may not have":              {nil, plane(`{version: v1.99.0, workspaceTemplateRef: {name: eks}}`), "spec.version: "},
		"an unused variable":                      {[]string{controlPlaneTemplate()}, planeWith(`variables: {cluster_nam: x}`), "spec.variables[cluster_nam]: "},
		"tags that the template does not pass on": {[]string{controlPlaneTemplate()}, planeWith(`additionalTags: {a: b}`), "spec.additionalTags: has no effect: WorkspaceTemplate"},
		"a region that the template does not pass on": {[]string{vpcTemplate()}, network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}`),
			"spec.region: has no effect"},
		"selectors that the template does not pass on": {[]string{template("fargate", "\n", "sandbox")}, profile(`name: a, selectors: [{namespace: a}]`),
			"spec.fargateProfiles[0].selectors: has no effect"},
		"template: networks that the template does not pass on": {[]string{controlPlaneTemplate()},
			document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, endpointAccess: {publicCIDRs: [10.0.0.0/8]}}}}`),
			"spec.template.spec.endpointAccess.publicCIDRs: the API server would be reachable"},
		"a template that loses a placeholder": {[]string{closedTemplate(), planeWith(`endpointAccess: {publicCIDRs: [10.0.0.0/8]}`)}, controlPlaneTemplate(),
			"the API servers of 1 CAPTControlPlanes will be reachable from more networks than specified"},
		"a probe":                   {nil, planeWith(`endpointProbe: Required`), "spec.endpointProbe: has no effect in this version"},
		"recovery":                  {nil, planeWith(`recovery: {maxRetries: 2}`), "spec.recovery: has no effect in this version"},
		"template: a probe":         {nil, document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, endpointProbe: Disabled}}}`), "spec.template.spec.endpointProbe: has no effect in this version"},
		"a variable that CAPT sets": {nil, planeWith(`variables: {cluster_name: x}`), "spec.variables[cluster_name]: "},
		"a variable that is not declared": {nil, terraformed(`{source: Inline, module: "", vars: [{key: a, value: b}]}`),
			"spec.template.spec.forProvider.vars[0].key: "},
		"a variable that is not given":    {nil, terraformed(`{source: Inline, module: "variable \"a\" {}\n"}`), "spec.template.spec.forProvider.module: "},
		"an output that is not declared":  {nil, document("WorkspaceTemplate", "vpc", `{publishOutputs: [a], template: {spec: {forProvider: {source: Inline, module: ""}}}}`), "spec.publishOutputs[0]: "},
		"an apply without its template":   {nil, applied("a", ``), "spec.templateRef: WorkspaceTemplate vpc does not exist"},
		"a version that is deprecated":    {nil, legacyNetwork(`{region: eu-central-1, existingVpcId: vpc-1}`), "captctl convert"},
		"a reference to what is not made": {nil, network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: made-by-hand}}`), "spec.workspaceTemplateApplyRef"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			heard := &warnings{}
			config := rest.CopyConfig(shared.Config())
			config.WarningHandler = heard
			c, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
			require.NoError(t, err)
			w.Client = c
			w.apply(row.given...)
			var said []string
			// Webhooks see what was there before a moment later than the API server.
			err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
				heard.take()
				if err := w.dryRun(ctx, w.object(row.document)); err != nil {
					return false, err
				}
				said = heard.take()
				return slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, row.warning) }), nil
			})
			require.NoError(t, err, "want %q, got %q", row.warning, said)
		})
	}
}
