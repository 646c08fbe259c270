// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package render renders a WorkspaceTemplate with variables to a Workspace. Its functions are pure and deterministic. docs/templates.md
// describes the rules.
package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Names that Crossplane and provider-terraform define.
const (
	// ExternalNameAnnotation is the annotation for the name of the Terraform workspace, which determines the state.
	ExternalNameAnnotation = "crossplane.io/external-name"
	// DefaultProviderConfigKind is the default kind of the ProviderConfig of a namespaced Workspace.
	DefaultProviderConfigKind = "ClusterProviderConfig"
)

// Input has everything that determines a rendered Workspace.
type Input struct {
	Apply    *infrav1.WorkspaceTemplateApply
	Template *infrav1.WorkspaceTemplate
	// Name of the Workspace, from the spec of the WorkspaceTemplateApply.
	Name string
	// ExternalName is the recorded state of the Workspace. Empty means a new Workspace, whose state name is derived from namespace and name
	// of Apply. It must not come from a field that users can write: they could name the state of another namespace.
	ExternalName string
	// Recorded is the spec of the recorded Workspace, if there is one. CAPT v0.3 allowed references to other namespaces; those that the
	// Workspace already has are accepted.
	Recorded *terraform.WorkspaceSpec
	// StatePrefix is the manager's --state-prefix. It is part of the name of new states only.
	StatePrefix string
}

// Rendered is the desired Workspace.
type Rendered struct {
	// Object has only the fields that CAPT owns, for server-side apply.
	Object *unstructured.Unstructured
	// Revision is a hash of its spec (terraform.Revision).
	Revision string
}

// Workspace renders a Workspace. The paths of errors are fields of the WorkspaceTemplate.
func Workspace(in Input) (*Rendered, field.ErrorList) {
	path := field.NewPath("spec", "template", "spec")
	variables := in.Apply.Spec.Variables.Texts()
	variables[modules.WorkspaceNameVariable] = in.Name

	spec, errs := substitute(&in.Template.Spec, variables, path)
	if len(errs) > 0 {
		return nil, errs
	}
	if ref := in.Apply.Spec.WriteConnectionSecretToRef; ref != nil {
		spec.WriteConnectionSecretToRef = ref.DeepCopy()
	}
	scope := in.Template.Spec.WorkspaceScope
	if scope == terraform.ScopeCluster {
		errs = toClusterScope(spec, in, path)
	} else {
		errs = toNamespacedScope(spec, in.Apply.Namespace, path)
	}
	errs = append(errs, passVariables(spec, in)...)
	errs = append(errs, validateFluxSource(spec, in, path)...)
	errs = append(errs, modules.ValidateModule(spec.ForProvider, path.Child("forProvider"))...)
	errs = append(errs, modules.ValidateParameters(spec.ForProvider, path.Child("forProvider"))...)
	if len(errs) > 0 {
		return nil, errs
	}
	content, err := toMap(spec)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec", "template", "spec"), err)}
	}
	revision, err := terraform.Revision(content)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec", "template", "spec"), err)}
	}
	key := naming.KeyOf(in.Apply)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(scope.GroupVersionKind())
	object.SetName(in.Name)
	if scope != terraform.ScopeCluster {
		object.SetNamespace(in.Apply.Namespace)
	}
	object.SetAnnotations(map[string]string{
		ExternalNameAnnotation: cmp.Or(in.ExternalName, naming.ExternalName(in.StatePrefix, key)),
		naming.ClaimAnnotation: naming.Claim(key),
	})
	return &Rendered{Object: object, Revision: revision}, nil
}

// passVariables adds the variables that CAPT passes to the module. Paths of errors about values are fields of the WorkspaceTemplateApply.
func passVariables(spec *terraform.WorkspaceSpec, in Input) (errs field.ErrorList) {
	if in.Template.Spec.PassVariables != infrav1.PassDeclared {
		return nil
	}
	var declared *modules.Declarations
	if spec.ForProvider.Source == terraform.SourceInline {
		declared = modules.Parse(spec.ForProvider).Declarations()
	}
	passes, path := modules.InterfaceOf(&in.Template.Spec, spec.ForProvider, declared), field.NewPath("spec", "variables")
	passed := passes.Pass(in.Apply.Spec.Variables)
	errs = passes.Errors(passed, "the module", path)
	if err := passed.AddTo(&spec.ForProvider); err != nil {
		errs = append(errs, field.InternalError(path, err))
	}
	return errs
}

// toMap returns a spec as unstructured content. In lists it sets the defaults of the CRD: lists of the Workspace are atomic, so without
// them the live and the rendered list would always differ.
func toMap(spec *terraform.WorkspaceSpec) (map[string]any, error) {
	for i := range spec.ForProvider.VarFiles {
		if spec.ForProvider.VarFiles[i].Format == "" {
			spec.ForProvider.VarFiles[i].Format = terraform.FormatHCL
		}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of the Workspace: %w", err)
	}
	content := map[string]any{}
	// utiljson decodes whole numbers as int64, as in objects of the API server: a float64 would always differ.
	return content, utiljson.Unmarshal(data, &content)
}

// Ownership of a Workspace.
type Ownership string

const (
	// Owned by the WorkspaceTemplateApply: it created or adopted it.
	Owned Ownership = "Owned"
	// Foreign: it belongs to another object, or does not have an owner.
	Foreign Ownership = "Foreign"
	// Undecided: it was created for a WorkspaceTemplateApply of this name, but an earlier one may have retained it on purpose. The user must
	// confirm the UID of the Workspace.
	Undecided Ownership = "Undecided"
	// Replaced: another client recreated the recorded Workspace.
	Replaced Ownership = "Replaced"
)

// OwnerOf reports whether a Workspace belongs to a WorkspaceTemplateApply. rendered is what its template renders to; it may be nil. The evidence
// depends on the Workspace:
//
//   - With a claim annotation, and newer than the object: the claim.
//   - With a claim annotation, and older than the object: the claim and, in addition, a record of its UID in status, an annotation from before
//     a move or a restore that names its state, or the confirmation of its UID by the user.
//   - Without a claim annotation, so that this version did not create it: a record of its UID in status, or equality with the rendered
//     Workspace together with its name in status or a confirmation.
func OwnerOf(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) Ownership {
	switch {
	case naming.IsPreview(workspace):
		return Foreign
	case workspace.GetAnnotations()[naming.ClaimAnnotation] != "":
		created := workspace.GetCreationTimestamp()
		older := !created.IsZero() && created.Time.Before(apply.CreationTimestamp.Time) // An earlier object of the same name may have retained it.
		switch {
		case !IsClaimed(workspace, apply):
			return Foreign
		case IsRecorded(workspace, apply), isConfirmed(workspace, apply), !older:
			return Owned
		}
		return Undecided
	}
	return unclaimedOwner(workspace, apply, rendered)
}

// unclaimedOwner decides for a Workspace that CAPT v0.3 or another client created: by what status records, and by whether the Workspace is as
// rendered.
func unclaimedOwner(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) Ownership {
	same := rendered != nil && !rendered.Differs(workspace)
	switch {
	case IsRecorded(workspace, apply), same && apply.Status.WorkspaceName == workspace.GetName():
		return Owned
	case same && equalsInNamespace(workspace, apply, rendered) && isConfirmed(workspace, apply):
		return Owned
	case same && equalsInNamespace(workspace, apply, rendered):
		return Undecided
	case apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != "":
		return Replaced
	}
	return Foreign
}

// IsClaimed reports whether a Workspace was created for a WorkspaceTemplateApply of that namespace and name.
func IsClaimed(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	return workspace.GetAnnotations()[naming.ClaimAnnotation] == naming.Claim(naming.KeyOf(apply))
}

// IsRecorded reports whether status of a WorkspaceTemplateApply, which users cannot write, records the UID of a Workspace.
func IsRecorded(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	ref := apply.Status.WorkspaceRef
	return ref != nil && ref.UID != "" && ref.UID == workspace.GetUID()
}

// isConfirmed reports whether a user has confirmed the UID of the Workspace, or the object was moved or restored with the name of the state. Such
// a name that the object itself recorded does not count: it is set before a Workspace is created, which may find a retained one.
func isConfirmed(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply) bool {
	uid, state := apply.Annotations[naming.AdoptWorkspaceAnnotation], apply.Annotations[naming.ExternalNameAnnotation]
	restored := state != "" && state == workspace.GetAnnotations()[ExternalNameAnnotation] && apply.Annotations[naming.ExternalNameUIDAnnotation] != string(apply.UID)
	return restored || uid != "" && uid == string(workspace.GetUID())
}

// equalsInNamespace reports whether a Workspace without a claim is exactly as rendered, except for defaults, and of the same namespace. That
// applying changes nothing does not prove ownership: the fewer fields a template has, the more Workspaces it matches. A user with access to one
// namespace can name any cluster-wide Workspace in spec and render the same spec, but cannot make it write its outputs to that namespace.
func equalsInNamespace(workspace *unstructured.Unstructured, apply *infrav1.WorkspaceTemplateApply, rendered *Rendered) bool {
	return NamespaceOf(workspace) == apply.Namespace && len(Differences(workspace, rendered)) == 0
}

// NamespaceOf returns the namespace that a Workspace belongs to: that of the connection Secret for a cluster-wide one, which users with access to one
// namespace cannot write; empty if that has none.
func NamespaceOf(workspace *unstructured.Unstructured) string {
	if namespace := workspace.GetNamespace(); namespace != "" {
		return namespace
	}
	namespace, _, _ := unstructured.NestedString(workspace.Object, "spec", "writeConnectionSecretToRef", "namespace")
	return namespace
}

// defaultProviderConfig is the default of the CRDs of provider-terraform.
const defaultProviderConfig = "default"

// ProviderConfig returns the ProviderConfig of the rendered Workspace, in the form of ProviderConfigOf.
func (r *Rendered) ProviderConfig() string { return ProviderConfigOf(r.Object) }

// ProviderConfigOf returns the ProviderConfig of a Workspace, which determines AWS account and backend: the name for a cluster-scoped
// Workspace, kind/name for a namespaced one. Without a reference it is the default of the CRD.
func ProviderConfigOf(workspace *unstructured.Unstructured) string {
	field := func(name string) string {
		value, _, _ := unstructured.NestedString(workspace.Object, "spec", "providerConfigRef", name)
		return value
	}
	scope := terraform.ScopeNamespaced
	if workspace.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		scope = terraform.ScopeCluster
	}
	return ProviderConfigName(scope, field("kind"), field("name"))
}

// ProviderConfigName is ProviderConfigOf for the fields of a reference, which may be empty.
func ProviderConfigName(scope terraform.Scope, kind, name string) string {
	name = cmp.Or(name, defaultProviderConfig)
	if scope.OrDefault() == terraform.ScopeCluster {
		return name
	}
	return cmp.Or(kind, DefaultProviderConfigKind) + "/" + name
}

// ProviderConfigObject returns the ProviderConfig of a Workspace, with its kind and name only.
func ProviderConfigObject(workspace *unstructured.Unstructured) *unstructured.Unstructured {
	config := &unstructured.Unstructured{}
	kind, name, namespaced := strings.Cut(ProviderConfigOf(workspace), "/")
	if !namespaced {
		kind, name = "ProviderConfig", kind
	}
	if namespaced && kind == "ProviderConfig" {
		config.SetNamespace(workspace.GetNamespace())
	}
	config.SetGroupVersionKind(workspace.GroupVersionKind().GroupVersion().WithKind(kind))
	config.SetName(name)
	return config
}

// toNamespacedScope changes a spec to the spec of a namespaced Workspace. References must be in its namespace, and their field namespace is
// removed. Fields of the cluster scope are converted or removed.
func toNamespacedScope(spec *terraform.WorkspaceSpec, namespace string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, ref := range spec.References(path) {
		if *ref.Namespace != "" && *ref.Namespace != namespace {
			errs = append(errs, otherNamespaceError(ref, namespace))
		}
		*ref.Namespace = ""
	}
	if spec.DeletionPolicy == terraform.DeletionOrphan {
		spec.ManagementPolicies = withoutDelete(spec.ManagementPolicies)
	}
	spec.DeletionPolicy = ""
	spec.PublishConnectionDetailsTo = nil
	if spec.ProviderConfigRef != nil {
		spec.ProviderConfigRef.Policy = nil
		if spec.ProviderConfigRef.Kind == "" {
			spec.ProviderConfigRef.Kind = DefaultProviderConfigKind
		}
	}
	return errs
}

// toClusterScope changes a spec to the spec of a cluster-scoped Workspace. Such a Workspace can read any namespace, so references must be
// in the namespace of the WorkspaceTemplateApply, or in the namespace of the template if they have no placeholders. References that an
// adopted Workspace already has are accepted.
func toClusterScope(spec *terraform.WorkspaceSpec, in Input, path *field.Path) field.ErrorList {
	literal := map[string]string{}
	for _, ref := range in.Template.Spec.Template.Spec.DeepCopy().References(path) {
		if *ref.Namespace == in.Template.Namespace {
			literal[ref.Path.String()] = ref.Object
		}
	}
	if in.Apply.Spec.WriteConnectionSecretToRef != nil {
		// The WorkspaceTemplateApply overrides the template.
		delete(literal, path.Child("writeConnectionSecretToRef").String())
	}
	var errs field.ErrorList
	for _, ref := range spec.References(path) {
		object, isLiteral := literal[ref.Path.String()]
		switch *ref.Namespace {
		case "":
			*ref.Namespace = in.Apply.Namespace
		case in.Apply.Namespace:
		default:
			ofTemplate := *ref.Namespace == in.Template.Namespace && isLiteral && object == ref.Object
			if !ofTemplate && !isRecorded(ref, in.Recorded) {
				errs = append(errs, otherNamespaceError(ref, in.Apply.Namespace))
			}
		}
	}
	if spec.ProviderConfigRef != nil {
		spec.ProviderConfigRef.Kind = ""
	}
	return errs
}

// isRecorded reports whether the adopted Workspace already has the same reference.
func isRecorded(ref terraform.Reference, recorded *terraform.WorkspaceSpec) bool {
	return recorded != nil && slices.ContainsFunc(recorded.References(nil), func(has terraform.Reference) bool {
		return has.Kind == ref.Kind && has.Connection == ref.Connection && has.Object == ref.Object && *has.Namespace == *ref.Namespace
	})
}

// validateFluxSource applies the rule for references to the source of a Flux module, Kind::namespace/name.
func validateFluxSource(spec *terraform.WorkspaceSpec, in Input, path *field.Path) field.ErrorList {
	if spec.ForProvider.Source != terraform.SourceFlux {
		return nil
	}
	_, object, _ := strings.Cut(spec.ForProvider.Module, "::")
	namespace, name, found := strings.Cut(object, "/")
	literal := spec.ForProvider.Module == in.Template.Spec.Template.Spec.ForProvider.Module && namespace == in.Template.Namespace
	recorded := in.Recorded != nil && in.Recorded.ForProvider.Source == terraform.SourceFlux && in.Recorded.ForProvider.Module == spec.ForProvider.Module
	if recorded || found && !strings.Contains(name, "/") && (namespace == in.Apply.Namespace || literal) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("forProvider", "module"), fmt.Sprintf(
		"must be Kind::%s/name, a source in the namespace of the WorkspaceTemplateApply, or a literal source in the namespace of the template", in.Apply.Namespace))}
}

func otherNamespaceError(ref terraform.Reference, namespace string) *field.Error {
	return field.Forbidden(ref.Path.Child("namespace"), fmt.Sprintf(
		"must be %q, the namespace of the WorkspaceTemplateApply. Remove the field", namespace))
}

// withoutDelete removes Delete from managementPolicies, which retains the cloud resources of a deleted Workspace in the namespaced scope.
func withoutDelete(actions []terraform.ManagementAction) []terraform.ManagementAction {
	if len(actions) == 0 || slices.Contains(actions, terraform.ManageAll) {
		return []terraform.ManagementAction{"Observe", "Create", "Update", "LateInitialize"}
	}
	return slices.DeleteFunc(slices.Clone(actions), func(action terraform.ManagementAction) bool {
		return action == terraform.ManageDelete
	})
}

// substitute replaces ${name} in the strings of a template. It does not replace in serialized text, so a value cannot add or change fields.
func substitute(template *infrav1.WorkspaceTemplateSpec, variables map[string]string, path *field.Path) (*terraform.WorkspaceSpec, field.ErrorList) {
	params := template.Template.Spec.ForProvider
	if !template.HasPlaceholder() && !template.HasEscape() && params.Source == terraform.SourceInline {
		return template.Template.Spec.DeepCopy(), nil
	}
	var tree any
	if err := decode(template.Template.Spec, &tree); err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	module := path.Child("forProvider", "module")
	s := newSubstitution(template, variables, path)
	tree = s.walk(tree, path)
	spec := &terraform.WorkspaceSpec{}
	if err := decode(tree, spec); err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	if params.Source != terraform.SourceInline {
		s.errs = append(s.errs, modules.ValidateSource(params, template.Substitution.Escaping(), variables, module)...)
	}
	if len(s.errs) > 0 || template.HasLiteralModule() {
		return spec, s.errs
	}
	inModule := spec.ForProvider
	inModule.Module = params.Module
	if changing := modules.ChangingStructure(inModule, template.Substitution.Escaping(), variables); len(changing) > 0 {
		s.errs = append(s.errs, modules.StructureError(module, changing...))
	}
	return spec, s.errs
}

// decode converts a value to another through JSON. Whole numbers become int64, not float64.
func decode(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, to)
}

// substitution replaces the placeholders in all strings of a spec, and collects the errors.
type substitution struct {
	mode      infrav1.Substitution
	variables map[string]string
	// module is the path of an inline module.
	module string
	errs   field.ErrorList
	// visited is called with each string in which placeholders are replaced; it may be nil.
	visited func(text string, path *field.Path)
}

func newSubstitution(template *infrav1.WorkspaceTemplateSpec, variables map[string]string, path *field.Path) *substitution {
	s := &substitution{mode: template.Substitution, variables: variables}
	if template.Template.Spec.ForProvider.Source == terraform.SourceInline {
		s.module = path.Child("forProvider", "module").String()
	}
	return s
}

func (s *substitution) walk(node any, path *field.Path) any {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			node[key] = s.walk(node[key], path.Child(key))
		}
	case []any:
		for i, child := range node {
			node[i] = s.walk(child, path.Index(i))
		}
	case string:
		inModule := s.module != "" && path.String() == s.module
		if s.visited != nil && (!inModule || s.mode != infrav1.SubstitutionFields) {
			s.visited(node, path)
		}
		if inModule {
			return s.replaceInModule(node, path)
		}
		return s.replace(node, path)
	}
	return node
}

// replace replaces the placeholders in a field other than an inline module. A template of an earlier version has no escapes, and keeps placeholders
// without a value.
func (s *substitution) replace(text string, path *field.Path) string {
	if s.mode == "" {
		return modules.ReplacePlaceholders(text, terraform.NoEscape, s.variables)
	}
	out, missing := replaceInField(text, s.variables)
	if s.mode == infrav1.SubstitutionAll {
		return out
	}
	for _, name := range missing {
		s.errs = append(s.errs, modules.MissingVariableError(path, name))
	}
	return out
}

func (s *substitution) replaceInModule(text string, path *field.Path) string {
	if s.mode == infrav1.SubstitutionFields {
		return text
	}
	refused := sets.New[string]()
	return terraform.ReplacePlaceholders(text, s.mode.Escaping(), func(name string) string {
		value, ok := s.variables[name]
		if ok && modules.SafeInModule(value) {
			return value
		}
		if ok && !refused.Has(name) {
			refused.Insert(name)
			s.errs = append(s.errs, modules.UnsafeInModuleError(path, name))
		}
		return "${" + name + "}"
	})
}

// replaceInField also returns the names of the variables without a value, whose placeholders stay.
func replaceInField(text string, variables map[string]string) (out string, missing []string) {
	for _, name := range sets.List(modules.PlaceholdersIn(text)) {
		if _, ok := variables[name]; !ok {
			missing = append(missing, name)
		}
	}
	return modules.ReplacePlaceholders(text, terraform.EscapeRemoved, variables), missing
}
