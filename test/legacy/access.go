// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// grant gives sandbox.Captctl the roles that users bind, and nothing more; and sandbox.Reader what captctl reads.
func (w *World) grant(ctx context.Context, root string) error {
	objects, err := access(root)
	if err != nil {
		return err
	}
	return manifests.Apply(ctx, w.Admin, objects...)
}

func access(root string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Load(filepath.Join(root, "config", "rbac", "captctl.yaml"))
	if err != nil {
		return nil, err
	}
	for _, role := range objects {
		objects = append(objects, clusterRoleBinding(role.GetName(), sandbox.CaptctlUser))
	}
	var rules []any
	rights, err := check.Rights("", check.RoleReader, check.RoleJournalReader)
	if err != nil {
		return nil, err
	}
	for _, right := range rights {
		rules = append(rules, map[string]any{"apiGroups": []any{right.Group}, "resources": []any{right.Resource}, "verbs": []any{right.Verb}})
	}
	reader := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "ClusterRole",
		"metadata":   map[string]any{"name": sandbox.ReaderUser},
		"rules":      rules,
	}}
	return append(objects, reader, clusterRoleBinding(sandbox.ReaderUser, sandbox.ReaderUser)), nil
}

func clusterRoleBinding(role, user string) *unstructured.Unstructured {
	const group = "rbac.authorization.k8s.io"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": "test-" + role},
		"roleRef":    map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": role},
		"subjects":   []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}},
	}}
}
