/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package legacy

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox"
)

// access is what captctl needs, and nothing more, for sandbox.Captctl; and the reading part of it for sandbox.Reader.
func access() []*unstructured.Unstructured {
	read := []any{"get", "list", "watch"}
	infrastructure, controlPlane := []any{networkKind.Group}, []any{controlPlaneKind.Group}
	reading := []any{
		rule(infrastructure, []any{"*"}, read),
		rule(controlPlane, []any{"*"}, read),
		rule([]any{clusterKind.Group}, []any{"clusters"}, read),
		rule([]any{"tf.upbound.io", "tf.m.upbound.io"}, []any{"workspaces"}, read),
		rule([]any{"apiextensions.k8s.io"}, []any{"customresourcedefinitions"}, read),
		rule([]any{"admissionregistration.k8s.io"}, []any{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, read),
		rule([]any{"apps"}, []any{"deployments"}, read),
		rule([]any{"coordination.k8s.io"}, []any{"leases"}, read),
		rule([]any{""}, []any{"namespaces", "secrets", "configmaps", "pods"}, read),
	}
	write := []any{"update", "patch"}
	writing := []any{
		rule(infrastructure, []any{"workspacetemplates", "workspacetemplateapplies", "captclusters", "captclustertemplates",
			"workspacetemplates/status", "workspacetemplateapplies/status", "captclusters/status", "captclusters/finalizers"}, write),
		rule(controlPlane, []any{"captcontrolplanes", "captcontrolplanetemplates", "captcontrolplanes/status", "captcontrolplanes/finalizers"}, write),
		// The sandbox's API server protects owner references, which not all do: who changes one must be allowed to delete the object.
		rule(infrastructure, []any{"workspacetemplateapplies", "captclusters"}, []any{"delete"}),
		rule(controlPlane, []any{"captcontrolplanes"}, []any{"delete"}),
		rule(controlPlane, []any{"captcontrolplanetemplates"}, []any{"create"}), // migrate crds puts them back.
		rule([]any{clusterKind.Group}, []any{"clusters", "clusters/finalizers"}, write),
		rule([]any{"apiextensions.k8s.io"}, []any{"customresourcedefinitions/status"}, write),
		rule([]any{"apiextensions.k8s.io"}, []any{"customresourcedefinitions"}, []any{"delete"}), // migrate crds
		rule([]any{"coordination.k8s.io"}, []any{"leases"}, []any{"create", "update", "patch"}),
		rule([]any{""}, []any{"configmaps"}, []any{"create", "update", "patch"}),
		rule([]any{"", "events.k8s.io"}, []any{"events"}, []any{"create", "update", "patch"}),
	}
	var objects []*unstructured.Unstructured
	for user, rules := range map[string][]any{
		sandbox.CaptctlUser: append(append([]any{}, reading...), writing...),
		sandbox.ReaderUser:  reading,
	} {
		objects = append(objects, clusterRole(user, rules), clusterRoleBinding(user))
	}
	return objects
}

func rule(groups, resources, verbs []any) map[string]any {
	return map[string]any{"apiGroups": groups, "resources": resources, "verbs": verbs}
}

// clusterRole of a user, called like the user.
func clusterRole(user string, rules []any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "ClusterRole",
		"metadata":   map[string]any{"name": user},
		"rules":      rules,
	}}
}

func clusterRoleBinding(user string) *unstructured.Unstructured {
	const group = "rbac.authorization.k8s.io"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": user},
		"roleRef":    map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": user},
		"subjects":   []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}},
	}}
}
