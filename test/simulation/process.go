// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// process is a manager process: its cache, its work queues and its webhooks. It implements what CAPT needs of a manager.
type process struct {
	ctrl.Manager
	world  *World
	name   string
	scheme *apiruntime.Scheme
	views  *views
	hooks  map[string]http.Handler

	controllers []controller.Controller
	mu          sync.Mutex
	queues      []*queue

	ctx     context.Context
	cancel  context.CancelFunc
	leading bool
	dead    bool
	// fenced is a process that has lost its leadership, and does not know it yet: it starts no further reconcile.
	fenced bool
}

// newProcess sets a process up; lead starts its controllers.
func (w *World) newProcess(name string, scheme *apiruntime.Scheme, setup func(ctx context.Context, mgr ctrl.Manager) error) *process {
	p := &process{world: w, name: name, scheme: scheme, views: newViews(w.store, scheme), hooks: map[string]http.Handler{}}
	p.ctx, p.cancel = context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	ctrlmetrics.Registry = prometheus.NewRegistry() // Each process has its own.
	must(setup(p.ctx, p))
	w.processes = append(w.processes, p)
	return p
}

// lead starts the controllers, whose workers then wait for the scheduler.
func (p *process) lead() {
	p.leading = true
	for _, c := range p.controllers {
		go func() { must(c.Start(p.ctx)) }()
	}
	synctest.Wait()
	slices.SortFunc(p.queues, func(a, b *queue) int { return compare(a.name, b.name) })
}

func (p *process) kill() {
	p.dead = true
	p.cancel()
	for _, s := range p.world.cloud.states {
		if s.lock == p.name {
			s.orphaned = true
		}
	}
	p.world.processes = slices.DeleteFunc(p.world.processes, func(other *process) bool { return other == p })
	for _, call := range p.world.parked {
		if call.process == p {
			close(call.resume)
		}
	}
	p.world.parked = slices.DeleteFunc(p.world.parked, func(call *parkedCall) bool { return call.process == p })
	synctest.Wait()
}

// exitIfDead ends the goroutine of a process that was killed.
func (p *process) exitIfDead() {
	if p.dead {
		runtime.Goexit()
	}
}

// Add implements manager.Manager.
func (p *process) Add(runnable manager.Runnable) error {
	c, ok := runnable.(controller.Controller)
	if !ok {
		return nil
	}
	// The field is exported by an internal package. Controllers that set no queue of their own have one that the scheduler controls.
	of := reflect.ValueOf(runnable).Elem()
	of.FieldByName("NewQueue").Set(reflect.ValueOf(func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q := newQueue(name, limiter)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queues = append(p.queues, q)
		return q
	}))
	of.FieldByName("MaxConcurrentReconciles").SetInt(1)
	p.controllers = append(p.controllers, c)
	return nil
}

// GetClient implements manager.Manager: Workspaces are read from the cache, Secrets never are.
func (p *process) GetClient() client.Client {
	return &api{world: p.world, process: p, user: p.name, scheme: p.scheme, uncached: func(object apiruntime.Object) bool {
		_, secret := object.(*corev1.Secret)
		return secret
	}}
}

// GetAPIReader implements manager.Manager.
func (p *process) GetAPIReader() client.Reader {
	return &api{world: p.world, process: p, user: p.name, scheme: p.scheme}
}

// GetCache implements manager.Manager.
func (p *process) GetCache() cache.Cache { return p.views }

// GetFieldIndexer implements manager.Manager.
func (p *process) GetFieldIndexer() client.FieldIndexer { return p.views }

// GetScheme implements manager.Manager.
func (p *process) GetScheme() *apiruntime.Scheme { return p.scheme }

// GetRESTMapper implements manager.Manager.
func (p *process) GetRESTMapper() meta.RESTMapper { return mapper() }

// GetConfig implements manager.Manager.
func (p *process) GetConfig() *rest.Config { return &rest.Config{} }

// GetLogger implements manager.Manager.
func (p *process) GetLogger() logr.Logger { return logr.Discard() }

// GetControllerOptions implements manager.Manager.
func (p *process) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true)}
}

// Elected implements manager.Manager.
func (p *process) Elected() <-chan struct{} { return make(chan struct{}) }

// GetEventRecorder implements manager.Manager.
func (p *process) GetEventRecorder(string) events.EventRecorder { return noEvents{} }

type noEvents struct{}

func (noEvents) Eventf(_, _ apiruntime.Object, _, _, _, _ string, _ ...any) {}

// GetWebhookServer implements manager.Manager.
func (p *process) GetWebhookServer() webhook.Server { return hooks{p: p} }

type hooks struct {
	webhook.Server
	p *process
}

// Register implements webhook.Server.
func (h hooks) Register(path string, handler http.Handler) { h.p.hooks[path] = handler }

// WebhookMux implements webhook.Server.
func (h hooks) WebhookMux() *http.ServeMux { return http.NewServeMux() }
