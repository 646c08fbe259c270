// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// The manager runs CAPT's controllers and webhooks.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/webhooks/admission"
	"github.com/capt-provider/capt/webhooks/conversion"
)

func main() {
	options := newOptions()
	command := options.command()
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// maxRequestDuration is the maximum time that the API server waits for a response: 30 seconds for a conversion, less for all other requests.
const maxRequestDuration = 30 * time.Second

// delayed returns a context that is canceled when the time has passed after the cancellation of the given one. Until then, Services learn that
// this replica ends, and the API server closes its connections (see drainingServer).
func delayed(ctx context.Context, delay time.Duration) context.Context {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, stop) })
	return running
}

// drainingServer is a webhook server that rarely loses a request on shutdown. The API server reuses connections, and does not retry a request
// on a connection that is closed at the same moment. So responses close their connections from the signal on, and only connections that were idle
// for the whole delay are closed at its end. HTTP/1.1, which the API server uses, cannot exclude a request on one of them at that moment.
type drainingServer struct {
	webhook.Server
	// signal is canceled by the signal to stop, before the server is.
	signal context.Context
}

// Register serves a path.
func (s *drainingServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.signal.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		// The context of the server cancels the context of the request. Requests that were accepted must still be completed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxRequestDuration)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// synced returns a readiness check that succeeds when the caches are synced. There is one exception, to prevent a deadlock: to fill the caches,
// the API server must convert objects that are stored in v1beta1, and it sends conversion requests only to ready replicas. So the check also
// succeeds if needed reports that no other replica converts.
func synced(mgr ctrl.Manager, needed func(context.Context) bool) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if mgr.GetCache().WaitForCacheSync(ctx) || needed(request.Context()) {
			return nil
		}
		return errors.New("the caches are not synced yet")
	}
}

// converted are the cached kinds that have two versions.
var converted = []schema.GroupVersionResource{
	infrav1.GroupVersion.WithResource("captclusters"),
	infrav1.GroupVersion.WithResource("workspacetemplates"),
	infrav1.GroupVersion.WithResource("workspacetemplateapplies"),
	controlplanev1.GroupVersion.WithResource("captcontrolplanes"),
}

// converterNeeded returns a function that reports whether the API server cannot list a kind because no replica serves conversion.
func converterNeeded(config *rest.Config, namespace string) (func(context.Context) bool, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client := clients.Discovery().RESTClient()
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, resource := range converted {
			path := []string{"apis", resource.Group, resource.Version}
			if namespace != "" {
				path = append(path, "namespaces", namespace)
			}
			// Without retries: client-go would follow Retry-After of the response, and not return the error for minutes. The message is the
			// one of the API server for a failed conversion.
			err := client.Get().AbsPath(append(path, resource.Resource)...).
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
				MaxRetries(0).Do(ctx).Error()
			if err != nil && strings.Contains(err.Error(), "conversion webhook for ") {
				return true
			}
		}
		return false
	}, nil
}

// scheme returns the scheme of the controllers with the older API version, which only the webhooks use.
func scheme() *runtime.Scheme {
	s := controllers.Scheme()
	utilruntime.Must(conversion.AddToScheme(s))
	return s
}

// setupWebhooks adds the conversion and admission webhooks. Every replica serves them, not only the leader; a replica is ready when its server
// responds.
func setupWebhooks(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	if err := conversion.SetupWebhookWithManager(mgr, ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("setting up conversion: %w", err)
	}
	if err := admission.SetupWebhookWithManager(ctx, mgr, namespace); err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	return mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker())
}
