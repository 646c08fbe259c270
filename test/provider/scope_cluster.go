// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api/cluster/v1beta1"
	"github.com/capt-provider/capt/test/provider/api/managed"
)

type clusterScope struct{}

func (clusterScope) gvk() schema.GroupVersionKind { return v1beta1.GroupVersion.WithKind("Workspace") }

func (clusterScope) newObject() client.Object { return &v1beta1.Workspace{} }

func (clusterScope) wrap(o client.Object) workspace {
	return clusterWorkspace{o.(*v1beta1.Workspace)} //nolint:forcetypeassert // made by newObject
}

func (clusterScope) providerConfig(ctx context.Context, c client.Reader, w workspace) (*managed.ProviderConfigSpec, error) {
	ref := w.(clusterWorkspace).Spec.ProviderConfigReference //nolint:forcetypeassert // made by wrap
	if ref == nil {
		return nil, errNoProviderConfig
	}
	config := &v1beta1.ProviderConfig{}
	if err := c.Get(ctx, types.NamespacedName{Name: ref.Name}, config); err != nil {
		return nil, fmt.Errorf("cannot get provider config: %w", err)
	}
	return &config.Spec, nil
}

func (s clusterScope) trackUsage(ctx context.Context, reader client.Reader, c client.Client, w workspace) error {
	ref := w.(clusterWorkspace).Spec.ProviderConfigReference //nolint:forcetypeassert // made by wrap
	usage := &v1beta1.ProviderConfigUsage{
		ObjectMeta: metav1.ObjectMeta{
			Name:            string(w.object().GetUID()),
			Labels:          map[string]string{labelProviderConfig: ref.Name},
			OwnerReferences: []metav1.OwnerReference{controllerReference(w, s)},
		},
		ProviderConfigReference: managed.Reference{Name: ref.Name},
		ResourceReference:       usedBy(w, s),
	}
	current := &v1beta1.ProviderConfigUsage{}
	err := reader.Get(ctx, client.ObjectKeyFromObject(usage), current)
	switch {
	case apierrors.IsNotFound(err):
		return c.Create(ctx, usage)
	case err != nil:
		return err
	case current.ProviderConfigReference.Name == ref.Name:
		return nil
	}
	usage.ResourceVersion = current.ResourceVersion
	return c.Update(ctx, usage)
}

// clusterWorkspace is a Workspace of tf.upbound.io.
type clusterWorkspace struct{ *v1beta1.Workspace }

func (w clusterWorkspace) object() client.Object            { return w.Workspace }
func (w clusterWorkspace) status() *managed.WorkspaceStatus { return &w.Status }
func (w clusterWorkspace) module() managed.Module           { return w.Spec.ForProvider.Module }

func (w clusterWorkspace) policy() policy {
	return policy{actions: w.Spec.ManagementPolicies, deletion: w.Spec.DeletionPolicy}
}

func (w clusterWorkspace) connectionSecret() *types.NamespacedName {
	ref := w.Spec.WriteConnectionSecretToReference
	if ref == nil {
		return nil
	}
	return &types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

func (w clusterWorkspace) env() []envVar {
	vars := make([]envVar, 0, len(w.Spec.ForProvider.Env))
	for _, e := range w.Spec.ForProvider.Env {
		vars = append(vars, envVar{
			name: e.Name, value: e.Value, configMap: w.key(e.ConfigMapKeyReference), secret: w.key(e.SecretKeyReference),
		})
	}
	return vars
}

func (w clusterWorkspace) varFiles() []varFile {
	files := make([]varFile, 0, len(w.Spec.ForProvider.VarFiles))
	for _, f := range w.Spec.ForProvider.VarFiles {
		files = append(files, varFile{
			json:   f.Format != nil && *f.Format == managed.FileFormatJSON,
			source: f.Source, configMap: w.key(f.ConfigMapKeyReference), secret: w.key(f.SecretKeyReference),
		})
	}
	return files
}

func (clusterWorkspace) key(r *v1beta1.KeyReference) *keyReference {
	if r == nil {
		return nil
	}
	return &keyReference{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, key: r.Key}
}
