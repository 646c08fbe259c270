// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// snapshot is everything that is there, without what differs from one life to the next in any case: times, UIDs and
// versions.
func (w *world) snapshot() string {
	w.Helper()
	objects := w.workspaces()
	for _, kind := range []string{"WorkspaceTemplate", "WorkspaceTemplateApply"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind + "List"))
		require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.namespace)))
		objects = append(objects, list.Items...)
	}
	var text strings.Builder
	for _, object := range objects {
		data, err := yaml.Marshal(timeless(object.Object))
		require.NoError(w, err)
		text.WriteString("---\n")
		text.Write(data)
	}
	return text.String()
}

// timeless replaces what is new in each life by a word, so that its absence still shows.
func timeless(node any) any {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			switch {
			case key == "uid", key == "resourceVersion", key == "creationTimestamp", strings.HasSuffix(key, "Time"), key == "time",
				strings.HasPrefix(key, "crossplane.io/external-create-"), key == naming.ExternalNameUIDAnnotation, key == naming.AdoptWorkspaceAnnotation:
				node[key] = "(some)"
			default:
				node[key] = timeless(value)
			}
		}
	case []any:
		for i, value := range node {
			node[i] = timeless(value)
		}
	}
	return node
}
