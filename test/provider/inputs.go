// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capt-provider/capt/test/provider/api"
	"github.com/capt-provider/capt/test/provider/executor"
)

// Names of the files the provider puts next to a module.
const (
	fileMain          = "main.tf"
	fileMainJSON      = "main.tf.json"
	fileConfiguration = "crossplane-provider-config.tf"
	fileBackend       = "crossplane.remote.tfbackend"
)

// inputs reads everything a Workspace refers to.
type inputs struct {
	client client.Client
	workspace
}

// module gathers the files and the environment of the Workspace.
func (i inputs) module(ctx context.Context, config *providerConfig) (executor.Module, error) {
	spec := i.Parameters()
	gvk, err := apiutil.GVKForObject(i.workspace, i.client.Scheme())
	if err != nil {
		return executor.Module{}, err
	}
	m := executor.Module{
		UID: i.GetUID(), GroupKind: gvk.GroupKind(), Key: client.ObjectKeyFromObject(i.workspace),
		Annotations: i.GetAnnotations(),
		Entrypoint:  spec.Entrypoint,
	}
	switch spec.Source {
	case api.SourceRemote:
		m.Remote = spec.Module
	case api.SourceInline:
		name := fileMain
		if spec.InlineFormat == api.FormatJSON {
			name = fileMainJSON
		}
		m.Files = map[string][]byte{name: []byte(spec.Module)}
	case api.SourceFlux:
		return m, errors.New("cannot get Flux Artefact Terraform module: this provider has no Flux sources") //nolint:misspell // As provider-terraform spells it.
	}
	if m.EntrypointFiles, err = i.files(ctx, config); err != nil {
		return m, err
	}
	m.Env, err = i.environment(ctx)
	return m, err
}

func (i inputs) files(ctx context.Context, config *providerConfig) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range config.Credentials {
		data, err := resource.CommonCredentialExtractor(ctx, c.Source, i.client, c.CommonCredentialSelectors)
		if err != nil {
			return nil, fmt.Errorf("cannot get credentials: %w", err)
		}
		files[c.Filename] = data
	}
	if config.Configuration != nil {
		files[fileConfiguration] = []byte(*config.Configuration)
	}
	if config.BackendFile != nil {
		files[fileBackend] = []byte(*config.BackendFile)
	}
	return files, nil
}

// environment resolves variables: a value, else a ConfigMap's key, else a Secret's.
func (i inputs) environment(ctx context.Context) ([]string, error) {
	vars := i.Parameters().Env
	env := make([]string, 0, len(vars))
	for _, v := range vars {
		value := v.Value
		if value == "" && (v.ConfigMapKeyRef != nil || v.SecretKeyRef != nil) {
			data, found, err := i.key(ctx, v.ConfigMapKeyRef, v.SecretKeyRef)
			if err == nil && !found {
				err = fmt.Errorf("couldn't find key of variable %s", v.Name)
			}
			if err != nil {
				return nil, fmt.Errorf("cannot resolve variables: %w", err)
			}
			value = string(data)
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// key reads the key of a ConfigMap, else of a Secret.
func (i inputs) key(ctx context.Context, configMap, secret *api.KeyReference) (data []byte, found bool, err error) {
	if configMap != nil {
		m := &corev1.ConfigMap{}
		err = i.client.Get(ctx, i.named(configMap), m)
		text, found := m.Data[configMap.Key]
		return []byte(text), found, err
	}
	s := &corev1.Secret{}
	err = i.client.Get(ctx, i.named(secret), s)
	data, found = s.Data[secret.Key]
	return data, found, err
}

// named is what a reference means: a Workspace with a namespace refers to objects of that namespace.
func (i inputs) named(r *api.KeyReference) client.ObjectKey {
	if namespace := i.GetNamespace(); namespace != "" {
		return client.ObjectKey{Namespace: namespace, Name: r.Name}
	}
	return client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
}

// runOptions gathers the variables of the Workspace: vars, then varFiles, then varmap.
func (i inputs) runOptions(ctx context.Context, args []string) (executor.RunOptions, error) {
	o := executor.RunOptions{Args: args}
	for _, v := range i.Parameters().Vars {
		o.Vars = append(o.Vars, executor.Var{Key: v.Key, Value: v.Value})
	}
	for _, f := range i.Parameters().VarFiles {
		data, err := i.varFile(ctx, f)
		if err != nil {
			return o, fmt.Errorf("cannot determine Terraform options: cannot get tfvars: %w", err)
		}
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: data, JSON: f.Format == api.FormatJSON})
	}
	if varMap := i.Parameters().VarMap; varMap != nil && len(varMap.Raw) > 0 {
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: varMap.Raw, JSON: true})
	}
	return o, nil
}

// varFile reads one file of variables. A key that is not there is an empty file, as with the real provider.
func (i inputs) varFile(ctx context.Context, f api.VarFile) ([]byte, error) {
	var configMap, secret *api.KeyReference
	switch f.Source {
	case api.VarFileConfigMapKey:
		configMap = f.ConfigMapKeyRef
	case api.VarFileSecretKey:
		secret = f.SecretKeyRef
	}
	if configMap == nil && secret == nil {
		return nil, fmt.Errorf("source %s without its reference", f.Source)
	}
	data, _, err := i.key(ctx, configMap, secret)
	return data, err
}

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
