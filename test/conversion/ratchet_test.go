// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// violations are specs that v1beta1 admits and v1beta2 does not, by kind.
var violations = map[string]map[string]string{
	"CAPTCluster": {
		"region":             `{region: Frankfurt, existingVpcId: vpc-1}`,
		"no region":          `{region: "", existingVpcId: vpc-1}`,
		"VPC id":             `{region: eu-central-1, existingVpcId: "subnet 1"}`,
		"no template name":   `{region: eu-central-1, vpcTemplateRef: {name: ""}}`,
		"long template name": `{region: eu-central-1, vpcTemplateRef: {name: ` + long(300) + `, namespace: ` + long(100) + `}}`,
		"long VPC name":      `{region: eu-central-1, vpcTemplateRef: {name: x}, vpcConfig: {name: ` + long(300) + `}}`,
		"long reference":     `{region: eu-central-1, vpcTemplateRef: {name: x}, workspaceTemplateApplyName: ` + long(300) + `}`,
	},
	"CAPTControlPlane": {
		"version":               `{version: latest, workspaceTemplateRef: {name: x}}`,
		"no version":            `{version: "", workspaceTemplateRef: {name: x}}`,
		"no template name":      `{version: "1.31", workspaceTemplateRef: {name: ""}}`,
		"region":                config(`region: nowhere`),
		"unreachable endpoint":  config(`region: eu-central-1, endpointAccess: {}`),
		"CIDR":                  config(`region: eu-central-1, endpointAccess: {public: true, publicCIDRs: [10.0.0.1/99, ` + long(60) + `]}`),
		"41 CIDRs":              config(`region: eu-central-1, endpointAccess: {public: true, publicCIDRs: [` + many(41, "10.%d.0.0/16") + `]}`),
		"add-on twice":          config(`region: eu-central-1, addons: [{name: coredns}, {name: vpc-cni}, {name: coredns}]`),
		"add-on without a name": config(`region: eu-central-1, addons: [{name: ""}]`),
		"add-on of any length":  config(`region: eu-central-1, addons: [{name: ` + long(101) + `, version: ` + long(101) + `, configurationValues: ` + long(65537) + `}]`),
		"65 add-ons":            config(`region: eu-central-1, addons: [` + many(65, "{name: a%d}") + `]`),
		"reserved tag":          `{version: "1.31", workspaceTemplateRef: {name: x}, additionalTags: {"aws:x": v}}`,
		"empty tag":             `{version: "1.31", workspaceTemplateRef: {name: x}, additionalTags: {"": v}}`,
		"long tags":             `{version: "1.31", workspaceTemplateRef: {name: x}, additionalTags: {a: ` + long(257) + `, ` + long(129) + `: b}}`,
		"51 tags":               `{version: "1.31", workspaceTemplateRef: {name: x}, additionalTags: {` + many(51, "t%d: v") + `}}`,
		"endpoint":              `{version: "1.31", workspaceTemplateRef: {name: x}, controlPlaneEndpoint: {host: ` + long(600) + `, port: 70000}}`,
		"profile twice":         profiles(`{name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}, {name: a, selectors: [{namespace: two}], workspaceTemplateRef: {name: x}}`),
		"profile name":          profiles(`{name: "a b", selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}`),
		"no selector":           profiles(`{name: a, selectors: [], workspaceTemplateRef: {name: x}}`),
		"six selectors":         profiles(`{name: a, selectors: [` + many(6, "{namespace: n%d}") + `], workspaceTemplateRef: {name: x}}`),
		"selector":              profiles(`{name: a, selectors: [{namespace: "", labels: {` + many(6, "l%d: v") + `}}], workspaceTemplateRef: {name: x}}`),
		"33 profiles":           profiles(many(33, "{name: p%d, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}")),
	},
	"CAPTControlPlaneTemplate": {
		"no version and no template": `{template: {spec: {version: "", workspaceTemplateRef: {name: ""}}}}`,
		"unreachable endpoint":       `{template: {spec: ` + config(`region: nowhere, endpointAccess: {}`) + `}}`,
		"add-on twice":               `{template: {spec: ` + config(`region: eu-central-1, addons: [{name: coredns}, {name: coredns}]`) + `}}`,
	},
	"WorkspaceTemplate": {
		"provider": workspace(`providerConfigRef: {name: ""}`),
		"Secret":   workspace(`writeConnectionSecretToRef: {name: "", namespace: ` + long(100) + `}`),
		"policies": workspace(`managementPolicies: [Observe, Create, Update, Delete, LateInitialize, Observe, Observe]`),
	},
	"WorkspaceTemplateApply": {
		"no template name": `{templateRef: {name: ""}}`,
		"Secret":           `{templateRef: {name: x}, writeConnectionSecretToRef: {name: "", namespace: ` + long(100) + `}}`,
		"Workspace twice":  `{templateRef: {name: x}, waitForWorkspaces: [{name: w, namespace: a}, {name: w, namespace: b}]}`,
		"Secret twice":     `{templateRef: {name: x}, waitForSecrets: [{name: s, namespace: a}, {name: s, namespace: b}]}`,
		"65 Workspaces":    `{templateRef: {name: x}, waitForWorkspaces: [` + many(65, "{name: w%d}") + `]}`,
		"513 variables":    `{templateRef: {name: x}, variables: {` + many(513, "v%d: x") + `}}`,
	},
}

func config(fields string) string {
	return `{version: "1.31", workspaceTemplateRef: {name: x}, controlPlaneConfig: {` + fields + `}}`
}

func profiles(list string) string {
	return `{version: "1.31", workspaceTemplateRef: {name: x}, additionalFargateProfiles: [` + list + `]}`
}

func workspace(field string) string {
	return `{template: {spec: {forProvider: {source: Inline, module: ""}, ` + field + `}}}`
}

func long(length int) string { return strings.Repeat("x", length) }

func many(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ", ")
}

// TestObjectsThatBreakV1Beta2CanBeUpdated shows for each rule of v1beta2 that an object which was there before the rule is not held
// to it: it is labeled, adopted, reported on, let go and deleted, as long as the field is not changed.
func TestObjectsThatBreakV1Beta2CanBeUpdated(t *testing.T) {
	t.Parallel()
	namespace := fixture.NewNamespace(t, shared.admin)
	for _, k := range kinds {
		for name, spec := range violations[k.name] {
			for _, version := range versions {
				t.Run(fmt.Sprintf("%s of a %s in %s", name, k.name, version), func(t *testing.T) {
					object := shared.create(t, namespace, violating(t, k, spec))
					shared.requireRefused(t, namespace, k, spec)
					shared.requireWorked(t, object)
					object = shared.read(t, object, spoke)
					shared.requireEndOfLife(t, object, version)
				})
			}
		}
	}
}

// TestTheseViolationsDoNotRatchet lists what v1beta2 holds against an object that was there before. v1beta1 is the way to
// correct such objects and to let them go.
func TestTheseViolationsDoNotRatchet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind          kind
		spec, message string
	}{
		// An object without a spec is refused whatever is changed in it. CAPT v0.3 could make nothing of it either.
		"no spec": {captCluster, ``, "spec: Required value"},
		// The API server compares list elements with those of the same name before, and takes the first for both.
		"two profiles of one name, of which the second selects nothing": {captControlPlane, profiles(
			`{name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}, {name: a, selectors: [], workspaceTemplateRef: {name: x}}`),
			"spec.fargateProfiles[1].selectors: Invalid value"},
		"two add-ons of one name, of which the second has an invalid version": {captControlPlane,
			config(`region: eu-central-1, addons: [{name: coredns}, {name: coredns, version: ` + long(101) + `}]`),
			"spec.addons[1].version: Too long"},
		"two Workspaces of one name, of which the second is in an invalid namespace": {workspaceTemplateApply,
			`{templateRef: {name: x}, waitForWorkspaces: [{name: w}, {name: w, namespace: ` + long(100) + `}]}`,
			"spec.waitForWorkspaces[1].namespace: Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			object := shared.create(t, fixture.NewNamespace(t, shared.admin), violating(t, test.kind, test.spec))
			_, err := shared.objects.Resource(test.kind.in(hub)).Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(),
				types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			require.True(t, apierrors.IsInvalid(err), "want a refusal, got %v", err)
			require.ErrorContains(t, err, test.message)
			shared.requireEndOfLife(t, shared.read(t, object, spoke), spoke)
		})
	}
}

// withoutNetwork is a CAPTCluster that only the definitions of CAPT v0.3 admit.
var withoutNetwork = &unstructured.Unstructured{Object: map[string]any{
	"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTCluster",
	"metadata": map[string]any{"namespace": "default", "name": "without-network", "finalizers": []any{"example.com/held"}},
	"spec":     map[string]any{"region": "eu-central-1"},
}}

// createWithoutNetwork creates the object with the definition of CAPT v0.3, which this version's definition replaces afterwards.
func (env *environment) createWithoutNetwork(ctx context.Context) error {
	definitions, err := manifests.Load("../legacy/definitions.yaml")
	if err != nil {
		return err
	}
	definitions = slices.DeleteFunc(definitions, func(o *unstructured.Unstructured) bool {
		return o.GetName() != captCluster.resource+"."+captCluster.group
	})
	if err := manifests.Apply(ctx, env.admin, definitions...); err != nil {
		return err
	}
	if err := env.awaitServed(ctx, captCluster, spoke); err != nil {
		return err
	}
	_, err = env.objects.Resource(captCluster.in(spoke)).Namespace("default").Create(ctx, withoutNetwork, metav1.CreateOptions{})
	return err
}

func TestAnObjectFromBeforeTheUpgradeLivesOn(t *testing.T) {
	t.Parallel()
	object := shared.read(t, withoutNetwork, spoke)
	require.Equal(t, withoutNetwork.Object["spec"], object.Object["spec"])
	require.Equal(t, converted(t, object, hub).Object, shared.read(t, object, hub).Object)
	shared.requireEndOfLife(t, object, hub)
}

func violating(t *testing.T, k kind, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	content := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &content))
	if spec != "" {
		object.Object["spec"] = content
	}
	object.SetGroupVersionKind(k.in(spoke).GroupVersion().WithKind(k.name))
	object.SetGenerateName("violating-")
	object.SetFinalizers([]string{"example.com/held"})
	return object
}

// requireRefused requires that the object could not be created in v1beta2: otherwise it would show nothing.
func (env *environment) requireRefused(t *testing.T, namespace string, k kind, spec string) {
	t.Helper()
	object := converted(t, violating(t, k, spec), hub)
	_, err := env.objects.Resource(k.in(hub)).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "want a refusal, got %v", err)
}

// requireWorked does what captctl and the controllers do with an object, which always is in v1beta2.
func (env *environment) requireWorked(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	resource := env.objects.Resource(kindOf(t, object).in(hub)).Namespace(object.GetNamespace())
	adoption := map[string]string{
		"CAPTCluster":            `{"spec":{"workspaceTemplateApplyRef":{"name":"adopted"}}}`,
		"CAPTControlPlane":       `{"spec":{"workspaceTemplateApplyRef":{"name":"adopted"}}}`,
		"WorkspaceTemplateApply": `{"spec":{"workspaceName":"adopted"}}`,
	}[object.GetKind()]
	if spec, _, _ := unstructured.NestedString(object.Object, "spec", "workspaceTemplateApplyName"); adoption != "" && spec == "" {
		_, err := resource.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(adoption), metav1.PatchOptions{})
		require.NoError(t, err, "adoption")
	}
	if kindOf(t, object).hasStatus {
		_, err := resource.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err, "status")
	}
}
