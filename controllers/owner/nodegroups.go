// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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
	return validation.NodeGroupsOf(ctx, nodeGroupReader{r.Client}, list.Items)
}

// nodeGroupReader implements validation.NodeGroupReader.
type nodeGroupReader struct{ client.Reader }

// CAPTMachinePool implements validation.NodeGroupReader.
func (r nodeGroupReader) CAPTMachinePool(ctx context.Context, key client.ObjectKey) (*infrav1.CAPTMachinePool, error) {
	return engine.Get(ctx, r, key, &infrav1.CAPTMachinePool{})
}

// WorkspaceTemplateApply implements validation.NodeGroupReader.
func (r nodeGroupReader) WorkspaceTemplateApply(ctx context.Context, key client.ObjectKey) (*infrav1.WorkspaceTemplateApply, error) {
	return engine.Get(ctx, r, key, &infrav1.WorkspaceTemplateApply{})
}
