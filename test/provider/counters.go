// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capt-provider/capt/test/provider/api"
)

// runs is shared by both controllers: a registry takes a name once.
var runs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capt_test_provider_runs_total",
	Help: "Terraform commands started for a Workspace, by operation: init, plan, apply, destroy.",
}, []string{"operation", "group", "namespace", "name"})

func init() { metrics.Registry.MustRegister(runs) }

const (
	operationInit    = "init"
	operationPlan    = "plan"
	operationApply   = "apply"
	operationDestroy = "destroy"
)

func count(w workspace, operation string) {
	group := api.NamespacedWorkspaceKind.Group
	if w.GetNamespace() == "" {
		group = api.ClusterWorkspaceKind.Group
	}
	runs.WithLabelValues(operation, group, w.GetNamespace(), w.GetName()).Inc()
}
