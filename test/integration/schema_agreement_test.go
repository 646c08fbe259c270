// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
)

// agreementGroup is the group of copies of CAPT's kinds. It has no webhooks, so that all errors about their objects are those
// of the schema; and they can start without rules, to store objects that break them.
const agreementGroup = "agreement.capt.example"

// specimen is a spec that the API server and the library must agree on: of a new object or, with an old spec, of one
// that is changed.
type specimen struct {
	kind, spec, old string
}

// goodSpecimens are accepted, and badSpecimens refused. Specs of CAPTCluster and CAPTControlPlane are also tried as those
// of their templates.
var goodSpecimens = []specimen{
	// The schema permits to leave out what is written once; a policy and defaulting see to that (decision 22).
	{"CAPTCluster", `{region: eu-west-1, vpc: {existingID: vpc-1}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: a}, region: eu-west-1}`},
	{"WorkspaceTemplateApply", `{templateRef: {name: x}}`, `{templateRef: {name: x}, workspaceName: a}`},
	{"CAPTCluster", `{region: eusc-de-east-1, vpc: {existingID: vpc-1, connectionSecretRef: {name: s}}}`, ``},
	{"CAPTCluster", `{region: us-gov-west-1, vpc: {template: {ref: {name: x, namespace: b}, name: v, variables: {a: b}, deletionPolicy: null}}, unknown: {a: b}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}}`},
	{"CAPTCluster", `{region: eu-west-1, vpc: {}, workspaceTemplateApplyRef: {name: a}}`, `{region: eu-west-1, vpc: {}}`},
	{"CAPTCluster", `{region: here, vpc: {existingID: vpc-1, connectionSecretRef: {name: s}}}`, `{region: here, vpc: {existingID: vpc-1}}`},
	{"CAPTControlPlane", `{version: v1.35.0-eks.1, workspaceTemplateRef: {name: x}, region: null, endpointAccess: {}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: ["2001:db8::/32"]}, recovery: {actions: [{type: RecreateWorkspace, parameters: {allowDestroy: "true"}}]}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, region: eu-west-2}`, `{version: "1.35", workspaceTemplateRef: {name: x}, region: eu-west-1}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, region: eu-west-1}`},
	{"CAPTControlPlane", `{version: latest, workspaceTemplateRef: {name: z}}`, `{version: latest, workspaceTemplateRef: {name: x}}`},
	{"CAPTControlPlane", `{version: "1.36", workspaceTemplateRef: {name: x}, endpointAccess: {public: Disabled, private: Disabled}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {public: Disabled, private: Disabled}}`},
	{"CAPTControlPlane", `{version: "1.36", workspaceTemplateRef: {name: x}, addons: [{name: a}, {name: a}]}`, `{version: "1.35", workspaceTemplateRef: {name: x}, addons: [{name: a}, {name: a}]}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: b, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}, {name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: z}}]}`, `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}]}`},
	{"WorkspaceTemplate", `{template: {spec: {unknown: 1, forProvider: {source: Inline, module: "", varmap: {a: [1, b, {c: 1.5}]}, unknown: [null]}}}}`, ``},
	{"WorkspaceTemplateApply", `{templateRef: {name: x}, workspaceName: w, variables: {a: ""}, waitForSecrets: [{name: a, keys: [b, c]}]}`, `{templateRef: {name: x}}`},
}

var badSpecimens = []specimen{
	{"CAPTCluster", `{}`, ``},
	{"CAPTCluster", `null`, ``},
	{"CAPTCluster", `[]`, ``},
	{"CAPTCluster", `{region: null, vpc: null}`, ``},
	{"CAPTCluster", `{region: Frankfurt, vpc: {existingID: vpc-1}}`, ``},
	{"CAPTCluster", `{region: "", vpc: {existingID: ""}}`, ``},
	{"CAPTCluster", `{region: 5, vpc: {existingID: true}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {existingID: vpc-1, template: {ref: {name: x}}}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {existingID: subnet-1}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {template: {ref: {name: ""}, deletionPolicy: Keep}}}`, ``},
	{"CAPTCluster", `{region: eu-west-1, vpc: {template: {ref: {name: x}}, connectionSecretRef: {name: s}}}`, ``},
	{"CAPTCluster", `{region: eu-west-2, vpc: {existingID: vpc-2}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}}`},
	{"CAPTCluster", `{region: there, vpc: {existingID: vpc-1}}`, `{region: here, vpc: {existingID: vpc-1}}`},
	{"CAPTCluster", `{region: eu-west-1, vpc: {template: {ref: {name: x}}}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}}`},
	{"CAPTCluster", `{region: eu-west-1, vpc: {template: {ref: {name: x}, name: b}}}`, `{region: eu-west-1, vpc: {template: {ref: {name: x}, name: a}}}`},
	{"CAPTCluster", `{region: eu-west-1, vpc: {template: {ref: {name: x}, name: b}}}`, `{region: eu-west-1, vpc: {template: {ref: {name: x}}}}`},
	{"CAPTCluster", `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: b}}`, `{region: eu-west-1, vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`},
	{"CAPTCluster", `{vpc: {existingID: vpc-1}, workspaceTemplateApplyRef: {name: a}}`, `{vpc: {existingID: vpc-1}}`},
	{"CAPTControlPlane", `{version: latest, workspaceTemplateRef: {name: x}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {namespace: a}, region: europe, timeouts: {controlPlaneSeconds: 1, secretSeconds: 1e6, vpcReadySeconds: 61.5}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, variables: {a: 1}, endpointProbe: Never, kubeconfig: {source: Vault}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, controlPlaneEndpoint: {}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {public: Disabled}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: [10.0.0.1/99, anywhere]}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {public: Disabled, private: Enabled, publicCIDRs: [10.0.0.0/8, 10.0.0.0/8]}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: []}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {"aws:x": v, "": v}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {LONG: v}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {a: LONG, "aws:x": v}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {a: LONG, b: c}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, additionalTags: {a: LONG}}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, addons: [{name: coredns}, {name: coredns}, {version: "1"}]}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, addons: [{name: a}, {name: a}]}`, `{version: "1.35", workspaceTemplateRef: {name: x}, addons: [{name: a}]}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: "a b", selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}, {name: b, selectors: [], workspaceTemplateRef: {name: x}}]}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: eks-a, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}}]}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: two}}]}`, `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: a, selectors: [{namespace: a}], workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: one}}]}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, fargateProfiles: [{name: a, workspaceTemplateRef: {name: x}, selectors: [{namespace: a}, {namespace: b}, {namespace: c}, {namespace: d}, {namespace: e}, {namespace: f, labels: {a: b, c: d, e: f, g: h, i: j, k: l}}]}]}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {maxRetries: -1, backoff: {initialSeconds: 60, maxSeconds: 30}, actions: [{type: Reapply}, {type: RecreateWorkspace}]}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {backoff: {initialSeconds: 3600}}}`, ``},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {actions: [{type: Requeue}, {type: RecreateWorkspace}]}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, recovery: {actions: [{type: RecreateWorkspace}]}}`},
	{"CAPTControlPlane", `{version: newest, workspaceTemplateRef: {name: z}, endpointAccess: {public: Disabled, publicCIDRs: [10.0.0.0/8]}}`, `{version: latest, workspaceTemplateRef: {name: x}, endpointAccess: {public: Disabled}}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: [anywhere, 10.0.0.0/8]}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, endpointAccess: {publicCIDRs: [anywhere]}}`},
	{"CAPTControlPlane", `{version: "1.35", workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: b}}`, `{version: "1.35", workspaceTemplateRef: {name: x}, workspaceTemplateApplyRef: {name: a}}`},
	{"WorkspaceTemplate", `{template: {spec: {}}}`, ``},
	{"WorkspaceTemplate", `{workspaceScope: Everywhere, publishOutputs: [a, a], template: {spec: {managementPolicies: [All], forProvider: {source: File, module: a, vars: [{key: a}], env: [{value: b}]}}}}`, ``},
	{"WorkspaceTemplate", `{workspaceScope: Cluster, template: {spec: {forProvider: {source: Inline, module: a}}}}`, `{template: {spec: {forProvider: {source: Inline, module: a}}}}`},
	{"WorkspaceTemplateApply", `{deletionPolicy: Orphan, waitForSecrets: [{name: a, keys: [b, b]}, {name: a}], waitForWorkspaces: [{namespace: a}]}`, ``},
	{"WorkspaceTemplateApply", `{templateRef: {name: x}, waitForSecrets: [{name: a, keys: [b, b]}, {name: a}]}`, ``},
	{"WorkspaceTemplateApply", `{templateRef: {name: x}, workspaceName: LONG}`, ``},
	{"WorkspaceTemplateApply", `{templateRef: {name: x}, workspaceName: b}`, `{templateRef: {name: x}, workspaceName: a}`},
}

func TestLibraryAndAPIServerAgreeAboutEveryRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	originals := originalDefinitions(t)
	trials := append(trialsOf(goodSpecimens, true), trialsOf(badSpecimens, false)...)
	tighten := w.serveCopies(originals)
	for i, trial := range trials {
		trial.name = fmt.Sprintf("specimen-%d", i)
		if trial.old != "" {
			trial.stored = w.specimen(trial.kind, trial.name, trial.old)
			require.NoError(t, w.Create(t.Context(), trial.stored))
		}
	}
	tighten()

	unbroken := rulesOf(originals)
	for _, trial := range trials {
		t.Run(trial.name, func(t *testing.T) {
			said := trial.evaluate(t, w)
			library, err := schemas.Of(kindOf(originals[trial.kind]))
			require.NoError(t, err)
			require.ElementsMatch(t, said, trial.check(t, w, library), "%s %s, before %s", trial.kind, trial.spec, trial.old)
			if trial.accepted != nil {
				require.Equal(t, *trial.accepted, len(said) == 0, "%s %s, before %s: %v", trial.kind, trial.spec, trial.old, said)
			}
			unbroken = slices.DeleteFunc(unbroken, func(r rule) bool { return r.kind == trial.kind && slices.ContainsFunc(said, r.refused) })
		})
	}
	require.Empty(t, unbroken, "no specimen breaks these rules")
}

// trial is a specimen on its way to the API server.
type trial struct {
	specimen
	name string
	// accepted is what the outcome must be; nil if it only matters that both agree.
	accepted *bool
	// stored is the old object.
	stored *unstructured.Unstructured
}

// trialsOf adds the same specs as those of templates. What is bad for the one may be good for the other, since a template
// has no fields that belong to a single cluster.
func trialsOf(specimens []specimen, accepted bool) []*trial {
	var trials []*trial
	for _, s := range specimens {
		s.spec, s.old = strings.ReplaceAll(s.spec, "LONG", strings.Repeat("x", 300)), strings.ReplaceAll(s.old, "LONG", strings.Repeat("x", 300))
		trials = append(trials, &trial{specimen: s, accepted: &accepted})
		if s.kind != "CAPTCluster" && s.kind != "CAPTControlPlane" {
			continue
		}
		s.kind, s.spec = s.kind+"Template", "{template: {spec: "+s.spec+"}}"
		if s.old != "" {
			s.old = "{template: {spec: " + s.old + "}}"
		}
		trials = append(trials, &trial{specimen: s})
	}
	return trials
}

// evaluate sends the spec to the API server.
func (t *trial) evaluate(test *testing.T, w world) []metav1.StatusCause {
	test.Helper()
	object := w.specimen(t.kind, t.name, t.spec)
	if t.stored == nil {
		return causes(test, w.Create(test.Context(), object, client.DryRunAll))
	}
	object.SetResourceVersion(t.stored.GetResourceVersion())
	return causes(test, w.Update(test.Context(), object, client.DryRunAll))
}

// check asks the library.
func (t *trial) check(test *testing.T, w world, library *schema.Schema) []metav1.StatusCause {
	test.Helper()
	read := func(spec string) *unstructured.Unstructured {
		object := w.specimen(t.kind, t.name, spec)
		// The group is that of the copies.
		object.SetGroupVersionKind(runtimeschema.GroupVersionKind{})
		return object
	}
	var errs field.ErrorList
	if t.stored == nil {
		errs = library.Validate(test.Context(), read(t.spec))
	} else {
		errs = library.ValidateUpdate(test.Context(), read(t.spec), read(t.old))
	}
	if len(errs) == 0 {
		return nil
	}
	return causes(test, apierrors.NewInvalid(runtimeschema.GroupKind{}, t.name, errs))
}

// specimen is an object of the copy of a kind, as the API server would decode it.
func (w world) specimen(kind, name, spec string) *unstructured.Unstructured {
	w.Helper()
	document := fmt.Sprintf("{apiVersion: %s/v1beta2, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}", agreementGroup, kind, name, w.Namespace, spec)
	data, err := yaml.YAMLToJSON([]byte(document))
	require.NoError(w, err)
	object := &unstructured.Unstructured{}
	require.NoError(w, object.UnmarshalJSON(data))
	return object
}

// causes are the single errors of a refusal. That more rules could not be checked is worded differently by the API
// server and by the library.
func causes(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	require.True(t, apierrors.IsInvalid(err) && errors.As(err, &status), "want a refusal, got %v", err)
	said := slices.Clone(status.Status().Details.Causes)
	for i, cause := range said {
		if cause.Field == "<nil>" && strings.Contains(cause.Message, "some validation rules were not checked") ||
			cause.Field == "spec" && strings.Contains(cause.Message, "further rules could not be evaluated") {
			said[i] = metav1.StatusCause{Message: "more rules could not be checked"}
		}
	}
	return said
}

// originalDefinitions are CAPT's CRDs with no version but v1beta2, by kind.
func originalDefinitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := fs.Glob(crd.Definitions, "bases/*.yaml")
	require.NoError(t, err)
	originals := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := fs.ReadFile(crd.Definitions, file)
		require.NoError(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(data, definition))
		spec := &definition.Spec
		spec.Versions = slices.DeleteFunc(spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != "v1beta2" })
		require.Len(t, spec.Versions, 1, file)
		originals[spec.Names.Kind] = definition
	}
	return originals
}

func kindOf(definition *apiextensionsv1.CustomResourceDefinition) runtimeschema.GroupVersionKind {
	return runtimeschema.GroupVersionKind{Group: definition.Spec.Group, Version: definition.Spec.Versions[0].Name, Kind: definition.Spec.Names.Kind}
}

// serveCopies makes the API server serve copies of definitions without any rules. What it returns gives them their rules.
func (w world) serveCopies(originals map[string]*apiextensionsv1.CustomResourceDefinition) func() {
	w.Helper()
	scheme := runtime.NewScheme()
	require.NoError(w, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(shared.Config(), client.Options{Scheme: scheme})
	require.NoError(w, err)
	copies := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for kind, original := range originals {
		definition := original.DeepCopy()
		definition.Name, definition.Spec.Group = definition.Spec.Names.Plural+"."+agreementGroup, agreementGroup
		definition.Spec.Names.ShortNames, definition.Spec.Names.Categories = nil, nil
		keep := true
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
		require.NoError(w, c.Create(w.Context(), definition))
		w.Cleanup(func() { _ = c.Delete(context.WithoutCancel(w.Context()), definition) })
		copies[kind] = definition
	}
	// An empty spec lacks what each kind requires.
	w.awaitEmptySpec(copies, func(err error) bool { return err == nil })
	return func() {
		for kind, definition := range copies {
			tight := definition.DeepCopy()
			tight.Spec.Versions = originals[kind].Spec.Versions
			require.NoError(w, c.Patch(w.Context(), tight, client.MergeFrom(definition)))
		}
		w.awaitEmptySpec(copies, apierrors.IsInvalid)
	}
}

// awaitEmptySpec waits until the creation of an object with an empty spec has the outcome that is wanted, for each kind.
func (w world) awaitEmptySpec(kinds map[string]*apiextensionsv1.CustomResourceDefinition, wanted func(error) bool) {
	w.Helper()
	for kind := range kinds {
		w.Insist(func() string {
			err := w.Create(w.Context(), w.specimen(kind, "empty", "{}"), client.DryRunAll)
			if wanted(err) {
				return ""
			}
			return fmt.Sprintf("%s: %v", kind, err)
		})
	}
}

// rule is a CEL rule or a pattern.
type rule struct {
	kind, field, text string
}

// refused says whether an error is about the rule.
func (r rule) refused(cause metav1.StatusCause) bool {
	return indices.ReplaceAllString(cause.Field, "[]") == r.field && strings.Contains(cause.Message, r.text)
}

var indices = regexp.MustCompile(`\[[^]]*]`)

// rulesOf lists the rules and patterns of all kinds, except for status.
func rulesOf(definitions map[string]*apiextensionsv1.CustomResourceDefinition) []rule {
	var rules []rule
	var walk func(kind, path string, props apiextensionsv1.JSONSchemaProps)
	walk = func(kind, path string, props apiextensionsv1.JSONSchemaProps) {
		for _, r := range props.XValidations {
			rules = append(rules, rule{kind, strings.TrimPrefix(path+r.FieldPath, "."), r.Message})
		}
		if props.Pattern != "" {
			rules = append(rules, rule{kind, strings.TrimPrefix(path, "."), "should match '" + props.Pattern + "'"})
		}
		for name, property := range props.Properties {
			if path+name != "status" {
				walk(kind, path+"."+name, property)
			}
		}
		if props.Items != nil {
			walk(kind, path+"[]", *props.Items.Schema)
		}
		if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
			walk(kind, path+"[]", *props.AdditionalProperties.Schema)
		}
	}
	for kind, definition := range definitions {
		walk(kind, "", *definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	return rules
}
