// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/test/provider/api"
)

const (
	kindProviderConfig        = "ProviderConfig"
	kindClusterProviderConfig = "ClusterProviderConfig"
)

// providerConfig is what all Workspaces that use a ProviderConfig share. The plugin cache is the executor's business.
type providerConfig struct {
	Credentials   []credentials `json:"credentials"`
	Configuration *string       `json:"configuration"`
	BackendFile   *string       `json:"backendFile"`
}

// credentials are one file that is put next to each configuration.
type credentials struct {
	Filename string                 `json:"filename"`
	Source   xpv1.CredentialsSource `json:"source"`

	xpv1.CommonCredentialSelectors `json:",inline"`
}

// reference of the Workspace to its ProviderConfig. The namespace is empty for one of the cluster.
func reference(w workspace) (xpv1.ProviderConfigReference, string, error) {
	switch w := w.(type) {
	case *api.ClusterWorkspace:
		if ref := w.GetProviderConfigReference(); ref != nil {
			return xpv1.ProviderConfigReference{Kind: kindProviderConfig, Name: ref.Name}, "", nil
		}
	case *api.NamespacedWorkspace:
		switch ref := w.GetProviderConfigReference(); {
		case ref == nil:
		case ref.Kind == kindProviderConfig:
			return *ref, w.GetNamespace(), nil
		case ref.Kind == kindClusterProviderConfig:
			return *ref, "", nil
		default:
			return *ref, "", fmt.Errorf("referenced provider config kind %q is invalid for %s", ref.Kind, client.ObjectKeyFromObject(w))
		}
	}
	return xpv1.ProviderConfigReference{}, "", errors.New("provider config is not set")
}

// useProviderConfig reads the ProviderConfig of the Workspace, and records that the Workspace uses it.
func (c *connector) useProviderConfig(ctx context.Context, w workspace) (*providerConfig, error) {
	ref, namespace, err := reference(w)
	if err != nil {
		return nil, err
	}
	gvk, err := apiutil.GVKForObject(w, c.client.Scheme())
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk.GroupVersion().WithKind(ref.Kind))
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("cannot get provider config: %w", err)
	}
	content, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, err
	}
	config := &providerConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, config); err != nil {
		return nil, fmt.Errorf("cannot read provider config: %w", err)
	}
	for _, credentials := range config.Credentials {
		if credentials.SecretRef != nil && namespace != "" {
			// A user who can write to one namespace must not read the Secrets of another.
			credentials.SecretRef.Namespace = namespace
		}
	}
	if err := c.trackUsage(ctx, w, gvk.GroupVersion().String(), ref); err != nil {
		return nil, fmt.Errorf("cannot track provider config usage: %w", err)
	}
	return config, nil
}

// trackUsage makes sure that a ProviderConfigUsage ties the Workspace to its ProviderConfig.
func (c *connector) trackUsage(ctx context.Context, w workspace, apiVersion string, ref xpv1.ProviderConfigReference) error {
	usage := &unstructured.Unstructured{}
	usage.SetAPIVersion(apiVersion)
	usage.SetKind("ProviderConfigUsage")
	usage.SetNamespace(w.GetNamespace())
	usage.SetName(string(w.GetUID()))
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, usage, func() error {
		labels := map[string]string{xpv1.LabelKeyProviderName: ref.Name}
		config := map[string]any{"name": ref.Name}
		if w.GetNamespace() != "" {
			labels[xpv1.LabelKeyProviderKind] = ref.Kind
			config["kind"] = ref.Kind
		}
		usage.SetLabels(labels)
		usage.Object["providerConfigRef"] = config
		usage.Object["resourceRef"] = map[string]any{"apiVersion": apiVersion, "kind": "Workspace", "name": w.GetName()}
		return controllerutil.SetControllerReference(w, usage, c.client.Scheme())
	})
	return err
}
