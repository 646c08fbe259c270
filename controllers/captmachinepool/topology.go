// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// kubeletVersionsDiffer returns the condition KubeletVersionsDiffer of a pool in a managed topology: Cluster API compares the versions of MachinePool and
// kubelets character by character, and those of EKS have a suffix (https://github.com/kubernetes-sigs/cluster-api/issues/14086). It is False while EKS may
// be replacing nodes.
func kubeletVersionsDiffer(f *Facts, upToDate bool) engine.Condition {
	none := engine.False(infrav1.KubeletVersionsDifferCondition, infrav1.KubeletVersionsMatchReason, "")
	if !upToDate || !f.nodesKnown() {
		return none
	}
	version := f.MachinePool.Spec.Template.Spec.Version
	if _, managed := f.MachinePool.Labels[clusterv1.ClusterTopologyOwnedLabel]; !managed {
		return none
	}
	var others []string
	for i := range f.Nodes.List {
		kubelet := f.Nodes.List[i].Version
		if minor(kubelet) != minor(version) {
			return none // A node that is about to be deleted, or without a version.
		}
		if kubelet != version && !slices.Contains(others, kubelet) {
			others = append(others, kubelet)
		}
	}
	if slices.Sort(others); len(others) == 0 {
		return none
	}
	return engine.True(infrav1.KubeletVersionsDifferCondition, infrav1.KubeletVersionsDifferReason, fmt.Sprintf(
		"Cluster API waits until the kubelets report %s, the version of MachinePool %s, and rejects other versions of the topology before. They report %s, which no upgrade changes. "+
			"Replace the version with that of the kubelets (docs/clusterclass.md#replace-the-version)", version, f.MachinePool.Name, strings.Join(others, " and ")))
}

// minor returns the version in the form of EKS; empty for what is not a version.
func minor(text string) string {
	version, _ := validation.ParseKubernetesVersion(text) // Empty with an error.
	return version.EKS
}
