// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package consumption

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

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
}

// ControlPlaneFields returns the typed fields that the user of a CAPTControlPlane has set and that its own template should consume.
func ControlPlaneFields(controlPlane *controlplanev1.CAPTControlPlane) []TypedField {
	version := TypedField{Path: field.NewPath("spec", "version"), Value: controlPlane.Spec.Version, Placeholder: naming.VersionVariable, Required: true}
	return append([]TypedField{version}, CommonFields(&controlPlane.Spec.CAPTControlPlaneTemplateResourceSpec, field.NewPath("spec"))...)
}

// CommonFields returns the typed fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common. Fields with their default
// value are left out, because the API server may have set them.
func CommonFields(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) []TypedField {
	var fields []TypedField
	if spec.Region != "" {
		fields = append(fields, TypedField{Path: path.Child("region"), Value: spec.Region, Placeholder: naming.RegionVariable})
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
	return fields
}

// FargateFields returns the typed fields of a Fargate profile that its template should consume.
func FargateFields(path *field.Path) []TypedField {
	return []TypedField{
		{Path: path.Child("name"), Placeholder: naming.ProfileVariable, Required: true},
		{Path: path.Child("selectors"), Placeholder: naming.SelectorsVariable, Required: true},
	}
}

// VPCFields returns the typed fields that the user of a CAPTCluster has set and that the template of its VPC should consume.
func VPCFields(spec *infrav1.CAPTClusterTemplateResourceSpec, path *field.Path) []TypedField {
	fields := []TypedField{{Path: path.Child("region"), Value: spec.Region, Placeholder: naming.RegionVariable, Required: true}}
	if spec.VPC.Template.IsDefined() && spec.VPC.Template.Name != "" {
		fields = append(fields, TypedField{Path: path.Child("vpc", "template", "name"), Value: spec.VPC.Template.Name, Placeholder: naming.VPCVariable})
	}
	return fields
}

// RestrictsAccess reports whether any of the fields restricts access.
func RestrictsAccess(fields []TypedField) bool {
	return slices.ContainsFunc(fields, func(f TypedField) bool { return f.Restricts })
}
