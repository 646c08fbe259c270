// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"testing"

	"github.com/stretchr/testify/assert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/test/builder"
)

func TestKubeletsThatATopologyWaitsFor(t *testing.T) {
	const old, one, other = "v1.30.4-eks-aaaaaaa", "v1.31.2-eks-aaaaaaa", "v1.31.2-eks-bbbbbbb"
	for name, row := range map[string]struct {
		version  string
		kubelets []string
		changes  []func(*Facts)
		want     string
	}{
		"the same version":       {one, []string{one, one, one}, nil, ""},
		"no suffix":              {"v1.31.2", []string{one, one, one}, nil, "They report " + one + ", which no upgrade changes"},
		"another patch version":  {"v1.31.0", []string{one}, nil, "report v1.31.0, the version of MachinePool workers"},
		"another suffix":         {one, []string{other, other}, nil, "They report " + other + ","},
		"several":                {"v1.31.0", []string{other, one, other}, nil, "They report " + one + " and " + other + ","},
		"some":                   {one, []string{one, other, one}, nil, "They report " + other + ","},
		"a node that is deleted": {"v1.31.0", []string{old, one, one}, nil, ""},
		"a node without version": {"v1.31.0", []string{one, "", one}, nil, ""},
		"no nodes":               {"v1.31.0", nil, nil, ""},
		"nodes are not known":    {"v1.31.0", []string{one}, []func(*Facts){func(f *Facts) { f.Nodes.Problem = "no connection" }}, ""},
		"Terraform runs":         {"v1.31.0", []string{one}, []func(*Facts){applied(builder.NotUpToDate(infrav1.ProvisioningReason, "applying"))}, ""},
		"no topology":            {"v1.31.0", []string{one}, []func(*Facts){func(f *Facts) { f.MachinePool.Labels = nil }}, ""},
		"paused":                 {"v1.31.0", []string{one}, []func(*Facts){func(f *Facts) { f.Paused = "annotation" }}, ""},
	} {
		f := ofPool(func(f *Facts) {
			f.MachinePool.Spec.Template.Spec.Version, f.MachinePool.Labels = row.version, map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
		}, made(), func(f *Facts) {
			f.Nodes = nodes.Nodes{}
			for _, kubelet := range row.kubelets {
				f.Nodes.List = append(f.Nodes.List, nodes.Node{Version: kubelet, Ready: true})
			}
			for _, change := range row.changes {
				change(f)
			}
		})
		pool := builder.CAPTMachinePool("workers")
		report(pool, f)
		if row.want == "" {
			assert.False(t, conditions.Has(pool, infrav1.KubeletVersionsDifferCondition), name)
			continue
		}
		assert.True(t, conditions.IsTrue(pool, infrav1.KubeletVersionsDifferCondition), name)
		assert.Contains(t, conditions.GetMessage(pool, infrav1.KubeletVersionsDifferCondition), row.want, name)
		assert.True(t, isWarning(*conditions.Get(pool, infrav1.KubeletVersionsDifferCondition)), name)

		f.MachinePool.Spec.Template.Spec.Version = row.kubelets[0]
		f.Nodes.List = f.Nodes.List[:1]
		report(pool, f)
		assert.True(t, conditions.IsFalse(pool, infrav1.KubeletVersionsDifferCondition), "after the version was replaced: %s", name)

		f.MachinePool.Spec.Template.Spec.Version = row.version
		f.Nodes.List[0].Version = other
		report(pool, f)
		f.Nodes.List[0].Version = "" // It is about to be deleted.
		report(pool, f)
		assert.True(t, conditions.IsFalse(pool, infrav1.KubeletVersionsDifferCondition), "while a node is replaced: %s", name)
	}
}
