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

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/migrate"
)

// applier says which GitOps tool applies an object; empty if none is known to.
func applier(object *metav1.PartialObjectMetadata) string {
	labels, annotations := object.Labels, object.Annotations
	for _, flux := range []struct{ kind, group string }{
		{"Kustomization", "kustomize.toolkit.fluxcd.io"},
		{"HelmRelease", "helm.toolkit.fluxcd.io"},
	} {
		if name := labels[flux.group+"/name"]; name != "" {
			return "Flux " + flux.kind + " " + labels[flux.group+"/namespace"] + "/" + name
		}
	}
	// The tracking ID is application:group/kind:namespace/name.
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	for _, name := range []string{application, labels["argocd.argoproj.io/instance"], annotations["argocd.argoproj.io/instance"]} {
		if name != "" {
			return "Argo CD Application " + name
		}
	}
	if name := annotations["meta.helm.sh/release-name"]; name != "" {
		return "Helm release " + annotations["meta.helm.sh/release-namespace"] + "/" + name
	}
	if labels["app.kubernetes.io/managed-by"] == "Helm" {
		return "Helm"
	}
	return applierByManager(object.ManagedFields)
}

func applierByManager(entries []metav1.ManagedFieldsEntry) string {
	for _, known := range []struct{ prefix, tool string }{
		{"kustomize-controller", "Flux"}, {"helm-controller", "Flux"}, {"argocd", "Argo CD"}, {"helm", "Helm"},
	} {
		if slices.ContainsFunc(entries, func(entry metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(entry.Manager, known.prefix) }) {
			return known.tool
		}
	}
	return ""
}

// gitOps lists objects whose manifests are kept elsewhere, and will be applied again as they are there.
func (l *look) gitOps(ctx context.Context) (Check, error) {
	var applied []string
	tools := map[string]bool{}
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range migrate.Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, kind := range kinds {
		err := l.metadata(ctx, kind, func(object *metav1.PartialObjectMetadata) {
			if by := applier(object); by != "" {
				tools[by] = true
				applied = append(applied, fmt.Sprintf("%s %s/%s: %s", kind.Kind, object.Namespace, object.Name, by))
			}
		})
		if err != nil {
			return Check{}, err
		}
	}
	if len(applied) == 0 {
		return Check{Status: OK, Message: "no object is known to be applied by Flux, Argo CD or Helm"}, nil
	}
	return Check{Status: Warning, Objects: applied, Message: fmt.Sprintf(
		"the manifests of %d objects are kept elsewhere (%s): suspend that for the time of the migration, and convert the manifests with captctl convert before it goes on",
		len(applied), strings.Join(sorted(tools), ", "))}, nil
}
