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

package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a shell waits for an answer of the cluster before it completes nothing.
const patience = 3 * time.Second

// names asks the cluster for objects and completes with one name of each. A cluster that does not answer completes nothing: a shell is no
// place for errors.
func (a *Access) names(list *unstructured.UnstructuredList, name func(*unstructured.Unstructured) string, options ...client.ListOption) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx := command.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		connected, err := a.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := list.DeepCopy()
		if err := connected.List(ctx, found, options...); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := make([]cobra.Completion, 0, len(found.Items))
		for i := range found.Items {
			if text := name(&found.Items[i]); text != "" {
				names = append(names, text)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// CompleteNamespaces with the namespaces of the cluster.
func (a *Access) CompleteNamespaces() cobra.CompletionFunc {
	return a.names(listOf(corev1.SchemeGroupVersion.WithKind("Namespace")), (*unstructured.Unstructured).GetName)
}

// CompleteObjects with namespace/name of the objects of a kind.
func (a *Access) CompleteObjects(kind schema.GroupVersionKind) cobra.CompletionFunc {
	return a.names(listOf(kind), func(object *unstructured.Unstructured) string { return object.GetNamespace() + "/" + object.GetName() })
}

// CompleteContexts with those of the kubeconfig.
func (a *Access) CompleteContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := a.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]cobra.Completion, 0, len(config.Contexts))
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
