// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerconfig has the objects that the sandbox's provider for Terraform Workspaces needs: its access rules,
// and a ProviderConfig for each scope.
package providerconfig

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// Name is the name of the ProviderConfigs of both scopes.
const Name = "sandbox"

// role is the ClusterRole of the provider.
const role = "provider-terraform"

// Access lets a user reconcile Workspaces and what these read and write: Secrets with connection details and with
// Terraform state, the Leases that lock that state, and ConfigMaps.
func Access(user string) []*unstructured.Unstructured {
	rule := func(groups, resources []any) map[string]any {
		return map[string]any{"apiGroups": groups, "resources": resources, "verbs": []any{"*"}}
	}
	return []*unstructured.Unstructured{
		manifests.ClusterRole(role,
			rule([]any{"tf.upbound.io", "tf.m.upbound.io"}, []any{"*"}),
			rule([]any{""}, []any{"secrets", "configmaps", "events"}),
			rule([]any{"events.k8s.io"}, []any{"events"}),
			rule([]any{"coordination.k8s.io"}, []any{"leases"})),
		manifests.ClusterRoleBinding("sandbox-"+role, role, user),
	}
}

// Local describes this machine. It reaches every Terraform module as locals, so that the samples need no paths.
type Local struct {
	// Command is the path of the sandbox program.
	Command string
	// Dir is the sandbox's directory.
	Dir string
	// Kubeconfig is the provider's kubeconfig. Terraform stores its state in Secrets with it.
	Kubeconfig string
	// Namespace is the namespace of these Secrets.
	Namespace string
}

// Objects returns the ProviderConfig and the ClusterProviderConfig.
func Objects(local Local) (objects []*unstructured.Unstructured) {
	for _, kind := range [][2]string{
		{"tf.upbound.io/v1beta1", "ProviderConfig"},
		{"tf.m.upbound.io/v1beta1", "ClusterProviderConfig"},
	} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kind[0],
			"kind":       kind[1],
			"metadata":   map[string]any{"name": Name},
			"spec": map[string]any{
				"pluginCache":   false,
				"backendFile":   local.backendFile(),
				"configuration": local.configuration(),
			},
		}})
	}
	return objects
}

// backendFile configures Terraform's kubernetes backend.
func (l Local) backendFile() string {
	file := hclwrite.NewEmptyFile()
	set(file.Body(), "secret_suffix", Name)
	set(file.Body(), "namespace", l.Namespace)
	set(file.Body(), "config_path", l.Kubeconfig)
	return string(file.Bytes())
}

// configuration is added to every module.
func (l Local) configuration() string {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil)
	terraform.Body().AppendNewBlock("backend", []string{"kubernetes"})
	locals := file.Body().AppendNewBlock("locals", nil)
	set(locals.Body(), "sandbox_command", l.Command)
	set(locals.Body(), "sandbox_dir", l.Dir)
	return string(file.Bytes())
}

// set writes a string, quoted so that no character of a path has a meaning in HCL.
func set(body *hclwrite.Body, name, value string) { body.SetAttributeValue(name, cty.StringVal(value)) }
