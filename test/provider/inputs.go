// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/api/managed"
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
	reader client.Reader
}

// module gathers the files and the environment of a Workspace.
func (i inputs) module(ctx context.Context, w workspace, s scope, config *managed.ProviderConfigSpec) (executor.Module, error) {
	spec := w.module()
	m := executor.Module{
		UID: w.object().GetUID(), GroupKind: s.gvk().GroupKind(), Key: client.ObjectKeyFromObject(w.object()),
		Annotations: maps.Clone(w.object().GetAnnotations()),
		Entrypoint:  spec.Entrypoint,
	}
	switch spec.Source {
	case managed.ModuleSourceRemote:
		m.Remote = spec.Module
	case managed.ModuleSourceInline:
		name := fileMain
		if spec.InlineFormat == managed.FileFormatJSON {
			name = fileMainJSON
		}
		m.Files = map[string][]byte{name: []byte(spec.Module)}
	case managed.ModuleSourceFlux:
		return m, errors.New("cannot get Flux Artefact Terraform module: this provider has no Flux sources") //nolint:misspell // As provider-terraform spells it.
	}
	var err error
	if m.EntrypointFiles, err = i.files(ctx, config); err != nil {
		return m, err
	}
	m.Env, err = i.environment(ctx, w.env())
	return m, err
}

func (i inputs) files(ctx context.Context, config *managed.ProviderConfigSpec) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range config.Credentials {
		data, err := i.credentials(ctx, c)
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

func (i inputs) credentials(ctx context.Context, c managed.ProviderCredentials) ([]byte, error) {
	switch {
	case c.Source == managed.CredentialsNone:
		return nil, nil
	case c.Source == managed.CredentialsEnvironment && c.Env != nil:
		return []byte(os.Getenv(c.Env.Name)), nil
	case c.Source == managed.CredentialsFilesystem && c.Fs != nil:
		return os.ReadFile(c.Fs.Path)
	case c.Source == managed.CredentialsSecret && c.SecretRef != nil:
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: c.SecretRef.Namespace, Name: c.SecretRef.Name}
		if err := i.reader.Get(ctx, key, secret); err != nil {
			return nil, fmt.Errorf("cannot get credentials secret: %w", err)
		}
		return secret.Data[c.SecretRef.Key], nil
	default:
		return nil, fmt.Errorf("cannot extract from source %s without a selector", c.Source)
	}
}

// environment resolves variables: a value, else a ConfigMap's key, else a Secret's.
func (i inputs) environment(ctx context.Context, vars []envVar) ([]string, error) {
	env := make([]string, 0, len(vars))
	for _, v := range vars {
		value := v.value
		var err error
		switch {
		case value != "":
		case v.configMap != nil:
			value, err = i.configMapKey(ctx, *v.configMap)
		case v.secret != nil:
			value, err = i.secretKey(ctx, *v.secret)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot resolve variables: %w", err)
		}
		env = append(env, v.name+"="+value)
	}
	return env, nil
}

func (i inputs) configMapKey(ctx context.Context, r keyReference) (string, error) {
	m := &corev1.ConfigMap{}
	if err := i.reader.Get(ctx, r.NamespacedName, m); err != nil {
		return "", err
	}
	value, ok := m.Data[r.key]
	if !ok {
		return "", fmt.Errorf("couldn't find key %v in ConfigMap %v", r.key, r.NamespacedName)
	}
	return value, nil
}

func (i inputs) secretKey(ctx context.Context, r keyReference) (string, error) {
	s := &corev1.Secret{}
	if err := i.reader.Get(ctx, r.NamespacedName, s); err != nil {
		return "", err
	}
	value, ok := s.Data[r.key]
	if !ok {
		return "", fmt.Errorf("couldn't find key %v in Secret %v", r.key, r.NamespacedName)
	}
	return string(value), nil
}

// runOptions gathers the variables of a Workspace: vars, then varFiles, then varmap.
func (i inputs) runOptions(ctx context.Context, w workspace, args []string) (executor.RunOptions, error) {
	o := executor.RunOptions{Args: args}
	for _, v := range w.module().Vars {
		o.Vars = append(o.Vars, executor.Var{Key: v.Key, Value: v.Value})
	}
	for _, f := range w.varFiles() {
		data, err := i.varFile(ctx, f)
		if err != nil {
			return o, fmt.Errorf("cannot determine Terraform options: cannot get tfvars: %w", err)
		}
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: data, JSON: f.json})
	}
	if varMap := w.module().VarMap; varMap != nil && len(varMap.Raw) > 0 {
		o.VarFiles = append(o.VarFiles, executor.VarFile{Data: varMap.Raw, JSON: true})
	}
	return o, nil
}

// varFile reads one file of variables. A key that is not there is an empty file, as with the real provider.
func (i inputs) varFile(ctx context.Context, f varFile) ([]byte, error) {
	switch {
	case f.source == managed.VarFileSourceConfigMapKey && f.configMap != nil:
		m := &corev1.ConfigMap{}
		err := i.reader.Get(ctx, f.configMap.NamespacedName, m)
		return []byte(m.Data[f.configMap.key]), err
	case f.source == managed.VarFileSourceSecretKey && f.secret != nil:
		s := &corev1.Secret{}
		err := i.reader.Get(ctx, f.secret.NamespacedName, s)
		return s.Data[f.secret.key], err
	default:
		return nil, fmt.Errorf("source %s without its reference", f.source)
	}
}
