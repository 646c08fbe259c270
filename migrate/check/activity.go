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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/migrate"
)

// defaultQuiet is for how long nobody may have written as the older CAPT does. While it runs, it writes status all the time.
const defaultQuiet = time.Minute

// knownManagers begin the names of field managers that are not the older CAPT's: people's tools, GitOps tools, Cluster API,
// Kubernetes, and captctl itself.
var knownManagers = []string{
	"kubectl", "before-first-apply", "clusterctl", migrate.FieldManager,
	"kustomize-controller", "helm-controller", "helm", "argocd", "gitops",
	"cluster-api", "capi-", "kube-controller-manager",
}

func isKnown(manager string) bool {
	manager = strings.ToLower(manager)
	return slices.ContainsFunc(knownManagers, func(known string) bool { return strings.HasPrefix(manager, known) })
}

// metadata calls take with the metadata of each object of a kind.
func (l *look) metadata(ctx context.Context, kind schema.GroupVersionKind, take func(*metav1.PartialObjectMetadata)) error {
	return migrate.EachMetadata(ctx, l.client, kind, func(object *metav1.PartialObjectMetadata) error {
		take(object)
		return nil
	})
}

// recentWrites are those of the older CAPT, by what the API server recorded of who wrote what, and when by its own clock. A
// manager that runs outside of this cluster, or under a name that nobody knows, is seen by that alone.
func (l *look) recentWrites(ctx context.Context) ([]string, error) {
	var recent []string
	writers := map[string]bool{}
	clusters := map[types.UID]bool{}
	for _, kind := range migrate.Kinds() {
		err := l.metadata(ctx, kind.GroupVersionKind, func(object *metav1.PartialObjectMetadata) {
			for _, owner := range object.OwnerReferences {
				clusters[owner.UID] = true
			}
			for _, entry := range entriesOfOlder(object) {
				writers[entry.Manager] = true
				if l.isRecent(entry) {
					recent = append(recent, wrote(kind.Kind, object, entry))
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(writers) == 0 {
		return recent, nil
	}
	// It writes the Clusters of its objects, too, under the same name.
	err := l.metadata(ctx, clusterv1.GroupVersion.WithKind("Cluster"), func(object *metav1.PartialObjectMetadata) {
		for _, entry := range object.ManagedFields {
			if clusters[object.UID] && writers[entry.Manager] && l.isRecent(entry) {
				recent = append(recent, wrote("Cluster", object, entry))
			}
		}
	})
	return recent, err
}

// entriesOfOlder are those of managedFields that the older CAPT may have left on one of CAPT's objects.
func entriesOfOlder(object *metav1.PartialObjectMetadata) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(object.ManagedFields), func(entry metav1.ManagedFieldsEntry) bool {
		return !migrate.IsOlder(entry.APIVersion) || isKnown(entry.Manager)
	})
}

func (l *look) isRecent(entry metav1.ManagedFieldsEntry) bool {
	return entry.Time != nil && entry.Time.After(l.now.Add(-l.options.Quiet))
}

func wrote(kind string, object *metav1.PartialObjectMetadata, entry metav1.ManagedFieldsEntry) string {
	what := "it"
	if entry.Subresource != "" {
		what = "its " + entry.Subresource
	}
	return fmt.Sprintf("%s %s/%s: %s wrote %s in %s at %s", kind, object.Namespace, object.Name, entry.Manager, what, entry.APIVersion,
		entry.Time.UTC().Format(time.RFC3339))
}

func (l *look) activity(ctx context.Context) (Check, error) {
	recent, err := l.recentWrites(ctx)
	if err != nil {
		return Check{}, err
	}
	if len(recent) == 0 {
		return Check{Status: OK, Message: fmt.Sprintf("nobody has written as the older CAPT does for %s", l.options.Quiet)}, nil
	}
	return Check{Status: Failed, Objects: recent, Message: fmt.Sprintf(
		"the older manager is still writing, or somebody who writes as it does; stop it, and wait %s", l.options.Quiet)}, nil
}
