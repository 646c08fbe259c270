// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has all metrics that CAPT adds to those of controller-runtime: every name is here, and is
// registered once. Labels identify the object, and have no content of it.
package metrics

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
)

// objects is a collector of metrics of the objects in the cache (NewObjects; docs/metrics.md). It reads each kind once per scrape, without copies, so the series
// of an object end with it, and there is nothing to record between scrapes. Only the leader reports them: with every replica, each object would count twice.
// Those of the cache include objects that another manager reconciles.
type objects struct {
	ObjectsOptions
	info, state, condition, failing, nodes, stage, users, destroys, plan, blocked, cached description
}

// ObjectsOptions are what NewObjects needs.
type ObjectsOptions struct {
	// Cache must support client.UnsafeDisableDeepCopy.
	Cache client.Reader
	// Elected is closed when this manager becomes the leader.
	Elected <-chan struct{}
	// Watches reports whether this manager reconciles an object.
	Watches func(client.Object) bool
}

// NewObjects registers the metrics. It panics when they are already registered.
func NewObjects(registry prometheus.Registerer, options ObjectsOptions) {
	object := func(name, help string, labels ...string) description {
		return describe(name, help, append([]string{"kind", "namespace", "name", "cluster_name"}, labels...)...)
	}
	registry.MustRegister(&objects{
		ObjectsOptions: options,
		info:           object("capt_resource_info", "Information about an object; the value is 1.", "version", "workspace"),
		state:          object("capt_resource_state", "The current state of an object; the value is 1.", "state"),
		condition:      object("capt_resource_condition", "A condition of an object; the value is 1.", "condition", "status", "reason", "actor"),
		failing:        describe("capt_workspace_error", "1 while the Workspace of a WorkspaceTemplateApply fails, by class of the error.", "namespace", "name", "cluster_name", "class"),
		nodes:          describe("capt_machine_pool_nodes", "Number of nodes of a CAPTMachinePool by state (Wanted, Existing, Ready); absent if unknown.", "namespace", "name", "cluster_name", "state"),
		stage:          describe("capt_rollout_stage", "The stage of the staged rollout of a WorkspaceTemplate; the value is 1.", "namespace", "name", "stage"),
		users:          describe("capt_rollout_users", "Number of users of a WorkspaceTemplate in a staged rollout, by state.", "namespace", "name", "state"),
		destroys:       describe("capt_rollout_destroys", "Number of users of a WorkspaceTemplate in a staged rollout for which Terraform would replace or delete a resource, or may do so.", "namespace", "name"),
		plan:           describe("capt_pending_plan", "The plan of a revision or change that a WorkspaceTemplateApply has not got yet, by result; the value is 1.", "namespace", "name", "cluster_name", "result"),
		blocked:        describe("capt_dependency_blocked", "Number of objects whose dependencies are not ready, by reason.", "kind", "reason"),
		cached:         describe("capt_cache_objects", "Number of objects in the cache of the manager.", "kind"),
	})
}

func (m *objects) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []description{m.info, m.state, m.condition, m.failing, m.nodes, m.stage, m.users, m.destroys, m.plan, m.blocked, m.cached} {
		descriptions <- d.Desc
	}
}

func (m *objects) Collect(metrics chan<- prometheus.Metric) {
	const collectTimeout = 5 * time.Second // How long a scrape waits for a cache that is not synchronized.
	select {
	case <-m.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	s := &scrape{metrics: metrics, pairs: map[[2]string]*dto.LabelPair{}, blocked: map[[2]string]int{}}
	for kind, list := range map[string]client.ObjectList{
		"CAPTCluster": &infrav1.CAPTClusterList{}, "CAPTMachinePool": &infrav1.CAPTMachinePoolList{}, "CAPTControlPlane": &controlplanev1.CAPTControlPlaneList{},
		"WorkspaceTemplate": &infrav1.WorkspaceTemplateList{}, "WorkspaceTemplateApply": &infrav1.WorkspaceTemplateApplyList{},
	} {
		if err := m.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			// The scrape continues: the other metrics are needed most when the cache cannot be filled.
			ctrl.Log.WithName("metrics").Error(err, "Cannot list objects", "kind", kind)
			continue
		}
		s.gauge(m.cached, float64(meta.LenList(list)), kind)
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if object := item.(graphObject); m.Watches(object) {
				m.collect(s, kind, object)
			}
			return nil
		})
	}
	for labels, count := range s.blocked {
		s.gauge(m.blocked, float64(count), labels[:]...)
	}
}

type graphObject interface {
	client.Object
	graph.Object
}

// collect sends the metrics of one object, and counts it if it is blocked.
func (m *objects) collect(s *scrape, kind string, object graphObject) {
	labels := append(make([]string, 0, 7), kind, object.GetNamespace(), object.GetName(), object.GetLabels()[clusterv1.ClusterNameLabel])
	version, workspace := "", ""
	switch object := object.(type) {
	case *controlplanev1.CAPTControlPlane:
		version = object.Status.Version
	case *infrav1.CAPTMachinePool:
		version = object.Status.Version
		for state, count := range map[string]*int32{"Wanted": object.Status.WantedReplicas, "Existing": object.Status.Replicas, "Ready": object.Status.ReadyReplicas} {
			if count != nil {
				s.gauge(m.nodes, float64(*count), append(labels, state)[1:]...)
			}
		}
	case *infrav1.WorkspaceTemplate:
		m.collectRollout(s, object)
	case *infrav1.WorkspaceTemplateApply:
		workspace = object.Status.WorkspaceName
		if class := object.Status.LastFailureClass; class != "" {
			s.gauge(m.failing, 1, append(labels, class)[1:]...)
		}
		if plan := overview.PlanOf(object); plan != nil {
			s.gauge(m.plan, 1, append(labels, plan.Preview.Outcome())[1:]...)
		}
	}
	s.gauge(m.info, 1, append(labels, version, workspace)...)
	s.gauge(m.state, 1, append(labels, string(overview.StateOf(object)))...)
	for _, condition := range object.GetConditions() {
		s.gauge(m.condition, 1, append(labels, condition.Type, string(condition.Status), condition.Reason, string(reasons.Of(condition.Reason).Actor))...)
		if condition.Type == infrav1.DependenciesReadyCondition && condition.Status != metav1.ConditionTrue {
			s.blocked[[2]string{kind, condition.Reason}]++
		}
	}
}

func (m *objects) collectRollout(s *scrape, template *infrav1.WorkspaceTemplate) {
	rollout := &template.Status.Rollout
	if rollout.Stage == "" {
		return
	}
	if destroys := rollout.PreviewedDestroy; destroys != nil {
		s.gauge(m.destroys, float64(*destroys), template.Namespace, template.Name)
	}
	s.gauge(m.stage, 1, template.Namespace, template.Name, string(rollout.Stage))
	for state, count := range map[string]*int32{
		"Current": rollout.Current, "Updating": rollout.Updating, "Waiting": rollout.Waiting, "Failed": rollout.Failed, "Stalled": rollout.Stalled, "LeftBehind": rollout.LeftBehind,
	} {
		s.gauge(m.users, float64(ptr.Deref(count, 0)), template.Namespace, template.Name, state)
	}
}

// description has the names of the labels, which prometheus.Desc does not give.
type description struct {
	*prometheus.Desc
	labels []string
}

func describe(name, help string, labels ...string) description {
	return description{prometheus.NewDesc(name, help, labels, nil), labels}
}

// scrape collects metrics once. Series share the label pairs that they have in common: a constant metric of client_golang has its own, which were
// more than half of what a scrape allocated.
type scrape struct {
	metrics chan<- prometheus.Metric
	pairs   map[[2]string]*dto.LabelPair
	// blocked objects by kind and reason.
	blocked map[[2]string]int
}

func (s *scrape) gauge(of description, value float64, labels ...string) {
	metric := series{description: of.Desc, value: value, labels: make([]*dto.LabelPair, len(labels))}
	for i, label := range labels {
		key := [2]string{of.labels[i], label}
		if s.pairs[key] == nil {
			s.pairs[key] = &dto.LabelPair{Name: ptr.To(key[0]), Value: ptr.To(key[1])}
		}
		metric.labels[i] = s.pairs[key]
	}
	slices.SortFunc(metric.labels, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	s.metrics <- &metric
}

// series implements prometheus.Metric.
type series struct {
	description *prometheus.Desc
	value       float64
	labels      []*dto.LabelPair
}

func (s *series) Desc() *prometheus.Desc { return s.description }

func (s *series) Write(to *dto.Metric) error {
	to.Label, to.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}
