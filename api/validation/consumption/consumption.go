// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package consumption has the rules for fields that have no effect. A typed field, for example spec.version, reaches Terraform only if the
// WorkspaceTemplate has the placeholder of the field. Such a template consumes the field.
package consumption

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
)

// CheckFields checks the fields of an object in a namespace against the template that it refers to. It ignores a template that does not
// exist or does not allow the namespace, which validation.TemplateReference reports.
func CheckFields(ctx context.Context, reader validation.Reader, ref infrav1.WorkspaceTemplateReference, namespace string, fields []TypedField) (validation.Findings, error) {
	var findings validation.Findings
	template, permitted, err := validation.PermittedTemplate(ctx, reader, ref.Key(namespace), namespace)
	if err != nil || !permitted {
		return findings, err
	}
	restricting, others := Unconsumed(template, fields)
	findings.Refuse(restricting...)
	findings.AddWarnings(others)
	return findings, nil
}

// CheckControlPlane checks the fields of a control plane and of its Fargate profiles. For a control plane that already exists in AWS, for
// example after a move or an adoption, it only warns; ValidateCAPTControlPlaneUpdate rejects what an update adds.
func CheckControlPlane(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (validation.Findings, error) {
	findings, err := CheckFields(ctx, reader, controlPlane.Spec.WorkspaceTemplateRef, controlPlane.Namespace, ControlPlaneFields(controlPlane))
	if err != nil {
		return findings, err
	}
	exists, err := mayExist(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	if exists {
		findings.DowngradeToWarnings()
	}
	profiles, err := CheckFargateProfiles(ctx, reader, controlPlane.Spec.FargateProfiles, controlPlane.Namespace, field.NewPath("spec", "fargateProfiles"))
	findings.Add(profiles)
	return findings, err
}

// CheckFargateProfiles checks the fields of Fargate profiles.
func CheckFargateProfiles(ctx context.Context, reader validation.Reader, profiles []controlplanev1.FargateProfile, namespace string, path *field.Path) (validation.Findings, error) {
	var findings validation.Findings
	for i := range profiles {
		found, err := CheckFields(ctx, reader, profiles[i].WorkspaceTemplateRef, namespace, FargateFields(path.Index(i)))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
	}
	return findings, nil
}

// mayExist reports whether the EKS cluster of a control plane may exist: the endpoint is known, or a Workspace is recorded.
func mayExist(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (bool, error) {
	if controlPlane.Spec.ControlPlaneEndpoint.Host != "" || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return true, nil
	}
	apply, err := validation.ApplyInUse(ctx, reader, controlPlane)
	return apply != nil && applies.RecordedWorkspace(apply) != "", err
}

// ValidateCAPTControlPlaneUpdate rejects an update of a control plane that exists in AWS if afterwards a field that restricts access has no
// effect, and the update caused this: it sets the field, or it refers to a template that does not consume the field.
func ValidateCAPTControlPlaneUpdate(ctx context.Context, reader validation.Reader, old, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	if exists, err := mayExist(ctx, reader, controlPlane); err != nil || !exists {
		return nil, err // CheckControlPlane rejects the object.
	}
	after, err := CheckFields(ctx, reader, controlPlane.Spec.WorkspaceTemplateRef, controlPlane.Namespace, ControlPlaneFields(controlPlane))
	if err != nil || len(after.Errors) == 0 {
		return nil, err
	}
	if reproduces, err := reproducesWorkspace(ctx, reader, old, controlPlane); err != nil || !reproduces {
		return after.Errors, err
	}
	before, err := CheckFields(ctx, reader, old.Spec.WorkspaceTemplateRef, old.Namespace, ControlPlaneFields(old))
	return slices.DeleteFunc(after.Errors, func(e *field.Error) bool {
		return slices.ContainsFunc(before.Errors, func(b *field.Error) bool { // The message names the template.
			return b.Field == e.Field && equality.Semantic.DeepEqual(b.BadValue, e.BadValue)
		})
	}), err
}

// reproducesWorkspace reports whether an update of the template reference does not change the Workspace: the template is the same, or
// captctl migrate created the new one to reproduce the Workspace.
func reproducesWorkspace(ctx context.Context, reader validation.Reader, old, controlPlane *controlplanev1.CAPTControlPlane) (bool, error) {
	key := controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace)
	if key == old.Spec.WorkspaceTemplateRef.Key(old.Namespace) {
		return true, nil
	}
	template, permitted, err := validation.PermittedTemplate(ctx, reader, key, controlPlane.Namespace)
	return permitted && template.Labels[naming.PinnedLabel] == "true", err
}

// WorkspaceTemplateUpdateWarnings warns of a template update after which fields of control planes that restrict access have no effect.
func WorkspaceTemplateUpdateWarnings(ctx context.Context, reader validation.Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	users, err := reader.ControlPlanesOfTemplate(ctx, validation.KeyOf(template))
	if err != nil {
		return nil, err
	}
	var affected []string
	for i := range users {
		permitted, err := validation.PermitsNamespace(template, users[i].Namespace, func() (labels.Set, error) {
			return reader.NamespaceLabels(ctx, users[i].Namespace)
		})
		if err != nil {
			return nil, err
		}
		fields := ControlPlaneFields(&users[i])
		before, _ := Unconsumed(old, fields)
		after, _ := Unconsumed(template, fields)
		if permitted && len(after) > len(before) {
			affected = append(affected, fmt.Sprintf("%s (%s)", validation.KeyOf(&users[i]), after[len(after)-1].Field))
		}
	}
	if len(affected) == 0 {
		return nil, nil
	}
	var findings validation.Findings
	slices.Sort(affected)
	findings.Warn(field.NewPath("spec", "template", "spec", "forProvider"),
		"after this update, the API servers of %d CAPTControlPlanes will be reachable from more networks than specified: the template no longer uses the placeholder of a field, for example %s. Restore the placeholder",
		len(affected), affected[0])
	return findings.Warnings, nil
}
