// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupWorkspaceTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return register(mgr, workspaceTemplateDefaulter(), workspaceTemplateValidator(cached))
}

// workspaceTemplateDefaulter sets no defaults. The webhook restores fields after writes in an older version, and signs approvals.
func workspaceTemplateDefaulter() *defaulter[*infrav1.WorkspaceTemplate] {
	return &defaulter[*infrav1.WorkspaceTemplate]{
		create:        func(context.Context, validation.Reader, *infrav1.WorkspaceTemplate) error { return nil },
		keepHubFields: validation.TemplateHubFields,
		sign:          signApproval[*infrav1.WorkspaceTemplate],
	}
}

// signApproval records the user that changed the approved content, and when. Other users cannot change the record.
func signApproval[T client.Object](user string, old, object T) {
	annotations, before := object.GetAnnotations(), old.GetAnnotations()
	approved := annotations[naming.ApproveAnnotation]
	record := map[string]string{
		naming.ApprovedByAnnotation: before[naming.ApprovedByAnnotation], naming.ApprovedAtAnnotation: before[naming.ApprovedAtAnnotation],
	}
	if approved != before[naming.ApproveAnnotation] {
		record[naming.ApprovedByAnnotation], record[naming.ApprovedAtAnnotation] = user, time.Now().UTC().Format(time.RFC3339)
	}
	for annotation, value := range record {
		if approved == "" || value == "" {
			delete(annotations, annotation)
			continue
		}
		annotations[annotation] = value // It has the approved content, so it is not nil.
	}
	object.SetAnnotations(annotations)
}

func workspaceTemplateValidator(reader validation.Reader) validator[*infrav1.WorkspaceTemplate] {
	return validator[*infrav1.WorkspaceTemplate]{
		reader: reader,
		spec: func(template *infrav1.WorkspaceTemplate) any {
			return []any{template.Spec, template.Annotations[naming.ApproveAnnotation], template.Annotations[naming.ResumeAnnotation]}
		},
		check: func(_ context.Context, _ validation.Reader, template *infrav1.WorkspaceTemplate) (validation.Findings, error) {
			return validation.ValidateWorkspaceTemplate(template), nil
		},
		change: func(_ context.Context, _ validation.Reader, old, template *infrav1.WorkspaceTemplate) (field.ErrorList, error) {
			return validation.ValidateWorkspaceTemplateUpdate(old, template), nil
		},
		warn: validation.WorkspaceTemplateUpdateWarnings,
	}
}

// warnOfUnpinning warns when an update removes the reference to the template that captctl migrate created to reproduce the Workspace (the
// pinned template), for example when a manifest from before the migration is applied. It does not warn of a rollback, which removes the
// reference on purpose.
func warnOfUnpinning[T client.Object](kind string, template func(T) infrav1.WorkspaceTemplateReference, apply func(T) string) func(context.Context, validation.Reader, T, T) ([]string, error) {
	return func(ctx context.Context, reader validation.Reader, old, object T) ([]string, error) {
		before, after := template(old).Key(old.GetNamespace()), template(object).Key(object.GetNamespace())
		if request, err := admission.RequestFromContext(ctx); before == after || err == nil && namesMigration(request) {
			return nil, nil
		}
		pinned, permitted, err := validation.PermittedTemplate(ctx, reader, before, object.GetNamespace())
		if err != nil || !permitted || pinned.Labels[naming.PinnedLabel] != "true" {
			return nil, err
		}
		used, err := reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: apply(object)})
		if err != nil || used == nil || used.Spec.WorkspaceName == "" {
			return nil, err
		}
		return []string{fmt.Sprintf("%s %s no longer refers to its pinned template: Terraform will run for Workspace %s unless WorkspaceTemplate %s renders the same Workspace. To keep the Workspace unchanged, refer to WorkspaceTemplate %s; captctl convert --from-cluster writes this reference into the manifest",
			kind, object.GetName(), used.Spec.WorkspaceName, after, before)}, nil
	}
}
