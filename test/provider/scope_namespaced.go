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

	"github.com/capt-provider/capt/test/provider/api/managed"
	"github.com/capt-provider/capt/test/provider/api/namespaced/v1beta1"
)

const (
	kindProviderConfig        = "ProviderConfig"
	kindClusterProviderConfig = "ClusterProviderConfig"
)

type namespacedScope struct{}

func (namespacedScope) gvk() schema.GroupVersionKind {
	return v1beta1.GroupVersion.WithKind("Workspace")
}

func (namespacedScope) newObject() client.Object { return &v1beta1.Workspace{} }

func (namespacedScope) wrap(o client.Object) workspace {
	return namespacedWorkspace{o.(*v1beta1.Workspace)} //nolint:forcetypeassert // made by newObject
}

func (namespacedScope) providerConfig(ctx context.Context, c client.Reader, w workspace) (*managed.ProviderConfigSpec, error) {
	ref := w.(namespacedWorkspace).Spec.ProviderConfigReference //nolint:forcetypeassert // made by wrap
	if ref == nil {
		return nil, errNoProviderConfig
	}
	var (
		config    client.Object
		spec      *managed.ProviderConfigSpec
		namespace = w.object().GetNamespace()
	)
	switch ref.Kind {
	case kindProviderConfig:
		local := &v1beta1.ProviderConfig{}
		config, spec = local, &local.Spec
	case kindClusterProviderConfig:
		shared := &v1beta1.ClusterProviderConfig{}
		config, spec, namespace = shared, &shared.Spec, ""
	default:
		return nil, fmt.Errorf("referenced provider config kind %q is invalid for %s", ref.Kind, client.ObjectKeyFromObject(w.object()))
	}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, config); err != nil {
		return nil, fmt.Errorf("cannot get provider config: %w", err)
	}
	if ref.Kind == kindProviderConfig {
		// A user who can write to one namespace must not read the Secrets of another.
		for _, credentials := range spec.Credentials {
			if credentials.SecretRef != nil {
				credentials.SecretRef.Namespace = namespace
			}
		}
	}
	return spec, nil
}

func (s namespacedScope) trackUsage(ctx context.Context, reader client.Reader, c client.Client, w workspace) error {
	ref := w.(namespacedWorkspace).Spec.ProviderConfigReference //nolint:forcetypeassert // made by wrap
	usage := &v1beta1.ProviderConfigUsage{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       w.object().GetNamespace(),
			Name:            string(w.object().GetUID()),
			Labels:          map[string]string{labelProviderConfig: ref.Name, labelProviderConfigKind: ref.Kind},
			OwnerReferences: []metav1.OwnerReference{controllerReference(w, s)},
		},
		ProviderConfigReference: *ref,
		ResourceReference:       usedBy(w, s),
	}
	current := &v1beta1.ProviderConfigUsage{}
	err := reader.Get(ctx, client.ObjectKeyFromObject(usage), current)
	switch {
	case apierrors.IsNotFound(err):
		return c.Create(ctx, usage)
	case err != nil:
		return err
	case current.ProviderConfigReference == *ref:
		return nil
	}
	usage.ResourceVersion = current.ResourceVersion
	return c.Update(ctx, usage)
}

// namespacedWorkspace is a Workspace of tf.m.upbound.io.
type namespacedWorkspace struct{ *v1beta1.Workspace }

func (w namespacedWorkspace) object() client.Object            { return w.Workspace }
func (w namespacedWorkspace) status() *managed.WorkspaceStatus { return &w.Status }
func (w namespacedWorkspace) module() managed.Module           { return w.Spec.ForProvider.Module }

func (w namespacedWorkspace) policy() policy {
	return policy{actions: w.Spec.ManagementPolicies}
}

func (w namespacedWorkspace) connectionSecret() *types.NamespacedName {
	ref := w.Spec.WriteConnectionSecretToReference
	if ref == nil {
		return nil
	}
	return &types.NamespacedName{Namespace: w.Namespace, Name: ref.Name}
}

func (w namespacedWorkspace) env() []envVar {
	vars := make([]envVar, 0, len(w.Spec.ForProvider.Env))
	for _, e := range w.Spec.ForProvider.Env {
		vars = append(vars, envVar{
			name: e.Name, value: e.Value, configMap: w.key(e.ConfigMapKeyReference), secret: w.key(e.SecretKeyReference),
		})
	}
	return vars
}

func (w namespacedWorkspace) varFiles() []varFile {
	files := make([]varFile, 0, len(w.Spec.ForProvider.VarFiles))
	for _, f := range w.Spec.ForProvider.VarFiles {
		files = append(files, varFile{
			json:   f.Format != nil && *f.Format == managed.FileFormatJSON,
			source: f.Source, configMap: w.key(f.ConfigMapKeyReference), secret: w.key(f.SecretKeyReference),
		})
	}
	return files
}

func (w namespacedWorkspace) key(r *v1beta1.KeyReference) *keyReference {
	if r == nil {
		return nil
	}
	return &keyReference{NamespacedName: types.NamespacedName{Namespace: w.Namespace, Name: r.Name}, key: r.Key}
}
