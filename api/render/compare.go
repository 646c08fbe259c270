// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Difference is a field whose value in the live Workspace differs from the rendered one.
type Difference struct {
	// Field is the path, for example spec.forProvider.module. A list is one field, except for spec.forProvider.vars and env, whose
	// elements have paths such as spec.forProvider.vars[KEY] and spec.forProvider.env[NAME].
	Field string `json:"field"`
	// Live and Rendered are the redacted values, without values of environment variables; nil when the field does not exist.
	Live     any `json:"live"`
	Rendered any `json:"rendered"`
}

// Differences returns the fields of spec in which a live Workspace differs from the rendered one, sorted by path. It ignores the defaults
// of the CRDs of provider-terraform v0.18 to v1.1. If the scopes differ, the only difference is apiVersion.
func Differences(live *unstructured.Unstructured, rendered *Rendered) []Difference {
	if live.GetAPIVersion() != rendered.Object.GetAPIVersion() {
		return []Difference{{Field: "apiVersion", Live: live.GetAPIVersion(), Rendered: rendered.Object.GetAPIVersion()}}
	}
	liveSpec, _, _ := unstructured.NestedMap(live.Object, "spec")
	renderedSpec, _, _ := unstructured.NestedMap(rendered.Object.Object, "spec")
	cluster := live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind()
	return differences("spec", withDefaults(liveSpec, cluster), withDefaults(renderedSpec, cluster))
}

// SpecDifferences returns the fields in which the contents of two templates differ, before placeholders are replaced,
// sorted by path.
func SpecDifferences(before, after *terraform.WorkspaceSpec) ([]Difference, error) {
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, err
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, err
	}
	return differences("spec", is, want), nil
}

// differences compares two objects field by field. Objects within them are compared in the same way.
func differences(path string, is, want map[string]any) (found []Difference) {
	keys := maps.Clone(is)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		field, live, rendered := path+"."+key, is[key], want[key]
		liveMap, isMap := live.(map[string]any)
		renderedMap, wantMap := rendered.(map[string]any)
		id, isKeyed := keyedLists[field]
		switch {
		case isMap && wantMap:
			found = append(found, differences(field, liveMap, renderedMap)...)
		case equality.Semantic.DeepEqual(live, rendered):
		case isKeyed:
			found = append(found, keyedDifferences(field, id, live, rendered)...)
		default:
			found = append(found, Difference{Field: field, Live: redacted(key, live), Rendered: redacted(key, rendered)})
		}
	}
	return found
}

const envField = "spec.forProvider.env"

// keyedLists are the lists that are compared element by element, so that a difference does not show the other elements, which may be
// secrets. The value is the field that identifies an element.
var keyedLists = map[string]string{"spec.forProvider.vars": "key", envField: "name"}

// keyedDifferences returns the differences of two unequal lists. If only the order differs, the values are the lists of keys.
func keyedDifferences(path, id string, live, rendered any) (found []Difference) {
	is, liveKeys := byKey(id, live)
	want, renderedKeys := byKey(id, rendered)
	for _, key := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(liveKeys, renderedKeys)))) {
		if !equality.Semantic.DeepEqual(is[key], want[key]) {
			found = append(found, Difference{Field: path + "[" + key + "]", Live: redactedElement(path, key, is[key]), Rendered: redactedElement(path, key, want[key])})
		}
	}
	if len(found) == 0 {
		return []Difference{{Field: path, Live: liveKeys, Rendered: renderedKeys}}
	}
	return found
}

// byKey returns the elements of a list by their keys, and the keys in order.
func byKey(id string, list any) (map[string]any, []string) {
	elements, _ := list.([]any)
	found, keys := make(map[string]any, len(elements)), make([]string, 0, len(elements))
	for _, element := range elements {
		fields, _ := element.(map[string]any)
		key, _ := fields[id].(string)
		found[key], keys = fields, append(keys, key)
	}
	return found, keys
}

// redactedElement returns the redacted value of a variable, or the source of an environment variable, whose value is omitted.
func redactedElement(path, key string, element any) any {
	fields, exists := element.(map[string]any)
	switch value, has := fields["value"]; {
	case !exists:
		return nil
	case path != envField:
		return redacted(key, value)
	case has:
		return "[omitted]"
	}
	return redacted(key, fields)
}

func redacted(name string, value any) any {
	switch value := value.(type) {
	case string:
		return redact.Value(name, value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for key := range value {
			out[key] = redacted(key, value[key])
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = redacted(name, value[i])
		}
		return out
	}
	return value
}

// withDefaults returns a copy of a spec with the defaults of the CRDs of provider-terraform.
func withDefaults(spec map[string]any, cluster bool) map[string]any {
	spec = runtime.DeepCopyJSON(spec)
	if spec == nil {
		spec = map[string]any{}
	}
	setDefault(spec, "managementPolicies", []any{string(terraform.ManageAll)})
	config := map[string]any{"name": defaultProviderConfig}
	if cluster {
		setDefault(spec, "deletionPolicy", "Delete")
	} else {
		config["kind"] = DefaultProviderConfigKind
	}
	setDefault(spec, "providerConfigRef", config)
	if parameters, ok := spec["forProvider"].(map[string]any); ok {
		setDefault(parameters, "entrypoint", "")
	}
	return spec
}

func setDefault(fields map[string]any, name string, value any) {
	if _, ok := fields[name]; !ok {
		fields[name] = value
	}
}

// For returns what to apply to a live Workspace. Its external name is the name of its state and is never changed, and an adopted Workspace
// keeps all its metadata.
func (r *Rendered) For(live *unstructured.Unstructured) *unstructured.Unstructured {
	want := &unstructured.Unstructured{Object: maps.Clone(r.Object.Object)} // Its metadata is changed, and nothing else.
	want.Object["metadata"] = runtime.DeepCopyJSONValue(r.Object.Object["metadata"])
	annotations, claim := live.GetAnnotations(), want.GetAnnotations()[naming.ClaimAnnotation]
	switch name := annotations[ExternalNameAnnotation]; {
	case annotations[naming.ClaimAnnotation] != claim:
		want.SetAnnotations(nil)
	case name != "":
		want.SetAnnotations(map[string]string{ExternalNameAnnotation: name, naming.ClaimAnnotation: claim})
	}
	return want
}

// ReferenceTo returns a reference to a live Workspace, for status.
func ReferenceTo(live *unstructured.Unstructured) *infrav1.WorkspaceReference {
	return &infrav1.WorkspaceReference{
		APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName(), Namespace: live.GetNamespace(), UID: live.GetUID(),
		ExternalName: live.GetAnnotations()[ExternalNameAnnotation],
	}
}

// SpecOf returns the spec of a live Workspace.
func SpecOf(live *unstructured.Unstructured) (*terraform.WorkspaceSpec, error) {
	spec, _ := live.Object["spec"].(map[string]any)
	typed := &terraform.WorkspaceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, typed); err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", live.GetName(), err)
	}
	return typed, nil
}

// LimitsActions reports whether the template, or what is retained, limits what the provider may do.
func (r *Rendered) LimitsActions() bool {
	_, found, _ := unstructured.NestedFieldNoCopy(r.Object.Object, "spec", "managementPolicies")
	return found
}

// Differs reports whether applying the rendered Workspace would change the live one.
func (r *Rendered) Differs(live *unstructured.Unstructured) bool {
	return ssa.Differs(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
}

// Changes returns the fields of spec that applying the rendered Workspace would change, sorted by path. In contrast to Differences, fields
// that other clients set and that are not rendered are kept, and are not returned.
func (r *Rendered) Changes(live *unstructured.Unstructured) []Difference {
	applied := ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager)
	before, _, _ := unstructured.NestedMap(live.Object, "spec")
	after, _, _ := unstructured.NestedMap(applied.Object, "spec")
	return differences("spec", before, after)
}

// Content returns the fields of spec of a new Workspace, as differences from nothing.
func (r *Rendered) Content() []Difference {
	spec, _, _ := unstructured.NestedMap(r.Object.Object, "spec")
	return differences("spec", map[string]any{"forProvider": map[string]any{}}, spec)
}

// observe is the management policy with which the provider only plans.
const observe = "Observe"

// jsonArg makes terraform plan print JSON.
const jsonArg = "-json"

// Preview returns the Workspace that previews the update of a live Workspace to the rendered one, and the hash of its spec. It has the state of
// the live one and the content that it would have after the update, fields of other clients included. It may only observe, and it writes no
// Secret. It does not have the claim, so that it cannot be taken for the Workspace of the WorkspaceTemplateApply. It plans without -json, as
// the provider does not keep errors in JSON. Without a live Workspace, it previews the creation of one.
func (r *Rendered) Preview(live *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	if live == nil {
		return previewOf(r.Object, r.Object, apply)
	}
	return previewOf(live, ssa.Applied(live, r.For(live), naming.WorkspaceTemplateApplyFieldManager), apply)
}

// PreviewOf is Preview for the content that the live Workspace has.
func PreviewOf(live *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	return previewOf(live, live, apply)
}

func previewOf(live, content *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) (*Rendered, error) {
	key := naming.KeyOf(apply)
	spec, _, err := unstructured.NestedMap(content.Object, "spec")
	if err != nil || spec == nil {
		return nil, fmt.Errorf("the Workspace has no valid spec: %w", err)
	}
	delete(spec, "writeConnectionSecretToRef")
	delete(spec, "publishConnectionDetailsTo")
	spec["managementPolicies"] = []any{observe} // Terraform plans, and neither applies nor destroys.
	preview := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	preview.SetGroupVersionKind(live.GroupVersionKind())
	preview.SetNamespace(live.GetNamespace())
	scope := terraform.ScopeNamespaced
	if live.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		scope = terraform.ScopeCluster
		spec["deletionPolicy"] = string(terraform.DeletionOrphan)
	} else { // A cluster-wide object cannot have an owner with a namespace.
		preview.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: "WorkspaceTemplateApply", Name: apply.Name, UID: apply.UID,
		}})
	}
	preview.SetName(naming.PreviewWorkspace(scope, apply))
	revision, err := terraform.Revision(spec)
	if err != nil {
		return nil, err
	}
	if err := setPlanArgs(preview, slices.DeleteFunc(planArgs(preview), func(arg string) bool { return arg == jsonArg })); err != nil {
		return nil, err
	}
	preview.SetLabels(map[string]string{naming.PreviewLabel: "true"})
	preview.SetAnnotations(map[string]string{
		ExternalNameAnnotation:           cmp.Or(live.GetAnnotations()[ExternalNameAnnotation], live.GetName()),
		naming.PreviewOfAnnotation:       naming.Claim(key),
		naming.PreviewRevisionAnnotation: revision,
	})
	return &Rendered{Object: preview, Revision: revision}, nil
}

func planArgs(workspace *unstructured.Unstructured) []string {
	args, _, _ := unstructured.NestedStringSlice(workspace.Object, "spec", "forProvider", "planArgs") // Others than strings are rejected.
	return args
}

func setPlanArgs(workspace *unstructured.Unstructured, args []string) error {
	if len(args) == 0 {
		unstructured.RemoveNestedField(workspace.Object, "spec", "forProvider", "planArgs")
		return nil
	}
	return unstructured.SetNestedStringSlice(workspace.Object, args, "spec", "forProvider", "planArgs")
}

// LogsPlan reports whether the provider logs what a preview would change.
func LogsPlan(preview *unstructured.Unstructured) bool {
	return slices.Contains(planArgs(preview), jsonArg)
}

// WithLog returns the form of a preview whose plan the provider logs, without values. It has the same hash: the content is the same.
func (r *Rendered) WithLog() *Rendered {
	logged := &Rendered{Object: r.Object.DeepCopy(), Revision: r.Revision}
	if setPlanArgs(logged.Object, append(planArgs(r.Object), jsonArg)) != nil ||
		unstructured.SetNestedField(logged.Object.Object, true, "spec", "forProvider", "enableTerraformCLILogging") != nil {
		return r // It has no valid forProvider, and the API server rejects it.
	}
	return logged
}

// IsUnchanged reports whether a live preview is as it was created, in either form, except for defaults, and may only observe. The generation
// also shows changes that were reverted: the status may be about them.
func (r *Rendered) IsUnchanged(live *unstructured.Unstructured) bool {
	if LogsPlan(live) && !LogsPlan(r.Object) {
		r = r.WithLog()
	}
	_, writes, _ := unstructured.NestedMap(live.Object, "spec", "writeConnectionSecretToRef")
	return live.GetGeneration() <= 1 && OnlyObserves(live) && !writes &&
		!ssa.Differs(live, r.Object, "") // Annotations that CAPT adds later do not count.
}

// OnlyObserves reports whether the provider can neither apply a Workspace nor destroy its resources.
func OnlyObserves(workspace *unstructured.Unstructured) bool {
	policies, _, err := unstructured.NestedStringSlice(workspace.Object, "spec", "managementPolicies")
	return err == nil && slices.Equal(policies, []string{observe})
}

// OnlyObserve makes a Workspace one that the provider can neither apply nor destroy.
func OnlyObserve(workspace *unstructured.Unstructured) error {
	if workspace.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		if err := unstructured.SetNestedField(workspace.Object, string(terraform.DeletionOrphan), "spec", "deletionPolicy"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedStringSlice(workspace.Object, []string{observe}, "spec", "managementPolicies")
}

// Explained is a placeholder that is replaced, or a variable that is passed to the module.
type Explained struct {
	// Field of the WorkspaceTemplate that has the placeholder, or forProvider.varmap for a variable that is passed.
	Field    string `json:"field"`
	Variable string `json:"variable"`
	Value    string `json:"value"`
	// From is the field that has the value.
	From string `json:"from"`
}

// Explain lists what a WorkspaceTemplateApply replaces in a template and passes to its module, in the order of the fields.
func Explain(in Input) (found []Explained) {
	apply, template, path := in.Apply, in.Template, field.NewPath("spec", "template", "spec")
	var tree any
	if err := decode(template.Spec.Template.Spec, &tree); err == nil { // It was decoded from JSON.
		s := newSubstitution(&template.Spec, nil, path)
		s.visited = func(text string, path *field.Path) { found = append(found, placeholdersIn(text, path, in)...) }
		s.walk(tree, path)
	}
	passed := modules.TemplateInterface(&template.Spec).Pass(apply.Spec.Variables)
	for _, name := range slices.Sorted(maps.Keys(passed.Values)) {
		from := "spec.variables"
		if !apply.Spec.Variables.Has(name) {
			from = "default in spec.inputs"
		}
		found = append(found, Explained{path.Child("forProvider", "varmap").Key(name).String(), name, string(passed.Values[name]), from})
	}
	return found
}

func placeholdersIn(text string, path *field.Path, in Input) (found []Explained) {
	for i, line := range strings.Split(text, "\n") {
		where := path.String()
		if strings.Contains(text, "\n") {
			where += fmt.Sprintf(", line %d", i+1)
		}
		for _, name := range terraform.Placeholders(line, in.Template.Spec.Substitution.Escaping()) {
			switch variables := in.Apply.Spec.Variables; {
			case name == modules.WorkspaceNameVariable:
				found = append(found, Explained{where, "${" + name + "}", in.Name, "name of the Workspace"})
			case variables.Has(name):
				found = append(found, Explained{where, "${" + name + "}", variables.Text(name), "spec.variables"})
			}
		}
	}
	return found
}
