// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"encoding/json"
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
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/specimens"
)

// agreementGroup is the group of copies of CAPT's kinds. It has no webhooks, so that all errors about their objects are those
// of the schema; and they can start without rules, to store objects that break them.
const agreementGroup = "agreement.capt.example"

// trialsOf are the specimens of v1beta2, also as specs of templates. What is refused for the one may be accepted for the other, since a
// template has no fields that belong to a single cluster.
func trialsOf(all []specimens.Specimen) (trials []*trial) {
	for _, s := range all {
		if s.Version != "" {
			continue
		}
		trials = append(trials, &trial{Specimen: s, accepted: ptr.To(len(s.Refused) == 0)})
		if s.Kind != "CAPTCluster" && s.Kind != "CAPTControlPlane" {
			continue
		}
		s.Kind, s.Spec = s.Kind+"Template", fmt.Appendf(nil, `{"template": {"spec": %s}}`, s.Spec)
		if s.Old != nil {
			s.Old = fmt.Appendf(nil, `{"template": {"spec": %s}}`, s.Old)
		}
		trials = append(trials, &trial{Specimen: s})
	}
	return trials
}

func TestLibraryAndAPIServerAgreeAboutEveryRule(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	schemas, err := schema.New(crd.Definitions)
	require.NoError(t, err)
	originals := originalDefinitions(t)
	all, err := specimens.All()
	require.NoError(t, err)
	trials := trialsOf(all)
	tighten := env.serveCopies(originals)
	for i, trial := range trials {
		trial.name = fmt.Sprintf("specimen-%d", i)
		if trial.Old != nil {
			trial.stored = env.specimen(trial.Kind, trial.name, trial.Old)
			require.NoError(t, env.Create(t.Context(), trial.stored))
		}
	}
	tighten()

	unbroken := rulesOf(originals)
	for _, trial := range trials {
		t.Run(trial.name, func(t *testing.T) {
			said := trial.evaluate(t, env)
			library, err := schemas.Of(kindOf(originals[trial.Kind]))
			require.NoError(t, err)
			require.ElementsMatch(t, said, trial.check(t, env, library), "%s %s, before %s", trial.Kind, trial.Spec, trial.Old)
			if trial.accepted != nil {
				require.Equal(t, *trial.accepted, len(said) == 0, "%s %s, before %s: %v", trial.Kind, trial.Spec, trial.Old, said)
			}
			unbroken = slices.DeleteFunc(unbroken, func(r rule) bool { return r.kind == trial.Kind && slices.ContainsFunc(said, r.refused) })
		})
	}
	require.Empty(t, unbroken, "no specimen breaks these rules")
}

// trial is a specimen on its way to the API server.
type trial struct {
	specimens.Specimen
	name string
	// accepted is what the outcome must be; nil if it only matters that both agree.
	accepted *bool
	// stored is the old object.
	stored *unstructured.Unstructured
}

// evaluate sends the spec to the API server.
func (t *trial) evaluate(test *testing.T, env environment) []metav1.StatusCause {
	test.Helper()
	object := env.specimen(t.Kind, t.name, t.Spec)
	if t.stored == nil {
		return causes(test, env.Create(test.Context(), object, client.DryRunAll))
	}
	object.SetResourceVersion(t.stored.GetResourceVersion())
	return causes(test, env.Update(test.Context(), object, client.DryRunAll))
}

// check asks the library.
func (t *trial) check(test *testing.T, env environment, library *schema.Schema) []metav1.StatusCause {
	test.Helper()
	read := func(spec json.RawMessage) *unstructured.Unstructured {
		object := env.specimen(t.Kind, t.name, spec)
		// The group is that of the copies.
		object.SetGroupVersionKind(runtimeschema.GroupVersionKind{})
		return object
	}
	var errs field.ErrorList
	if t.stored == nil {
		errs = library.Validate(test.Context(), read(t.Spec))
	} else {
		errs = library.ValidateUpdate(test.Context(), read(t.Spec), read(t.Old))
	}
	if len(errs) == 0 {
		return nil
	}
	return causes(test, apierrors.NewInvalid(runtimeschema.GroupKind{}, t.name, errs))
}

// specimen is an object of the copy of a kind, as the API server would decode it.
func (env environment) specimen(kind, name string, spec json.RawMessage) *unstructured.Unstructured {
	env.Helper()
	document := fmt.Sprintf("{apiVersion: %s/v1beta2, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}", agreementGroup, kind, name, env.Namespace, spec)
	data, err := yaml.YAMLToJSON([]byte(document))
	require.NoError(env, err)
	object := &unstructured.Unstructured{}
	require.NoError(env, object.UnmarshalJSON(data))
	return object
}

// causes are the single errors of a refusal. That more rules could not be checked is worded differently by the API
// server and by the library.
func causes(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	said := slices.Clone(causesOf(err))
	require.True(t, err == nil || said != nil, "want a refusal, got %v", err)
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
		if spec.Group != bootstrapv1.GroupVersion.Group { // Its specs have no fields, and so no rules.
			originals[spec.Names.Kind] = definition
		}
	}
	return originals
}

func kindOf(definition *apiextensionsv1.CustomResourceDefinition) runtimeschema.GroupVersionKind {
	return runtimeschema.GroupVersionKind{Group: definition.Spec.Group, Version: definition.Spec.Versions[0].Name, Kind: definition.Spec.Names.Kind}
}

// serveCopies makes the API server serve copies of definitions without any rules. What it returns gives them their rules.
func (env environment) serveCopies(originals map[string]*apiextensionsv1.CustomResourceDefinition) func() {
	env.Helper()
	c, err := client.New(shared.Config(), client.Options{Scheme: builder.Scheme()})
	require.NoError(env, err)
	copies := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for kind, original := range originals {
		definition := original.DeepCopy()
		definition.Name, definition.Spec.Group = definition.Spec.Names.Plural+"."+agreementGroup, agreementGroup
		definition.Spec.Names.ShortNames, definition.Spec.Names.Categories = nil, nil
		keep := true
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
		require.NoError(env, c.Create(env.Context(), definition))
		env.Cleanup(func() { _ = c.Delete(context.WithoutCancel(env.Context()), definition) })
		copies[kind] = definition
	}
	// An empty spec lacks what each kind requires.
	env.awaitEmptySpec(copies, func(err error) bool { return err == nil })
	return func() {
		for kind, definition := range copies {
			tight := definition.DeepCopy()
			tight.Spec.Versions = originals[kind].Spec.Versions
			require.NoError(env, c.Patch(env.Context(), tight, client.MergeFrom(definition)))
		}
		env.awaitEmptySpec(copies, apierrors.IsInvalid)
	}
}

// awaitEmptySpec waits until the creation of an object with an empty spec has the outcome that is wanted, for each kind.
func (env environment) awaitEmptySpec(kinds map[string]*apiextensionsv1.CustomResourceDefinition, wanted func(error) bool) {
	env.Helper()
	for kind := range kinds {
		env.Eventually(func() string {
			err := env.Create(env.Context(), env.specimen(kind, "empty", json.RawMessage("{}")), client.DryRunAll)
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
