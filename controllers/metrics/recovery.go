// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Recovery has metrics of recovery actions. A nil Recovery records nothing.
//
//   - capt_recovery_attempts_total{kind,class,action,result}: attempts that have ended. class is that of the error.
//   - capt_recovery_next_attempt_timestamp_seconds{namespace,name}: when the next attempt starts; absent when none is planned.
//   - capt_recovery_exhausted{namespace,name}: 1 while all attempts have failed, else absent.
type Recovery struct {
	attempts        *prometheus.CounterVec
	next, exhausted *prometheus.GaugeVec
	lock            sync.Mutex
	// ended is when the last attempt that was counted started: a reconcile whose status write fails is repeated.
	ended map[types.NamespacedName]time.Time
}

// NewRecovery registers the metrics. It panics when they are already registered.
func NewRecovery(registry prometheus.Registerer) *Recovery {
	object := []string{"namespace", "name"}
	m := &Recovery{
		ended:     map[types.NamespacedName]time.Time{},
		attempts:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "capt_recovery_attempts_total", Help: "Recovery attempts that have ended."}, []string{"kind", "class", "action", "result"}),
		next:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "capt_recovery_next_attempt_timestamp_seconds", Help: "Time of the next recovery attempt of a CAPTControlPlane."}, object),
		exhausted: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "capt_recovery_exhausted", Help: "1 while all recovery attempts of a CAPTControlPlane have failed."}, object),
	}
	registry.MustRegister(m.attempts, m.next, m.exhausted)
	return m
}

// Ended counts an attempt of a control plane, once.
func (m *Recovery) Ended(key types.NamespacedName, started time.Time, class, action, result string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.ended[key].Equal(started) {
		return
	}
	m.ended[key] = started
	m.attempts.WithLabelValues("CAPTControlPlane", class, action, result).Inc()
}

// Report records what is next.
func (m *Recovery) Report(key types.NamespacedName, next *metav1.Time, exhausted bool) {
	if next != nil {
		m.next.WithLabelValues(key.Namespace, key.Name).Set(float64(next.Unix()))
	} else {
		m.next.DeleteLabelValues(key.Namespace, key.Name)
	}
	if exhausted {
		m.exhausted.WithLabelValues(key.Namespace, key.Name).Set(1)
	} else {
		m.exhausted.DeleteLabelValues(key.Namespace, key.Name)
	}
}

// Forget removes what is recorded about a control plane.
func (m *Recovery) Forget(key types.NamespacedName) {
	if m == nil {
		return
	}
	m.Report(key, nil, false)
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.ended, key)
}
