// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Incomplete is a Reader that has only some of the objects of a cluster, for example those of files.
type Incomplete interface {
	// Absence describes an object that the Reader does not have.
	Absence() string
}

// TemplateReference looks up the template that an object in a namespace refers to. The returned template is nil if it does not exist or
// does not allow that namespace. Both are warnings with the same text for a template in another namespace, so that the answer reveals nothing
// about that namespace: the template may be created, or allow the namespace, later. A template that is being deleted is an error.
func TemplateReference(ctx context.Context, reader Reader, ref infrav1.WorkspaceTemplateReference, namespace string, path *field.Path) (*infrav1.WorkspaceTemplate, Findings, error) {
	var findings Findings
	key := ref.Key(namespace)
	template, permitted, err := PermittedTemplate(ctx, reader, key, namespace)
	switch {
	case err != nil:
		return nil, findings, err
	case permitted:
		if !template.DeletionTimestamp.IsZero() {
			findings.Refuse(Forbidden(path, "%s", TemplateDeletingMessage(key)))
		}
		return template, findings, nil
	case key.Namespace == namespace:
		absence := "does not exist yet"
		if incomplete, ok := reader.(Incomplete); ok {
			absence = incomplete.Absence()
		}
		findings.Warn(path, "WorkspaceTemplate %s %s. Nothing is created until it exists", key.Name, absence)
		return nil, findings, nil
	}
	findings.Warn(path, "WorkspaceTemplate %s does not exist, or does not allow namespace %s. Nothing is created until it does. Correct the reference, or ask the owner of the template to add the namespace to spec.allowedNamespaces", key, namespace)
	return nil, findings, nil
}

// TemplateDeletingMessage returns the message that a template is being deleted and cannot be used by new objects. Objects that use it
// already keep it.
func TemplateDeletingMessage(key types.NamespacedName) string {
	return fmt.Sprintf("WorkspaceTemplate %s is being deleted and cannot be used by new objects. Refer to another template, or recreate it after the deletion", key)
}

// PermittedTemplate returns a template, and whether it may be used from a namespace.
func PermittedTemplate(ctx context.Context, reader Reader, key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, bool, error) {
	template, err := reader.WorkspaceTemplate(ctx, key)
	if err != nil || template == nil {
		return nil, false, err
	}
	permitted, err := PermitsNamespace(template, namespace, func() (labels.Set, error) {
		return reader.NamespaceLabels(ctx, namespace)
	})
	return template, permitted, err
}

// ApplyInUse returns the WorkspaceTemplateApply that a control plane refers to; nil when there is none.
func ApplyInUse(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.WorkspaceTemplateApply, error) {
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	if !ref.IsDefined() {
		return nil, nil
	}
	return reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}

// KeyOf returns the namespace and name of an object.
func KeyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// ClusterName returns the name of the Cluster that an object belongs to: the Cluster that owns it or, without an owner, the one in its label; empty
// if it names none.
func ClusterName(object metav1.Object) string {
	return cmp.Or(OwnerCluster(object), object.GetLabels()[clusterv1.ClusterNameLabel])
}

// OwnerCluster returns the name of the Cluster that owns an object; empty if none does.
func OwnerCluster(object metav1.Object) string {
	for _, ref := range object.GetOwnerReferences() {
		if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == "Cluster" && group == clusterv1.GroupVersion.Group {
			return ref.Name
		}
	}
	return ""
}
