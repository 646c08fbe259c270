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

// Package flags has the flags that several commands of captctl migrate share, with what follows from them.
package flags

import (
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/migrate/journal"
)

// Journal is where the lock and the journal of migrations are.
type Journal struct {
	Namespace string
}

// Add adds the flag to a command, with its completion.
func (j *Journal) Add(command *cobra.Command, access *cluster.Access) {
	command.Flags().StringVar(&j.Namespace, "journal-namespace", "capt-system", "Namespace of the lock and the journal of migrations.")
	cli.CompleteFlag(command, "journal-namespace", access.CompleteNamespaces())
}

// PlanIDs completes the first argument with the plans that have a journal in the cluster.
func (j *Journal) PlanIDs(access *cluster.Access) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := &corev1.ConfigMapList{}
		complete := access.Complete(list, func() (ids []string) {
			for i := range list.Items {
				ids = append(ids, list.Items[i].Labels[journal.PlanLabel])
			}
			slices.Sort(ids)
			return slices.Compact(ids)
		}, client.InNamespace(j.Namespace), client.HasLabels{journal.PlanLabel})
		return complete(command, args, toComplete)
	}
}
