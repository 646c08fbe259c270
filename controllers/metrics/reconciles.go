// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/cert"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
)

// Reconciles has metrics of what reconciles of all kinds observe. A nil Reconciles records nothing. What began before this process started is
// not measured. docs/metrics.md describes all metrics of this package.
type Reconciles struct {
	transitions, writes, errors, previews *prometheus.CounterVec
	durations, ready, deletions           *prometheus.HistogramVec
	rollouts                              prometheus.Histogram

	mu      sync.Mutex
	objects map[graph.Key]lastSeen
}

type lastSeen struct {
	state infrav1.State
	// since is when the state began, created when an object was created that has not been Ready; zero if unknown.
	since, created time.Time
	deleted        time.Time
	// errorClass is the class of the error of the Workspace; empty while it does not fail.
	errorClass string
	// stage is the stage of the rollout of a WorkspaceTemplate; empty without one.
	stage infrav1.RolloutStage
	// previewed is when the last preview of a WorkspaceTemplateApply was completed.
	previewed metav1.Time
}

// NewReconciles registers the metrics. It panics when they are already registered.
func NewReconciles(registry prometheus.Registerer) *Reconciles {
	auto := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		// From 15 seconds to 4.5 hours: a control plane takes about 12 minutes.
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(15, 1.6, 16)}, labels)
	}
	return &Reconciles{
		objects:     map[graph.Key]lastSeen{},
		transitions: counter("capt_state_transitions_total", "Transitions of the states of objects.", "kind", "from", "to"),
		writes:      counter("capt_status_writes_total", "Reconciles that computed a status, by whether it changed and was written.", "kind", "changed"),
		errors:      counter("capt_workspace_errors_total", "Number of times that a Workspace began to fail, by class of the error.", "class"),
		durations:   histogram("capt_state_duration_seconds", "How long objects stayed in a state, observed when they left it.", "kind", "state"),
		ready:       histogram("capt_time_to_ready_seconds", "Duration from the creation of an object until it was first Ready.", "kind"),
		deletions:   histogram("capt_deletion_duration_seconds", "Duration from the deletion request for an object until it no longer existed.", "kind"),
		previews:    counter("capt_previews_total", "Results of previews, by result.", "result"),
		rollouts: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_rollout_duration_seconds", Help: "How long staged rollouts of WorkspaceTemplates took, observed when they were complete.",
			Buckets: prometheus.ExponentialBuckets(60, 2, 14), // From one minute to 5.7 days: some wait for an approval.
		}),
	}
}

// StatusComputed records an object whose status is as computed: it was written, unless it did not change.
func (m *Reconciles) StatusComputed(object graph.Object, changed bool, now time.Time) {
	if m == nil {
		return
	}
	m.writes.WithLabelValues(graph.NodeOf(object).Kind, strconv.FormatBool(changed)).Inc()
	m.Observe(object, now)
}

// Observe records an object as a reconcile read or wrote it. It is idempotent.
func (m *Reconciles) Observe(object graph.Object, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := graph.NodeOf(object).Key
	is := lastSeen{state: overview.StateOf(object), errorClass: errorClass(object)}
	preview := is.observeRollout(object)
	if at := object.GetDeletionTimestamp(); at != nil {
		is.deleted = at.Time
	}
	if was, known := m.objects[key]; known {
		m.compare(key.Kind, was, &is, now)
		m.compareRollout(object, was, is, preview, now)
	} else if is.state == infrav1.StatePending {
		is.since, is.created = object.GetCreationTimestamp().Time, object.GetCreationTimestamp().Time
	}
	m.objects[key] = is
}

// compare records what changed since the last observation.
func (m *Reconciles) compare(kind string, was lastSeen, is *lastSeen, now time.Time) {
	is.since, is.created = was.since, was.created
	if is.state != was.state {
		m.transitions.WithLabelValues(kind, string(was.state), string(is.state)).Inc()
		if !was.since.IsZero() {
			m.durations.WithLabelValues(kind, string(was.state)).Observe(seconds(was.since, now))
		}
		is.since = now
	}
	if is.state == infrav1.StateReady && !is.created.IsZero() {
		m.ready.WithLabelValues(kind).Observe(seconds(is.created, now))
		is.created = time.Time{}
	}
	if is.errorClass != "" && is.errorClass != was.errorClass {
		m.errors.WithLabelValues(is.errorClass).Inc()
	}
}

// observeRollout sets what is observed of rollouts and previews, and returns the result of the last preview.
func (l *lastSeen) observeRollout(object graph.Object) (result string) {
	switch object := object.(type) {
	case *infrav1.WorkspaceTemplate:
		l.stage = object.Status.Rollout.Stage
	case *infrav1.WorkspaceTemplateApply:
		for _, preview := range []*infrav1.RevisionPreview{&object.Status.Preview, &object.Status.Change.Preview} {
			if at := preview.CompletionTime; at != nil && at.After(l.previewed.Time) {
				l.previewed, result = *at, preview.Outcome()
			}
		}
	}
	return result
}

// compareRollout records a rollout that was completed, and the result of another preview. status has the time at which a rollout started, so that it
// may have started before this process.
func (m *Reconciles) compareRollout(object graph.Object, was, is lastSeen, preview string, now time.Time) {
	completed := was.stage != "" && was.stage != is.stage && is.stage == infrav1.RolloutComplete
	if template, ok := object.(*infrav1.WorkspaceTemplate); ok && completed && template.Status.Rollout.StartTime != nil {
		m.rollouts.Observe(seconds(template.Status.Rollout.StartTime.Time, now))
	}
	if is.previewed.After(was.previewed.Time) {
		m.previews.WithLabelValues(preview).Inc()
	}
}

// Deleted records that an object no longer exists; object has its kind only.
func (m *Reconciles) Deleted(object graph.Object, name types.NamespacedName, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := graph.Key{Kind: graph.NodeOf(object).Kind, Namespace: name.Namespace, Name: name.Name}
	if was := m.objects[key]; !was.deleted.IsZero() {
		m.deletions.WithLabelValues(key.Kind).Observe(seconds(was.deleted, now))
	}
	delete(m.objects, key)
}

func errorClass(object graph.Object) string {
	if apply, ok := object.(*infrav1.WorkspaceTemplateApply); ok {
		return apply.Status.LastFailureClass
	}
	return ""
}

// NewManager registers metrics of the process itself, which every replica reports. It must be called before the manager is created, and
// panics when they are already registered. The wait for the rate limit has no label for the path, which would have the names of objects, and the expiry of
// the certificate is absent while the file cannot be read.
func NewManager(registry prometheus.Registerer, certificateFile string) {
	wait := promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "capt_client_rate_limiter_wait_seconds", Help: "How long requests to the API server waited for the rate limit of the manager (--kube-api-qps, --kube-api-burst).",
		Buckets: []float64{0.005, 0.05, 0.25, 1, 5, 15, 60},
	}, []string{"verb"})
	registry.MustRegister(version.NewCollector("capt"), certificate{certificateFile, prometheus.NewDesc(
		"capt_webhook_certificate_expiry_timestamp_seconds", "Time when the certificate of the webhooks expires.", nil, nil)})
	// Register of client-go's metrics works only once, and controller-runtime calls it for other metrics.
	clientmetrics.RateLimiterLatency = rateLimiterWait{wait}
}

// rateLimiterWait implements clientmetrics.LatencyMetric.
type rateLimiterWait struct{ histogram *prometheus.HistogramVec }

func (w rateLimiterWait) Observe(_ context.Context, verb string, _ url.URL, latency time.Duration) {
	w.histogram.WithLabelValues(verb).Observe(latency.Seconds())
}

// certificate is a collector that reads the certificate in a file.
type certificate struct {
	file        string
	description *prometheus.Desc
}

func (c certificate) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.description }

func (c certificate) Collect(metrics chan<- prometheus.Metric) {
	if chain, err := cert.CertsFromFile(c.file); err == nil {
		metrics <- gauge(c.description, float64(chain[0].NotAfter.Unix()))
	}
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

// NewPreviews registers capt_previews{state}, a gauge: how many objects have a preview (Running), and how many wait for one to end (Waiting). Only the
// leader has any. It panics when it is already registered.
func NewPreviews(registry prometheus.Registerer, count func() (running, waiting int)) {
	for _, state := range []string{"Running", "Waiting"} {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "capt_previews", Help: "Number of objects with a preview, and of those that wait for one to end.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 {
			running, waiting := count()
			return float64(map[string]int{"Running": running, "Waiting": waiting}[state])
		})
	}
}

// Plans has metrics of the plans in the log of provider-terraform. A nil Plans records nothing.
type Plans struct {
	reads *prometheus.CounterVec
	age   prometheus.Histogram
}

// NewPlans registers the metrics. It panics when they are already registered.
func NewPlans(registry prometheus.Registerer) *Plans {
	auto := promauto.With(registry)
	return &Plans{
		reads: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "capt_plan_reads_total", Help: "Previews whose plan was read from the log of provider-terraform (Read), or is not known, by reason.",
		}, []string{"result"}),
		age: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_plan_log_age_seconds", Help: "How old the log entry of a plan was when it was read.", Buckets: prometheus.ExponentialBuckets(0.5, 2, 12),
		}),
	}
}

// Read records a plan that was read, and the age of its log entry.
func (m *Plans) Read(age time.Duration) {
	if m != nil {
		m.reads.WithLabelValues("Read").Inc()
		m.age.Observe(max(0, age.Seconds())) // The clock of the provider may be ahead.
	}
}

// Unknown records a plan that is not known.
func (m *Plans) Unknown(reason string) {
	if m != nil {
		m.reads.WithLabelValues(reason).Inc()
	}
}

// Unclaimed is capt_workspace_unclaimed_seconds{namespace,name}, a gauge: how long the manager has observed the Workspace of a
// WorkspaceTemplateApply that provider-terraform has not reconciled yet; absent otherwise. A nil Unclaimed records nothing.
type Unclaimed struct {
	description *prometheus.Desc
	since       sync.Map // types.NamespacedName to time.Time
}

// NewUnclaimed registers the metric. It panics when it is already registered.
func NewUnclaimed(registry prometheus.Registerer) *Unclaimed {
	m := &Unclaimed{description: prometheus.NewDesc("capt_workspace_unclaimed_seconds",
		"How long the manager has observed a Workspace that provider-terraform has not reconciled yet.", []string{"namespace", "name"}, nil)}
	registry.MustRegister(m)
	return m
}

// Report records for how long a Workspace has been unclaimed; zero means that it is not.
func (m *Unclaimed) Report(apply types.NamespacedName, unclaimed time.Duration) {
	switch {
	case m == nil:
	case unclaimed > 0:
		m.since.Store(apply, time.Now().Add(-unclaimed))
	default:
		m.since.Delete(apply)
	}
}

// Describe implements prometheus.Collector.
func (m *Unclaimed) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- m.description }

// Collect implements prometheus.Collector.
func (m *Unclaimed) Collect(metrics chan<- prometheus.Metric) {
	m.since.Range(func(apply, since any) bool {
		key := apply.(types.NamespacedName)
		metrics <- gauge(m.description, time.Since(since.(time.Time)).Seconds(), key.Namespace, key.Name)
		return true
	})
}

// Kubeconfigs is capt_kubeconfig_expiry_timestamp_seconds{namespace,name}, a gauge: when the token in the kubeconfig of a CAPTControlPlane
// expires; absent without a token. A nil Kubeconfigs records nothing.
type Kubeconfigs struct{ expiry objectGauge }

// NewKubeconfigs registers the metric. It panics when it is already registered.
func NewKubeconfigs(registry prometheus.Registerer) *Kubeconfigs {
	return &Kubeconfigs{newObjectGauge(registry, "capt_kubeconfig_expiry_timestamp_seconds", "Time when the token in the kubeconfig of a CAPTControlPlane expires.")}
}

// Report records when the token expires; zero means that there is none.
func (m *Kubeconfigs) Report(controlPlane types.NamespacedName, expiry time.Time) {
	if m != nil {
		m.expiry.set(controlPlane, !expiry.IsZero(), float64(expiry.Unix()))
	}
}
