// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"maps"
	pathpkg "path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// ValidateWorkspaceTemplate checks a template on its own, without variables. All references of an inline module are checked if the Terraform code of
// the ProviderConfig, which can declare what they refer to, is given; only those to variables if not.
func ValidateWorkspaceTemplate(template *infrav1.WorkspaceTemplate, configuration ...*modules.Parsed) Findings {
	path := field.NewPath("spec", "template", "spec")
	forProvider := path.Child("forProvider")
	spec := &template.Spec
	params := spec.Template.Spec.ForProvider

	var findings Findings
	var declared *modules.Declarations
	if params.Source == terraform.SourceInline {
		// Parse once: for a large module, this takes longer than all other checks.
		module := modules.ParseTemplate(spec)
		errs, warnings := module.Check(forProvider.Child("module"))
		findings.Refuse(errs...)
		warnings = append(warnings, module.Language()...)
		if len(configuration) > 0 {
			warnings = append(warnings, module.References(configuration...)...)
		} else {
			warnings = append(warnings, module.Variables()...)
		}
		if nothing := module.Nothing(); nothing != "" {
			warnings = append(warnings, nothing)
		}
		for _, warning := range warnings {
			findings.Warn(forProvider.Child("module"), "%s", warning)
		}
		declared = module.Declarations()
	}
	findings.Refuse(modules.ValidateParameters(params, forProvider)...)
	findings.Refuse(validateSource(params, forProvider)...)
	findings.Refuse(validateVarFiles(params, forProvider)...)
	findings.Refuse(validateProviderConfigKind(spec, path)...)
	findings.Refuse(validateAllowedNamespaces(spec.AllowedNamespaces)...)
	findings.Add(validateRollout(template))
	findings.Add(validatePublishedOutputs(spec, declared))
	findings.Add(validateReferences(template, path))
	findings.Add(checkDeclaredVariables(spec, declared, forProvider))
	findings.Add(validateInputs(spec, declared))
	findings.Add(warnOfVariablesSetTwice(params, forProvider))
	findings.Add(warnOfTextInModule(spec, forProvider.Child("module")))
	findings.Add(warnOfFieldsWithoutEffect(spec, path))
	findings.Add(warnOfUnknownFields(&spec.Template.Spec, path))
	return findings
}

// iterator matches the names that a for expression or directive declares.
var iterator = regexp.MustCompile(`\bfor\s+([A-Za-z_][A-Za-z0-9_]*)(?:\s*,\s*([A-Za-z_][A-Za-z0-9_]*))?\s+in\b`)

// warnOfTextInModule warns of ${name} in a module that no variable replaces, and that Terraform rejects: it was probably written for an earlier version.
func warnOfTextInModule(spec *infrav1.WorkspaceTemplateSpec, path *field.Path) Findings {
	var findings Findings
	if !spec.HasLiteralModule() || !terraform.HasPlaceholder(spec.Template.Spec.ForProvider.Module) {
		return findings
	}
	module, _ := modules.Parse(spec.Template.Spec.ForProvider).Code()
	names := modules.PlaceholdersIn(module).Delete("true", "false", "null")
	for _, match := range iterator.FindAllStringSubmatch(module, -1) {
		names.Delete(match[1:]...)
	}
	for _, name := range sets.List(names) {
		findings.Warn(path, "${%[1]s} is not replaced, because spec.substitution is Fields, and Terraform has no such name. Declare a Terraform variable, set it in vars or varmap, and use var.%[1]s; or set spec.substitution to All", name)
	}
	return findings
}

// validateInputs checks spec.inputs: the names, the schemas, and the defaults.
func validateInputs(spec *infrav1.WorkspaceTemplateSpec, declared *modules.Declarations) Findings {
	var findings Findings
	path := field.NewPath("spec", "inputs")
	if len(spec.Inputs) > 0 && spec.PassVariables != infrav1.PassDeclared {
		findings.Warn(path, "has no effect, because spec.passVariables is not Declared. Set it to Declared, or remove the inputs")
	}
	set := modules.SetIn(spec.Template.Spec.ForProvider)
	for i := range spec.Inputs {
		input, path := &spec.Inputs[i], path.Index(i)
		if declared != nil && !declared.Incomplete && declared.Variables[input.Name] == nil {
			findings.Refuse(Invalid(path.Child("name"), "the module declares no variable %q. Declare the variable, or correct the spelling", input.Name))
		}
		if set.Has(input.Name) {
			findings.Warn(path.Child("name"), "has no effect: the template sets variable %q in forProvider. Remove one", input.Name)
		}
		if problem := modules.CheckInputSchema(input); problem != "" {
			findings.Refuse(Invalid(path.Child("schema"), "%s", problem))
		} else if problem := modules.CheckInputDefault(input, declared); problem != "" {
			findings.Refuse(Invalid(path.Child("default"), "%s. Correct the value", problem))
		}
	}
	return findings
}

// warnOfVariablesSetTwice warns of variables that are in both vars and varmap. Terraform uses only one of the two values.
func warnOfVariablesSetTwice(params terraform.WorkspaceParameters, path *field.Path) Findings {
	var findings Findings
	values := modules.VarMap(params)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.ContainsFunc(params.Vars, func(v terraform.Var) bool { return v.Key == name }) {
			findings.Warn(path.Child("varmap").Key(name), "is also in vars, and Terraform uses one of the two values. Remove one")
		}
	}
	return findings
}

// fluxModule matches the address of a Flux source: Kind::namespace/name.
var fluxModule = regexp.MustCompile(`^[A-Za-z]+::[^:/]+/[^/]+$`)

// validateSource checks the address of a module that is not inline.
func validateSource(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	module := path.Child("module")
	switch params.Source {
	case terraform.SourceRemote:
		if strings.TrimSpace(params.Module) == "" {
			return field.ErrorList{field.Required(module, "set the address of the module, as terraform init -from-module accepts it")}
		}
	case terraform.SourceFlux:
		// With a placeholder, the address is checked when it is rendered.
		if !terraform.HasPlaceholder(params.Module) && !fluxModule.MatchString(params.Module) {
			return field.ErrorList{field.Invalid(module, params.Module,
				"a Flux source has the form Kind::namespace/name, for example GitRepository::team/modules")}
		}
		if kind, _, _ := strings.Cut(params.Module, "::"); strings.EqualFold(kind, "Bucket") {
			return field.ErrorList{Invalid(module, "provider-terraform reads no Bucket. Use a GitRepository or an OCIRepository")}
		}
	case terraform.SourceInline:
	}
	return nil
}

// validateVarFiles checks that each file has the reference that its source requires: provider-terraform reads no other.
func validateVarFiles(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range params.VarFiles {
		file := &params.VarFiles[i]
		switch {
		case file.Source == "ConfigMapKey" && file.ConfigMapKeyRef == nil:
			errs = append(errs, field.Required(path.Child("varFiles").Index(i).Child("configMapKeyRef"),
				"source ConfigMapKey requires the name and the key of a ConfigMap"))
		case file.Source == "SecretKey" && file.SecretKeyRef == nil:
			errs = append(errs, field.Required(path.Child("varFiles").Index(i).Child("secretKeyRef"),
				"source SecretKey requires the name and the key of a Secret"))
		}
	}
	return errs
}

// validateProviderConfigKind checks the kind of the ProviderConfig, which only references in the namespaced scope have. A missing reference
// is valid in both scopes: the provider uses the ProviderConfig with the name "default".
func validateProviderConfigKind(spec *infrav1.WorkspaceTemplateSpec, path *field.Path) field.ErrorList {
	ref := spec.Template.Spec.ProviderConfigRef
	if ref == nil || ref.Kind == "" || spec.WorkspaceScope == terraform.ScopeCluster || terraform.HasPlaceholder(ref.Kind) {
		return nil
	}
	supported := []string{"ClusterProviderConfig", "ProviderConfig"}
	if slices.Contains(supported, ref.Kind) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path.Child("providerConfigRef", "kind"), ref.Kind, supported)}
}

// validateAllowedNamespaces checks names and selector of spec.allowedNamespaces.
func validateAllowedNamespaces(allowed infrav1.AllowedNamespaces) field.ErrorList {
	if !allowed.IsDefined() {
		return nil
	}
	path := field.NewPath("spec", "allowedNamespaces")
	var errs field.ErrorList
	for i, name := range allowed.Names {
		if name != "*" && len(utilvalidation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, field.Invalid(path.Child("names").Index(i), name,
				`is not a valid namespace name. Use a name, or "*" for all namespaces`))
		}
	}
	if allowed.Selector == nil {
		return errs
	}
	if _, err := metav1.LabelSelectorAsSelector(allowed.Selector); err != nil {
		errs = append(errs, Invalid(path.Child("selector"), "is not a valid label selector: %v. Correct the selector", err))
	}
	return errs
}

func warnOfFieldsWithoutEffect(spec *infrav1.WorkspaceTemplateSpec, path *field.Path) Findings {
	var findings Findings
	params := spec.Template.Spec.ForProvider
	// The provider writes an inline module into the parent of the entrypoint directory.
	if params.Source == terraform.SourceInline && pathpkg.Clean(params.Entrypoint) != "." {
		findings.Warn(path.Child("forProvider", "entrypoint"), "has no effect: an inline module is a single file. Remove the field")
	}
	if spec.WorkspaceScope != terraform.ScopeCluster && spec.Template.Spec.PublishConnectionDetailsTo != nil {
		findings.Warn(path.Child("publishConnectionDetailsTo"), "has no effect in scope Namespaced. Use writeConnectionSecretToRef")
	}
	return findings
}

// warnOfUnknownFields warns of fields that CAPT does not know and copies to the Workspace unchanged. A misspelled field is otherwise
// detected only when the API server rejects the first Workspace.
func warnOfUnknownFields(spec *terraform.WorkspaceSpec, path *field.Path) Findings {
	var findings Findings
	for _, level := range []struct {
		unknown terraform.UnknownFields
		path    *field.Path
	}{{spec.Unknown, path}, {spec.ForProvider.Unknown, path.Child("forProvider")}} {
		for _, name := range slices.Sorted(maps.Keys(level.unknown)) {
			findings.Warn(level.path.Child(name), "unknown field, passed to the Workspace unchecked. Verify the spelling, and that the installed provider-terraform supports the field")
		}
	}
	return findings
}

type reference struct {
	namespace, object string
	path              *field.Path
	// replaceable is true when the WorkspaceTemplateApply can override the reference.
	replaceable bool
	// anyScope is true when the namespace of the template is allowed in both scopes, not only in the cluster scope.
	anyScope bool
}

// references lists all references of a template that may have a namespace.
func references(spec *terraform.WorkspaceSpec, path *field.Path) []reference {
	var refs []reference
	for _, ref := range spec.References(path) {
		refs = append(refs, reference{namespace: *ref.Namespace, object: ref.Object, path: ref.Path.Child("namespace"), replaceable: ref.Connection})
	}
	if spec.ForProvider.Source == terraform.SourceFlux {
		_, address, _ := strings.Cut(spec.ForProvider.Module, "::")
		if namespace, object, found := strings.Cut(address, "/"); found {
			refs = append(refs, reference{namespace: namespace, object: object, path: path.Child("forProvider", "module"), anyScope: true})
		}
	}
	return refs
}

// validateReferences checks the namespaces of references to other objects. A reference is limited to the namespace of the
// WorkspaceTemplateApply; in the cluster scope, one without placeholders may also be in the namespace of the template. So a reference to
// any other namespace works only for WorkspaceTemplateApplies in that namespace: it is a warning if the template allows that namespace, and
// an error if not.
func validateReferences(template *infrav1.WorkspaceTemplate, path *field.Path) Findings {
	var findings Findings
	shared := template.Spec.AllowedNamespaces.IsDefined()
	for _, ref := range references(&template.Spec.Template.Spec, path) {
		own := ref.namespace == template.Namespace
		switch {
		case ref.namespace == "", terraform.HasPlaceholder(ref.namespace):
		case own && (!shared || isOwnNamespaceAllowed(template, ref)):
		case ref.replaceable:
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s and for those with their own writeConnectionSecretToRef. Remove the namespace", ref.namespace)
		case own, mayUse(template, ref.namespace):
			findings.Warn(ref.path, "only works for WorkspaceTemplateApplies in namespace %s. Remove the namespace, or set it with a variable", ref.namespace)
		default:
			findings.Refuse(Forbidden(ref.path, "refers to namespace %s, which the template does not allow: a reference is limited to the namespace of the WorkspaceTemplateApply%s. Remove the namespace, or add it to spec.allowedNamespaces",
				ref.namespace, ownNamespaceText(template, ref)))
		}
	}
	return findings
}

// isOwnNamespaceAllowed reports whether WorkspaceTemplateApplies in other namespaces may use a reference to the namespace of the template.
// Such a reference must not have a placeholder: with a variable, users could read any object in that namespace.
func isOwnNamespaceAllowed(template *infrav1.WorkspaceTemplate, ref reference) bool {
	return (ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster) && !terraform.HasPlaceholder(ref.object)
}

// ownNamespaceText returns the part of a message for references that may also be in the namespace of the template; else empty.
func ownNamespaceText(template *infrav1.WorkspaceTemplate, ref reference) string {
	if ref.anyScope || template.Spec.WorkspaceScope == terraform.ScopeCluster {
		return ", or to the namespace of the template"
	}
	return ""
}

// mayUse reports whether a template can be used from a namespace, now or later: a selector may select any namespace, because labels can
// change.
func mayUse(template *infrav1.WorkspaceTemplate, namespace string) bool {
	allowed := template.Spec.AllowedNamespaces
	return allowed.IsDefined() && (slices.Contains(allowed.Names, namespace) || slices.Contains(allowed.Names, "*") || allowed.Selector != nil)
}

// validateRollout checks spec.rollout and the annotations for it. An annotation with another revision is a warning: with GitOps, the commit
// that approves a revision may be applied before the one that has it.
func validateRollout(template *infrav1.WorkspaceTemplate) Findings {
	var findings Findings
	policy, path := template.Spec.Rollout, field.NewPath("spec", "rollout")
	findings.Refuse(validatePolicy(policy, path)...)
	if policy.Strategy == infrav1.RolloutImmediate && !reflect.DeepEqual(policy, infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutImmediate}) {
		findings.Warn(path.Child("strategy"), "is Immediate, so the other fields of spec.rollout have no effect. Set it to Staged")
	}
	for _, annotation := range []string{naming.ApproveAnnotation, naming.ApproveDestroyAnnotation, naming.ResumeAnnotation} {
		named := template.Annotations[annotation]
		if !policy.IsStaged() || named == "" {
			continue
		}
		if revision := rollout.HashOf(template); named != revision {
			findings.Warn(field.NewPath("metadata", "annotations").Key(annotation), "is %s, and has no effect: the revision of the current content is %s. Set the annotation to that revision", named, revision)
		}
	}
	return findings
}

func validatePolicy(policy infrav1.WorkspaceTemplateRollout, path *field.Path) field.ErrorList {
	errs := validateCanaries(policy.Canary, path.Child("canary"))
	if a := policy.Approval; (a == infrav1.RolloutApprovalOnChanges || a == infrav1.RolloutApprovalOnDestroy) && policy.Preview != infrav1.RolloutPreviewAlways {
		errs = append(errs, Invalid(path.Child("approval"), "is %s, which requires previews. Set %s to Always", a, path.Child("preview")))
	}
	return errs
}

// ParseDefaultRollout returns the policy in the value of --default-rollout: the fields of spec.rollout, as YAML or JSON. It checks what the schema
// checks in a template. The state is not part of a default: it would pause the rollouts of all templates.
func ParseDefaultRollout(text string) (policy infrav1.WorkspaceTemplateRollout, err error) {
	if text == "" {
		return policy, nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
		return policy, fmt.Errorf("must have the fields of spec.rollout of a WorkspaceTemplate, as YAML or JSON: %w", err)
	}
	path := field.NewPath("rollout")
	errs := validatePolicy(policy, path)
	for _, of := range []struct {
		field, value string
		allowed      []string
	}{
		{"strategy", string(policy.Strategy), []string{string(infrav1.RolloutImmediate), string(infrav1.RolloutStaged)}},
		{"preview", string(policy.Preview), []string{"", string(infrav1.RolloutPreviewNever), string(infrav1.RolloutPreviewAlways)}},
		{"approval", string(policy.Approval), []string{"", string(infrav1.RolloutApprovalNone), string(infrav1.RolloutApprovalOnDestroy), string(infrav1.RolloutApprovalOnChanges), string(infrav1.RolloutApprovalAlways)}},
		{"onFailure", string(policy.OnFailure), []string{"", string(infrav1.RolloutFailureStop), string(infrav1.RolloutFailureContinue)}},
		{"state", string(policy.State), []string{""}},
	} {
		if !slices.Contains(of.allowed, of.value) {
			errs = append(errs, field.NotSupported(path.Child(of.field), of.value, of.allowed))
		}
	}
	for name, value := range map[string]int32{"maxConcurrent": policy.MaxConcurrent, "canary.count": policy.Canary.Count, "canary.soakSeconds": policy.Canary.SoakSeconds} {
		if value < 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, "must not be negative"))
		}
	}
	return policy, errs.ToAggregate()
}

func validateCanaries(canaries infrav1.RolloutCanaries, path *field.Path) (errs field.ErrorList) {
	if _, err := metav1.LabelSelectorAsSelector(canaries.Selector); err != nil {
		errs = append(errs, Invalid(path.Child("selector"), "is not a valid label selector: %v. Correct the selector", err))
	}
	if !canaries.IsDefined() && canaries.SoakSeconds > 0 {
		errs = append(errs, Invalid(path, "selects no user, so soakSeconds has no effect. Set selector or count, or remove soakSeconds"))
	}
	return errs
}

// validateWorkspaceTemplateUpdate refuses an update that removes the policy of a staged rollout, for example with a manifest that lacks it, if that could let a
// content reach all users at once. Strategy Immediate does that on purpose.
func validateWorkspaceTemplateUpdate(old, template *infrav1.WorkspaceTemplate) (errs field.ErrorList) {
	removed := old.Spec.Rollout.IsStaged() && template.Spec.Rollout.Strategy == ""
	if removed && (rollout.HashOf(old) != rollout.HashOf(template) || isRollingOut(old)) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "rollout"),
			"cannot be removed together with a change of the content, or before its rollout is complete: it could reach all users at once. Keep the policy, or set spec.rollout.strategy to Immediate to update all users at once"))
	}
	return errs
}

// isRollingOut reports whether users of a template with a staged rollout may still have another revision.
func isRollingOut(template *infrav1.WorkspaceTemplate) bool {
	status := template.Status.Rollout
	return status.Stage != "" && (status.Stage != infrav1.RolloutComplete || status.Revision != rollout.HashOf(template))
}

// workspaceTemplateUpdateWarnings warns of a template update that reaches existing Workspaces: Terraform runs in each of them, or, if the update changes the
// ProviderConfig, none of them gets it. It is not an error, because the change may be intended, in the second case for new
// WorkspaceTemplateApplies.
func workspaceTemplateUpdateWarnings(ctx context.Context, reader Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	before, after := old.Spec.Template.Spec, template.Spec.Template.Spec
	released := isRollingOut(old) && template.Spec.Rollout.Strategy == infrav1.RolloutImmediate
	warnings, err := lostRestrictions(ctx, reader, old, template)
	same := equality.Semantic.DeepEqual(before, after) && rollout.HashOf(old) == rollout.HashOf(template)
	if err != nil || same && !released { // Other fields are not rendered.
		return warnings, err
	}
	users, err := reader.UsersOf(ctx, naming.KeyOf(template))
	if err != nil || users.Applies == 0 {
		return warnings, err
	}
	if !equality.Semantic.DeepEqual(before.ProviderConfigRef, after.ProviderConfigRef) {
		return append(warnings, fmt.Sprintf(
			"spec.template.spec.providerConfigRef: %s: existing Workspaces keep their ProviderConfig, and get no update of this template until annotation %s of the WorkspaceTemplateApply names the new one",
			users, naming.AllowProviderConfigAnnotation)), nil
	}
	warnings = append(warnings, lostOutputs(old, template)...)
	if template.RolloutPolicy().IsStaged() {
		return append(warnings, stagedWarning(template, users)), nil
	}
	return append(warnings, fmt.Sprintf(
		"spec.template.spec: %s: existing Workspaces are rendered again, and Terraform applies what changes. captctl diff -f shows the changes of a file before it is applied", users)), nil
}

// lostOutputs warns of outputs without which a VPC or a control plane is not Ready, and of those that others read from the connection Secret.
func lostOutputs(old, template *infrav1.WorkspaceTemplate) (warnings []string) {
	before, after := modules.OutputsOf(old), modules.OutputsOf(template)
	const stays = "and the connection Secrets of existing Workspaces keep its last value, which nothing updates"
	for _, lost := range []struct{ output, effect string }{
		{terraform.OutputVPCID, "without which users of the template are not Ready"}, {terraform.OutputClusterEndpoint, "without which users of the template are not Ready"},
		{terraform.OutputKubeconfig, stays}, {terraform.OutputClusterCA, stays}, {terraform.OutputVPCConfig, stays},
	} {
		_, had := before[lost.output]
		if _, has := after[lost.output]; had && !has && after != nil {
			warnings = append(warnings, fmt.Sprintf("spec.template.spec.forProvider.module: the module no longer has the output %q, %s. Keep the output", lost.output, lost.effect))
		}
	}
	return warnings
}

// stagedWarning describes how an update reaches users in stages.
func stagedWarning(template *infrav1.WorkspaceTemplate, users Users) string {
	revision := rollout.HashOf(template)
	warning := fmt.Sprintf("spec.template.spec: %s: existing Workspaces are updated to revision %s in stages, as the rollout policy of the template requires. status.rollout shows the progress",
		users, terraform.ShortRevision(revision))
	switch template.RolloutPolicy().Approval {
	case infrav1.RolloutApprovalAlways:
		warning += fmt.Sprintf(". To start the rollout, set annotation %s to %s", naming.ApproveAnnotation, revision)
	case infrav1.RolloutApprovalOnChanges:
		warning += fmt.Sprintf(". Those for which Terraform would change something are updated when annotation %s is %s", naming.ApproveAnnotation, revision)
	case infrav1.RolloutApprovalOnDestroy:
		warning += fmt.Sprintf(". Those for which Terraform would replace or delete a resource are updated when annotations %s and %s are %s", naming.ApproveAnnotation, naming.ApproveDestroyAnnotation, revision)
	case infrav1.RolloutApprovalNone:
	}
	return warning
}

// PlannedTemplate returns a template as it would be with the content of a PlanRequest. stored is nil if it does not exist.
func PlannedTemplate(request *infrav1.PlanRequest, stored *infrav1.WorkspaceTemplate) *infrav1.WorkspaceTemplate {
	key := request.TemplateKey()
	planned := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	request.Spec.Template.Spec.DeepCopyInto(&planned.Spec)
	if stored == nil {
		SetTemplateDefaults(planned)
		return planned
	}
	planned.ObjectMeta, planned.Status = *stored.ObjectMeta.DeepCopy(), *stored.Status.DeepCopy()
	RestoreFields(stored, planned)
	return planned
}

// ValidatePlanRequest checks the content of a PlanRequest as if it was written to the template. The policy of rollouts does not matter: nothing is applied.
func ValidatePlanRequest(ctx context.Context, reader Reader, request *infrav1.PlanRequest) (findings Findings, err error) {
	key := request.TemplateKey()
	if key.Name == "" {
		return findings, nil
	}
	stored, err := Get[*infrav1.WorkspaceTemplate](ctx, reader, key)
	if err != nil {
		return findings, err
	}
	path := field.NewPath("spec", "template")
	planned := PlannedTemplate(request, stored)
	found := ValidateWorkspaceTemplate(planned)
	if stored != nil {
		permitting := *planned
		permitting.Spec.AllowedNamespaces = stored.Spec.AllowedNamespaces // The content must not disclose who else refers to the template.
		lost, err := lostRestrictions(ctx, reader, stored, &permitting)
		if err != nil {
			return findings, err
		}
		found.Warnings = slices.Concat(found.Warnings, lost, lostOutputs(stored, planned))
	}
	for _, e := range found.Errors {
		e.Field = path.String() + "." + e.Field
	}
	findings.Refuse(found.Errors...)
	for _, warning := range found.Warnings {
		if strings.HasPrefix(warning, "spec.") { // Annotations are those of the stored template.
			findings.Warnings = append(findings.Warnings, path.String()+"."+warning)
		}
	}
	switch {
	case stored == nil:
		findings.Warn(path.Child("name"), "WorkspaceTemplate %s does not exist, so it has no users, and nothing is planned. captctl validate and captctl template render check the file of a new template", key)
	case stored.Spec.WorkspaceScope.OrDefault() != planned.Spec.WorkspaceScope.OrDefault():
		findings.Refuse(Forbidden(path.Child("spec", "workspaceScope"), "is immutable: WorkspaceTemplate %s has scope %s. Create another WorkspaceTemplate", key, stored.Spec.WorkspaceScope.OrDefault()))
	}
	return findings, nil
}
