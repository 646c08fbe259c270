// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

// patience is how long a completion waits for a response of the cluster before it completes nothing.
const patience = 3 * time.Second

// Patience limits a completion in time.
func (a *Access) Patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, patience)
}

// Complete lists objects and completes with their names. If the cluster does not respond, it completes nothing, because a shell cannot show errors.
func (a *Access) Complete(list client.ObjectList, names func() []string, options ...client.ListOption) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := a.Patience(command.Context())
		defer cancel()
		connected, err := a.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if err := connected.List(ctx, list, options...); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNamespaces with the namespaces of the cluster.
func (a *Access) CompleteNamespaces() cobra.CompletionFunc {
	list := &corev1.NamespaceList{}
	return a.Complete(list, func() (names []string) {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	})
}

// CompleteClusters with NAMESPACE/NAME of the Clusters.
func (a *Access) CompleteClusters() cobra.CompletionFunc {
	return a.completeObjects(&clusterv1.ClusterList{})
}

// CompleteTemplates with NAMESPACE/NAME of the WorkspaceTemplates.
func (a *Access) CompleteTemplates() cobra.CompletionFunc {
	return a.completeObjects(&infrav1.WorkspaceTemplateList{})
}

// CompleteApplies with NAMESPACE/NAME of the WorkspaceTemplateApplies.
func (a *Access) CompleteApplies() cobra.CompletionFunc {
	return a.completeObjects(&infrav1.WorkspaceTemplateApplyList{})
}

// CompleteFailing with NAMESPACE/NAME of the Clusters, and with KIND/NAMESPACE/NAME of the WorkspaceTemplateApplies.
func (a *Access) CompleteFailing() cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := a.CompleteClusters()(command, args, text)
		applies, _ := a.CompleteApplies()(command, args, text)
		for _, name := range applies {
			found = append(found, "workspacetemplateapply/"+name)
		}
		return found, directive
	}
}

// CompleteImpact with KIND/NAMESPACE/NAME of the objects of CAPT.
func (a *Access) CompleteImpact() cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, text string) (found []cobra.Completion, directive cobra.ShellCompDirective) {
		for _, kind := range []struct {
			name     string
			complete cobra.CompletionFunc
		}{
			{"WorkspaceTemplate", a.CompleteTemplates()}, {"WorkspaceTemplateApply", a.CompleteApplies()}, {"Cluster", a.CompleteClusters()},
		} {
			names, _ := kind.complete(command, args, text)
			for _, name := range names {
				found = append(found, kind.name+"/"+name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeObjects completes with NAMESPACE/NAME.
func (a *Access) completeObjects(list client.ObjectList) cobra.CompletionFunc {
	return a.Complete(list, func() (names []string) {
		_ = meta.EachListItem(list, func(object runtime.Object) error { // The function returns no error.
			names = append(names, client.ObjectKeyFromObject(object.(client.Object)).String())
			return nil
		})
		return names
	})
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
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Watched are kinds of objects, in a namespace or in all if it is empty.
type Watched struct {
	Namespace string
	Kinds     []schema.GroupVersionKind
}

// Changes signals that a watched object may have changed. Where the user may not watch, it signals at the interval refresh.
func Changes(ctx context.Context, c client.WithWatch, refresh time.Duration, watched Watched) <-chan struct{} {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // It is signaled already.
		}
	}
	for _, kind := range watched.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			events, err := c.Watch(ctx, list, client.InNamespace(watched.Namespace))
			if meta.IsNoMatchError(err) { // It may be served in the older version only.
				list.SetGroupVersionKind(list.GroupVersionKind().GroupKind().WithVersion(migrate.LegacyVersion))
				return
			}
			signal() // For what changed while it was not watched.
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, events.Stop)()
			for range events.ResultChan() {
				signal()
			}
		}, refresh)
	}
	return changed
}
