// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
)

// collectTimeout is how long a scrape waits for a cache that is not synchronized.
const collectTimeout = 5 * time.Second

// objects is a collector of metrics of the objects in the cache. It reads each kind once per scrape, without copies, so the series of an object
// end with it, and there is nothing to record between scrapes. Only the leader reports them: with every replica, each object would count twice.
//
//   - capt_resource_info{kind,namespace,name,cluster_name,version,workspace}: 1.
//   - capt_resource_state{kind,namespace,name,cluster_name,state}: 1 for the current state.
//   - capt_resource_condition{kind,namespace,name,cluster_name,condition,status,reason}: 1 for each condition.
//   - capt_workspace_error{namespace,name,cluster_name,class}: 1 while the Workspace of a WorkspaceTemplateApply fails.
//   - capt_rollout_stage{namespace,name,stage}: 1 for the stage of a staged rollout of a WorkspaceTemplate.
//   - capt_rollout_users{namespace,name,state}: the number of users of the template by state.
//   - capt_dependency_blocked{kind,reason}: the number of objects whose condition DependenciesReady is not True.
//   - capt_cache_objects{kind}: the number of objects in the cache, including those that another manager reconciles.
type objects struct {
	ObjectsOptions
	info, state, condition, failing, stage, users, blocked, cached *prometheus.Desc
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
	object := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"kind", "namespace", "name", "cluster_name"}, labels...), nil)
	}
	registry.MustRegister(&objects{
		ObjectsOptions: options,
		info:           object("capt_resource_info", "Information about an object; the value is 1.", "version", "workspace"),
		state:          object("capt_resource_state", "The current state of an object; the value is 1.", "state"),
		condition:      object("capt_resource_condition", "A condition of an object; the value is 1.", "condition", "status", "reason"),
		failing: prometheus.NewDesc("capt_workspace_error", "1 while the Workspace of a WorkspaceTemplateApply fails, by class of the error.",
			[]string{"namespace", "name", "cluster_name", "class"}, nil),
		stage:   prometheus.NewDesc("capt_rollout_stage", "The stage of the staged rollout of a WorkspaceTemplate; the value is 1.", []string{"namespace", "name", "stage"}, nil),
		users:   prometheus.NewDesc("capt_rollout_users", "Number of users of a WorkspaceTemplate in a staged rollout, by state.", []string{"namespace", "name", "state"}, nil),
		blocked: prometheus.NewDesc("capt_dependency_blocked", "Number of objects whose dependencies are not ready, by reason.", []string{"kind", "reason"}, nil),
		cached:  prometheus.NewDesc("capt_cache_objects", "Number of objects in the cache of the manager.", []string{"kind"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (m *objects) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{m.info, m.state, m.condition, m.failing, m.stage, m.users, m.blocked, m.cached} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (m *objects) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-m.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	blocked := map[[2]string]int{}
	for kind, list := range map[string]client.ObjectList{
		"CAPTCluster": &infrav1.CAPTClusterList{}, "CAPTControlPlane": &controlplanev1.CAPTControlPlaneList{},
		"WorkspaceTemplate": &infrav1.WorkspaceTemplateList{}, "WorkspaceTemplateApply": &infrav1.WorkspaceTemplateApplyList{},
	} {
		if err := m.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			// The scrape continues: the other metrics are needed most when the cache cannot be filled.
			ctrl.Log.WithName("metrics").Error(err, "Cannot list objects", "kind", kind)
			continue
		}
		metrics <- gauge(m.cached, float64(meta.LenList(list)), kind)
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if object := item.(graphObject); m.Watches(object) {
				m.collect(metrics, kind, object, blocked)
			}
			return nil
		})
	}
	for labels, count := range blocked {
		metrics <- gauge(m.blocked, float64(count), labels[:]...)
	}
}

type graphObject interface {
	client.Object
	graph.Object
}

// collect sends the metrics of one object, and counts it if it is blocked.
func (m *objects) collect(metrics chan<- prometheus.Metric, kind string, object graphObject, blocked map[[2]string]int) {
	labels := []string{kind, object.GetNamespace(), object.GetName(), object.GetLabels()[clusterv1.ClusterNameLabel]}
	labels = labels[:len(labels):len(labels)]
	version, workspace := "", ""
	switch object := object.(type) {
	case *controlplanev1.CAPTControlPlane:
		version = object.Status.Version
	case *infrav1.WorkspaceTemplate:
		m.collectRollout(metrics, object)
	case *infrav1.WorkspaceTemplateApply:
		workspace = object.Status.WorkspaceName
		if class := object.Status.LastFailureClass; class != "" {
			metrics <- gauge(m.failing, 1, append(labels, class)[1:]...)
		}
	}
	metrics <- gauge(m.info, 1, append(labels, version, workspace)...)
	metrics <- gauge(m.state, 1, append(labels, string(overview.StateOf(object)))...)
	for _, condition := range object.GetConditions() {
		metrics <- gauge(m.condition, 1, append(labels, condition.Type, string(condition.Status), condition.Reason)...)
		if condition.Type == infrav1.DependenciesReadyCondition && condition.Status != metav1.ConditionTrue {
			blocked[[2]string{kind, condition.Reason}]++
		}
	}
}

// collectRollout sends the metrics of a staged rollout.
func (m *objects) collectRollout(metrics chan<- prometheus.Metric, template *infrav1.WorkspaceTemplate) {
	s := &template.Status.Rollout
	if s.Stage == "" {
		return
	}
	metrics <- gauge(m.stage, 1, template.Namespace, template.Name, string(s.Stage))
	for state, count := range map[string]*int32{"Current": s.Current, "Updating": s.Updating, "Waiting": s.Waiting, "Failed": s.Failed} {
		metrics <- gauge(m.users, float64(ptr.Deref(count, 0)), template.Namespace, template.Name, state)
	}
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}
