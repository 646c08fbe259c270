// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// ProviderConfigName is the name of the provider's configurations in both scopes.
const ProviderConfigName = "sandbox"

// providerAccess lets the provider reconcile Workspaces and what these read and write: Secrets with connection details and with
// Terraform state, the Leases that lock that state, and ConfigMaps.
func providerAccess() []*unstructured.Unstructured {
	const role = "provider-terraform"
	rule := func(groups, resources []any) map[string]any {
		return map[string]any{"apiGroups": groups, "resources": resources, "verbs": []any{"*"}}
	}
	return []*unstructured.Unstructured{
		manifests.ClusterRole(role,
			rule([]any{"tf.upbound.io", "tf.m.upbound.io"}, []any{"*"}),
			rule([]any{""}, []any{"secrets", "configmaps", "events"}),
			rule([]any{"events.k8s.io"}, []any{"events"}),
			rule([]any{"coordination.k8s.io"}, []any{"leases"})),
		manifests.ClusterRoleBinding("sandbox-"+role, role, ProviderUser),
	}
}

// configureProvider creates the provider's configuration for each scope. It describes this machine to every Terraform module, so that the
// samples need no paths.
func (s *Sandbox) configureProvider(ctx context.Context) error {
	if !s.options.Provider {
		return nil
	}
	var objects []*unstructured.Unstructured
	for _, kind := range [][2]string{
		{"tf.upbound.io/v1beta1", "ProviderConfig"},
		{"tf.m.upbound.io/v1beta1", "ClusterProviderConfig"},
	} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kind[0],
			"kind":       kind[1],
			"metadata":   map[string]any{"name": ProviderConfigName},
			"spec":       map[string]any{"pluginCache": false, "backendFile": s.backendFile(), "configuration": s.terraformConfiguration()},
		}})
	}
	return manifests.Apply(ctx, s.client, objects...)
}

// backendFile configures Terraform's kubernetes backend.
func (s *Sandbox) backendFile() string {
	file := hclwrite.NewEmptyFile()
	set(file.Body(), "secret_suffix", ProviderConfigName)
	set(file.Body(), "namespace", ProviderNamespace)
	set(file.Body(), "config_path", s.KubeconfigOf(Provider))
	return string(file.Bytes())
}

// terraformConfiguration is added to every module.
func (s *Sandbox) terraformConfiguration() string {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil)
	terraform.Body().AppendNewBlock("backend", []string{"kubernetes"})
	locals := file.Body().AppendNewBlock("locals", nil)
	set(locals.Body(), "sandbox_command", s.Binary(binaries.Sandbox))
	set(locals.Body(), "sandbox_dir", s.dir)
	return string(file.Bytes())
}

// set writes a string, quoted so that no character of a path has a meaning in HCL.
func set(body *hclwrite.Body, name, value string) { body.SetAttributeValue(name, cty.StringVal(value)) }
