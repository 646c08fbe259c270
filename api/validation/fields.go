// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// checkFields checks the fields of an object against the template that it refers to. It ignores a template that does not exist or does not allow the
// namespace, which TemplateReference reports.
func (t templates) checkFields(ctx context.Context, ref infrav1.WorkspaceTemplateReference, fields []TypedField) (findings Findings, err error) {
	template, err := PermittedTemplate(ctx, t.Reader, ref.Key(t.namespace), t.namespace)
	if err != nil || template == nil {
		return findings, err
	}
	restricting, others := FieldsWithoutEffect(template, fields)
	findings.Refuse(restricting...)
	findings.AddWarnings(others)
	return t.relaxed(findings), nil
}

// checkControlPlaneFields checks the fields of a control plane. For a control plane that already exists in AWS, for example after a move or an adoption,
// it only warns; validateCAPTControlPlaneUpdate rejects what an update adds.
func checkControlPlaneFields(ctx context.Context, of templates, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	if err := findings.include(of.checkFields(ctx, controlPlane.Spec.WorkspaceTemplateRef, ControlPlaneFields(controlPlane))); err != nil {
		return findings, err
	}
	exists, err := mayExist(ctx, of.Reader, controlPlane)
	if exists {
		findings.DowngradeToWarnings()
	}
	return findings, err
}

// mayExist reports whether the EKS cluster of a control plane may exist: the endpoint is known, or a Workspace is recorded.
func mayExist(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (bool, error) {
	if controlPlane.Spec.ControlPlaneEndpoint.Host != "" || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return true, nil
	}
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	return apply != nil && RecordedWorkspace(apply) != "", err
}

// validateCAPTControlPlaneUpdate rejects an update of a control plane that exists in AWS if afterwards a field that restricts access has no
// effect, and the update caused this: it sets the field, or it refers to a template that does not consume the field.
func validateCAPTControlPlaneUpdate(ctx context.Context, reader Reader, old, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	if exists, err := mayExist(ctx, reader, controlPlane); err != nil || !exists {
		return nil, err // checkControlPlaneFields rejects the object.
	}
	of := templates{Reader: reader, namespace: controlPlane.Namespace}
	after, err := of.checkFields(ctx, controlPlane.Spec.WorkspaceTemplateRef, ControlPlaneFields(controlPlane))
	if err != nil || len(after.Errors) == 0 {
		return nil, err
	}
	if reproduces, err := reproducesWorkspace(ctx, reader, old, controlPlane); err != nil || !reproduces {
		return after.Errors, err
	}
	before, err := of.checkFields(ctx, old.Spec.WorkspaceTemplateRef, ControlPlaneFields(old))
	return slices.DeleteFunc(after.Errors, func(e *field.Error) bool {
		return slices.ContainsFunc(before.Errors, func(b *field.Error) bool { // The message names the template.
			return b.Field == e.Field && equality.Semantic.DeepEqual(b.BadValue, e.BadValue)
		})
	}), err
}

// reproducesWorkspace reports whether an update of the template reference does not change the Workspace: the template is the same, or
// captctl migrate created the new one to reproduce the Workspace.
func reproducesWorkspace(ctx context.Context, reader Reader, old, controlPlane *controlplanev1.CAPTControlPlane) (bool, error) {
	key := controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace)
	if key == old.Spec.WorkspaceTemplateRef.Key(old.Namespace) {
		return true, nil
	}
	template, err := PermittedTemplate(ctx, reader, key, controlPlane.Namespace)
	return template != nil && template.Labels[naming.PinnedLabel] == "true", err
}

// lostRestrictions warns of a template update after which fields of control planes that restrict access have no effect.
func lostRestrictions(ctx context.Context, reader Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	users, err := reader.ControlPlanesOfTemplate(ctx, naming.KeyOf(template))
	if err != nil {
		return nil, err
	}
	var affected []string
	for i := range users {
		permitted, err := PermitsNamespace(template, users[i].Namespace, func() (labels.Set, error) {
			return reader.NamespaceLabels(ctx, users[i].Namespace)
		})
		if err != nil {
			return nil, err
		}
		fields := slices.DeleteFunc(ControlPlaneFields(&users[i]), func(f TypedField) bool { return !f.Restricts })
		before, _ := FieldsWithoutEffect(old, fields)
		after, _ := FieldsWithoutEffect(template, fields)
		if permitted && len(after) > len(before) {
			affected = append(affected, fmt.Sprintf("%s (%s)", naming.KeyOf(&users[i]), after[len(after)-1].Field))
		}
	}
	if len(affected) == 0 {
		return nil, nil
	}
	var findings Findings
	slices.Sort(affected)
	findings.Warn(field.NewPath("spec", "template", "spec", "forProvider"),
		"after this update, the API servers of %d CAPTControlPlanes will be reachable from more networks than specified: the template no longer uses the placeholder of a field, for example %s. Restore the placeholder",
		len(affected), affected[0])
	return findings.Warnings, nil
}

// FieldsWithoutEffect lists the fields that have no effect with a template: those that restrict access, and the others.
func FieldsWithoutEffect(template *infrav1.WorkspaceTemplate, fields []TypedField) (restricting, others field.ErrorList) {
	if len(fields) == 0 {
		return nil, nil
	}
	anywhere := UsedVariables(template)
	inEffect := effectiveVariables(&template.Spec, modules.TemplateInterface(&template.Spec).Names())
	for i := range fields {
		f, used := &fields[i], anywhere
		if f.Restricts {
			used = inEffect
		}
		switch {
		case used.Has(f.Placeholder), len(f.Alternatives) > 0 && used.HasAll(f.Alternatives...):
		case f.Variable && template.Spec.PassVariables == infrav1.PassDeclared:
			restricting = append(restricting, field.TypeInvalid(f.Path, field.OmitValueType{}, "has no effect: "+f.notPassedMessage(template)+", or correct the spelling of the variable"))
		case f.Variable:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, fmt.Sprintf("has no effect: WorkspaceTemplate %s/%s has no placeholder ${%s}. Correct the spelling, or remove the variable", template.Namespace, template.Name, f.Placeholder)))
		case f.Restricts:
			restricting = append(restricting, field.Invalid(f.Path, f.Value, "the API server would be reachable from more networks than specified: the field "+f.noEffectMessage(template)+", or unset the field"))
		case f.AtCreation:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, fmt.Sprintf("has no effect: WorkspaceTemplate %s/%s does not use the variable %s, and the network of an EKS cluster cannot be changed. "+
				"Unset the field, or create a new Cluster with a template that uses the variable", template.Namespace, template.Name, f.Placeholder)))
		case f.Required:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, f.noEffectMessage(template)))
		default:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, f.noEffectMessage(template)+", or unset the field"))
		}
	}
	return restricting, others
}

// UsedVariables returns the placeholders of a template, and the variables that it passes.
func UsedVariables(template *infrav1.WorkspaceTemplate) sets.Set[string] {
	used, _ := modules.Placeholders(&template.Spec)
	return used.Union(modules.TemplateInterface(&template.Spec).Names())
}

func (f *TypedField) noEffectMessage(template *infrav1.WorkspaceTemplate) string {
	return "has no effect: " + f.notPassedMessage(template)
}

// notPassedMessage says why a template does not pass a variable, and what to do.
func (f *TypedField) notPassedMessage(template *infrav1.WorkspaceTemplate) string {
	format := "WorkspaceTemplate %s/%s does not pass ${%s} to its module. Add the placeholder to forProvider.vars"
	spec := template.Spec.DeepCopy()
	spec.Template.Spec.ForProvider.Module = "" // There may be comments about it.
	placeholders, _ := modules.Placeholders(spec)
	switch {
	case template.Spec.PassVariables != infrav1.PassDeclared && placeholders.Has(f.Placeholder):
		format = "the module of WorkspaceTemplate %s/%s does not use the variable that gets ${%s}. Use it in the module"
	case template.Spec.PassVariables != infrav1.PassDeclared:
	case template.Spec.Template.Spec.ForProvider.Source == terraform.SourceInline:
		format = "the module of WorkspaceTemplate %s/%s declares no variable %s, or does not use it. Declare and use it in the module"
	default:
		format = "WorkspaceTemplate %s/%s passes no variable %s to its module. Add it to spec.inputs"
	}
	return fmt.Sprintf(format, template.Namespace, template.Name, f.Placeholder)
}

// effectiveVariables returns the placeholders, and those of the passed variables, that can have an effect on resources. For an inline module,
// placeholders in comments do not count, nor does a Terraform variable that the module does not use.
func effectiveVariables(spec *infrav1.WorkspaceTemplateSpec, passed sets.Set[string]) sets.Set[string] {
	spec = spec.DeepCopy()
	params := &spec.Template.Spec.ForProvider
	if params.Source == terraform.SourceInline {
		var known sets.Set[string]
		params.Module, known = modules.Parse(*params).Code()
		unused := func(key string) bool { return !known.Has(key) && !terraform.HasPlaceholder(key) }
		params.Vars = slices.DeleteFunc(params.Vars, func(v terraform.Var) bool { return unused(v.Key) })
		params.VarMap = deleteUnused(modules.VarMap(*params), unused)
		passed = passed.Intersection(known)
	}
	used, _ := modules.Placeholders(spec)
	return used.Union(passed)
}

// deleteUnused deletes the values whose keys are unused, and returns the others as JSON.
func deleteUnused(values map[string]json.RawMessage, unused func(string) bool) *apiextensionsv1.JSON {
	for key := range values {
		if unused(key) {
			delete(values, key)
		}
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil // Cannot happen: the values were decoded from JSON.
	}
	return &apiextensionsv1.JSON{Raw: data}
}

// TypedField is a field that a user has set and that reaches Terraform only through a placeholder of the template.
type TypedField struct {
	Path  *field.Path
	Value any
	// Placeholder is the placeholder that consumes the field. Alternatives also consume it, if the template has all of them.
	Placeholder  string
	Alternatives []string
	// Restricts is true if the field restricts access: if it had no effect, the API server would be reachable from more networks than
	// specified.
	Restricts bool
	// Required is true for fields that cannot be unset.
	Required bool
	// Variable is true for a variable of the user.
	Variable bool
	// AtCreation is true for a field that CAPT passes only to new EKS clusters.
	AtCreation bool
}

func in(names []string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// variableFields returns the variables of a user, without those that CAPT sets, as typed fields.
func variableFields(variables infrav1.Variables, path *field.Path, isSetByCAPT func(name string) bool) (fields []TypedField) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if name != naming.ProfileVariable && name != modules.WorkspaceNameVariable && !isSetByCAPT(name) && modules.VariableName.MatchString(name) {
			fields = append(fields, TypedField{Path: path.Key(name), Placeholder: name, Variable: true})
		}
	}
	return fields
}

// NetworkFields returns the typed fields of a Cluster: EKS has the network of services only.
func NetworkFields(cluster *clusterv1.Cluster) []TypedField {
	if cluster == nil || len(cluster.Spec.ClusterNetwork.Services.CIDRBlocks) == 0 {
		return nil
	}
	return []TypedField{{Path: field.NewPath("Cluster.spec.clusterNetwork.services.cidrBlocks"), Placeholder: naming.ServiceCIDRVariable, AtCreation: true}}
}

// ControlPlaneFields returns the typed fields that the user of a CAPTControlPlane has set and that its own template should consume.
func ControlPlaneFields(controlPlane *controlplanev1.CAPTControlPlane) []TypedField {
	version := TypedField{Path: field.NewPath("spec", "version"), Value: controlPlane.Spec.Version, Placeholder: naming.VersionVariable, Required: true}
	return append([]TypedField{version}, commonFields(&controlPlane.Spec.CAPTControlPlaneTemplateResourceSpec, field.NewPath("spec"))...)
}

// commonFields returns the typed fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common. Fields with their default
// value are left out, because the API server may have set them.
func commonFields(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) []TypedField {
	var fields []TypedField
	if spec.Region != "" {
		fields = append(fields, TypedField{Path: path.Child("region"), Value: spec.Region, Placeholder: naming.RegionVariable})
	}
	if spec.EKSClusterName != "" {
		fields = append(fields, TypedField{Path: path.Child("eksClusterName"), Value: spec.EKSClusterName, Placeholder: naming.ClusterVariable})
	}
	access, accessPath := ptr.Deref(spec.EndpointAccess, controlplanev1.EndpointAccess{}), path.Child("endpointAccess")
	if !access.HasPublic() {
		fields = append(fields, TypedField{Path: accessPath.Child("public"), Value: false, Placeholder: naming.PublicAccessVariable, Restricts: true})
	}
	if access.HasPrivate() { // Private access adds a way to the API server, so it is not a restriction.
		fields = append(fields, TypedField{Path: accessPath.Child("private"), Value: true, Placeholder: naming.PrivateAccessVariable})
	}
	if len(access.PublicCIDRs) > 0 {
		fields = append(fields, TypedField{Path: accessPath.Child("publicCIDRs"), Value: access.PublicCIDRs, Placeholder: naming.PublicAccessCIDRsVariable, Restricts: true})
	}
	if len(spec.Addons) > 0 {
		fields = append(fields, TypedField{Path: path.Child("addons"), Placeholder: naming.AddonsVariable})
	}
	if len(spec.AdditionalTags) > 0 {
		tagged := TypedField{Path: path.Child("additionalTags"), Placeholder: naming.TagsVariable}
		for key := range spec.AdditionalTags {
			tagged.Alternatives = append(tagged.Alternatives, naming.TagPrefix+key)
		}
		fields = append(fields, tagged)
	}
	return append(fields, variableFields(spec.Variables, path.Child("variables"), in(ControlPlaneVariables(spec.AdditionalTags)))...)
}

// FargateFields returns the typed fields of a Fargate profile that its template should consume.
func FargateFields(path *field.Path) []TypedField {
	return []TypedField{
		{Path: path.Child("name"), Placeholder: naming.ProfileVariable, Required: true},
		{Path: path.Child("selectors"), Placeholder: naming.SelectorsVariable, Required: true},
	}
}

// MachinePoolFields returns the typed fields that the user of a CAPTMachinePool has set and that its template should consume.
func MachinePoolFields(spec *infrav1.CAPTMachinePoolTemplateResourceSpec, path *field.Path) (fields []TypedField) {
	if spec.Scaling.MinSize != nil {
		fields = append(fields, TypedField{Path: path.Child("scaling", "minSize"), Placeholder: naming.MinSizeVariable})
	}
	if spec.Scaling.MaxSize != nil {
		fields = append(fields, TypedField{Path: path.Child("scaling", "maxSize"), Placeholder: naming.MaxSizeVariable})
	}
	return append(fields, variableFields(spec.Variables, path.Child("variables"), in(MachinePoolVariables()))...)
}

// FieldsOfMachinePool returns the typed fields of a MachinePool, which may be nil, that the template of its node group should consume.
func FieldsOfMachinePool(machinePool *clusterv1.MachinePool) (fields []TypedField) {
	if machinePool == nil {
		return nil
	}
	path := field.NewPath("MachinePool.spec")
	if machinePool.Spec.Replicas != nil {
		fields = append(fields, TypedField{Path: path.Child("replicas"), Placeholder: naming.DesiredSizeVariable, Required: true})
	}
	if machinePool.Spec.Template.Spec.Version != "" {
		fields = append(fields, TypedField{Path: path.Child("template", "spec", "version"), Placeholder: naming.VersionVariable})
	}
	return fields
}

// VPCFields returns the typed fields that the user of a CAPTCluster has set and that the template of its VPC should consume.
func VPCFields(spec *infrav1.CAPTClusterTemplateResourceSpec, path *field.Path) []TypedField {
	fields := []TypedField{{Path: path.Child("region"), Value: spec.Region, Placeholder: naming.RegionVariable, Required: true}}
	if spec.VPC.Template.IsDefined() && spec.VPC.Template.Name != "" {
		fields = append(fields, TypedField{Path: path.Child("vpc", "template", "name"), Value: spec.VPC.Template.Name, Placeholder: naming.VPCVariable})
	}
	return append(fields, variableFields(spec.VPC.Template.Variables, path.Child("vpc", "template", "variables"), in(VPCVariables()))...)
}
