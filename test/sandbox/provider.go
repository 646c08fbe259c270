// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// ProviderConfigName is the name of the provider's configurations in both scopes.
const ProviderConfigName = "sandbox"

// providerRole is the ClusterRole of the provider for workspaces.
const providerRole = "provider-terraform"

// providerAccess lets the provider work on workspaces and on what these read and write: Secrets with connection
// details and with Terraform's state, the Leases that lock that state, and ConfigMaps.
func providerAccess() []*unstructured.Unstructured {
	rule := func(groups, resources []any) map[string]any {
		return map[string]any{"apiGroups": groups, "resources": resources, "verbs": []any{"*"}}
	}
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "ClusterRole",
		"metadata":   map[string]any{"name": providerRole},
		"rules": []any{
			rule([]any{"tf.upbound.io", "tf.m.upbound.io"}, []any{"*"}),
			rule([]any{""}, []any{"secrets", "configmaps", "events"}),
			rule([]any{"events.k8s.io"}, []any{"events"}),
			rule([]any{"coordination.k8s.io"}, []any{"leases"}),
		},
	}}
	return []*unstructured.Unstructured{role, clusterRoleBinding(providerRole, ProviderUser)}
}

// configureProvider makes a ProviderConfig for each scope. State goes into Secrets, as it would in a cluster. What is
// particular to this machine, the path of the sandbox command and the sandbox's folder, reaches every Terraform module
// from here as locals, so that the samples need not name any path.
func (s *Sandbox) configureProvider(ctx context.Context) error {
	if !s.options.Provider {
		return nil
	}
	for _, kind := range [][2]string{
		{"tf.upbound.io/v1beta1", "ProviderConfig"},
		{"tf.m.upbound.io/v1beta1", "ClusterProviderConfig"},
	} {
		config := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kind[0],
			"kind":       kind[1],
			"metadata":   map[string]any{"name": ProviderConfigName},
			"spec": map[string]any{
				"pluginCache":   false,
				"backendFile":   s.backendFile(),
				"configuration": s.configuration(),
			},
		}}
		if err := manifests.Apply(ctx, s.client, config); meta.IsNoMatchError(err) {
			return fmt.Errorf("the definition of %s %s is not installed: %w", kind[0], kind[1], err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// backendFile configures Terraform's kubernetes backend.
func (s *Sandbox) backendFile() string {
	return attributes([][2]string{
		{"secret_suffix", ProviderConfigName},
		{"namespace", ProviderNamespace},
		{"config_path", s.KubeconfigOf(Provider)},
	}, hclwrite.NewEmptyFile(), nil)
}

// configuration is put beside every module.
func (s *Sandbox) configuration() string {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil)
	terraform.Body().AppendNewBlock("backend", []string{"kubernetes"})
	locals := file.Body().AppendNewBlock("locals", nil)
	return attributes([][2]string{
		{"sandbox_command", s.Binary(binaries.Sandbox)},
		{"sandbox_dir", s.dir},
	}, file, locals.Body())
}

// attributes writes strings in HCL, quoted so that no character of a path means anything.
func attributes(pairs [][2]string, file *hclwrite.File, body *hclwrite.Body) string {
	if body == nil {
		body = file.Body()
	}
	for _, pair := range pairs {
		body.SetAttributeValue(pair[0], cty.StringVal(pair[1]))
	}
	return string(file.Bytes())
}
