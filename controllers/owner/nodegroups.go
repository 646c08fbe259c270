// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// NodeGroups reads the node groups of a Cluster.
func (r *Reconciler) NodeGroups(ctx context.Context, cluster client.ObjectKey) ([]validation.NodeGroup, error) {
	var list clusterv1.MachinePoolList
	if err := r.Client.List(ctx, &list, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachinePools of Cluster %s: %w", cluster.Name, err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(machinePool clusterv1.MachinePool) bool { return machinePool.Spec.ClusterName != cluster.Name })
	return validation.NodeGroupsOf(ctx, getter{r.Client}, list.Items)
}

// getter implements validation.Getter.
type getter struct{ client.Reader }

// Object implements validation.Getter.
func (r getter) Object(ctx context.Context, key client.ObjectKey, kind validation.Owner) (validation.Owner, error) {
	return engine.Get(ctx, r, key, reflect.New(reflect.TypeOf(kind).Elem()).Interface().(client.Object))
}
