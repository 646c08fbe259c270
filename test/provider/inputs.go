// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

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
