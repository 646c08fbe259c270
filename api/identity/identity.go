// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity lists the fields that determine which cloud resources an object has, and what is applied to them. Admission, the policy
// capt-written-once and its tests use this list. The records in status are not part of it: users cannot write status, and conversion takes no status
// from annotations (webhooks/conversion/preserve).
package identity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Field is a field of an object that is part of its identity.
type Field struct {
	// Path of the field.
	Path *field.Path
	// Value points to the field; empty means absent.
	Value *string
	// Assigned is true if only CAPT may set the field, to any value; users may remove it. The other fields can be set once, by anyone who can write
	// the object. Only captctl migrate may remove them, to roll back an adoption.
	Assigned bool
}

// Of returns the fields of an object. The fields of a Fargate profile exist as long as the profile does.
func Of(object metav1.Object) []Field {
	spec := field.NewPath("spec")
	reference := func(path *field.Path, ref *infrav1.WorkspaceTemplateApplyReference) Field {
		return Field{Path: path.Child("workspaceTemplateApplyRef", "name"), Value: &ref.Name}
	}
	switch o := object.(type) {
	case *infrav1.CAPTCluster:
		return []Field{reference(spec, &o.Spec.WorkspaceTemplateApplyRef)}
	case *controlplanev1.CAPTControlPlane:
		fields := []Field{reference(spec, &o.Spec.WorkspaceTemplateApplyRef)}
		for i := range o.Spec.FargateProfiles {
			profile := &o.Spec.FargateProfiles[i]
			fields = append(fields, reference(spec.Child("fargateProfiles").Key(profile.Name), &profile.WorkspaceTemplateApplyRef))
		}
		return fields
	case *infrav1.WorkspaceTemplateApply:
		return []Field{
			{Path: spec.Child("workspaceName"), Value: &o.Spec.WorkspaceName},
			{Path: spec.Child("templateRevision"), Value: &o.Spec.TemplateRevision, Assigned: true},
		}
	}
	return nil
}

// Keep restores the fields that an update omits, for example when a manifest without them replaces the object. A field that CAPT assigns may be
// removed.
func Keep(old, object metav1.Object) {
	before := byPath(old)
	for _, f := range Of(object) {
		if *f.Value == "" && !f.Assigned {
			*f.Value = before[f.Path.String()]
		}
	}
}

// Assigned returns the fields that only CAPT may assign, and that an update sets to another value. The old object of a new one is empty.
func Assigned(old, object metav1.Object) []Field {
	before := byPath(old)
	var found []Field
	for _, f := range Of(object) {
		if f.Assigned && *f.Value != "" && *f.Value != before[f.Path.String()] {
			found = append(found, f)
		}
	}
	return found
}

func byPath(object metav1.Object) map[string]string {
	values := map[string]string{}
	for _, f := range Of(object) {
		values[f.Path.String()] = *f.Value
	}
	return values
}
