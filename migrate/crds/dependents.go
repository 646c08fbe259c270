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

package crds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate/preflight"
)

const clusterAPI = "cluster.x-k8s.io"

// dependents are ClusterClasses that name the older kind, and Clusters of them. Cluster API does not let a ClusterClass change
// the kind of a template, and could never make a control plane from the older one: it looks for a kind of the same name less
// "Template".
func (r *run) dependents(ctx context.Context) ([]string, error) {
	classes, err := r.list(ctx, "ClusterClass")
	if err != nil {
		return nil, err
	}
	var found []string
	named := map[client.ObjectKey]bool{}
	for i := range classes {
		if !mentions(classes[i].Object["spec"], preflight.OlderTemplateKind) {
			continue
		}
		key := client.ObjectKeyFromObject(&classes[i])
		named[key] = true
		found = append(found, "ClusterClass "+key.String())
	}
	if len(named) == 0 {
		return nil, nil
	}
	clusters, err := r.list(ctx, "Cluster")
	if err != nil {
		return nil, err
	}
	for i := range clusters {
		if class := classOf(&clusters[i]); named[class] {
			found = append(found, fmt.Sprintf("Cluster %s, of ClusterClass %s", client.ObjectKeyFromObject(&clusters[i]), class))
		}
	}
	return found, nil
}

// list returns all objects of a kind of Cluster API, in whichever version is preferred: there may be an older one, too. A kind
// that is not installed has none.
func (r *run) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	mapping, err := r.client.RESTMapper().RESTMapping(schema.GroupKind{Group: clusterAPI, Kind: kind})
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", kind, err)
	}
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
	if err := r.client.List(ctx, objects); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return objects.Items, nil
}

// mentions tells whether a kind is named anywhere: in a reference, or in the selector of a patch.
func mentions(value any, kind string) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key == "kind" && inner == kind || mentions(inner, kind) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(inner any) bool { return mentions(inner, kind) })
	}
	return false
}

// classOf is the ClusterClass of a Cluster, in either version of Cluster API.
func classOf(cluster *unstructured.Unstructured) client.ObjectKey {
	first := func(paths ...[]string) string {
		for _, path := range paths {
			if text, _, _ := unstructured.NestedString(cluster.Object, append([]string{"spec", "topology"}, path...)...); text != "" {
				return text
			}
		}
		return ""
	}
	class := client.ObjectKey{
		Namespace: first([]string{"classRef", "namespace"}, []string{"classNamespace"}),
		Name:      first([]string{"classRef", "name"}, []string{"class"}),
	}
	if class.Namespace == "" {
		class.Namespace = cluster.GetNamespace()
	}
	return class
}

// ownFinalizer tells whether a finalizer is the older CAPT's.
func ownFinalizer(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc([]string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group}, func(group string) bool {
		return domain == group || strings.HasSuffix(domain, "."+group)
	})
}

// foreignFinalizers are those that may not be removed, with the objects that have them.
func (r *run) foreignFinalizers(objects []unstructured.Unstructured) (found []string) {
	for i := range objects {
		for _, finalizer := range objects[i].GetFinalizers() {
			if !r.removable(finalizer) {
				found = append(found, fmt.Sprintf("%s: %s", client.ObjectKeyFromObject(&objects[i]), finalizer))
			}
		}
	}
	return found
}

func (r *run) removable(finalizer string) bool {
	return ownFinalizer(finalizer) || slices.Contains(r.options.RemoveFinalizers, finalizer)
}
