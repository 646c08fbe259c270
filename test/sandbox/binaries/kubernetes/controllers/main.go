// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command controllers is kube-controller-manager with only the controllers that the sandbox needs: garbage collection, namespaces and service
// accounts. Compiling the others, with everything that they need of nodes, volumes and clouds, would take a minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// These are the defaults of kube-controller-manager.
const (
	discoveryPeriod  = 30 * time.Second
	namespacePeriod  = 5 * time.Minute
	resyncPeriod     = 12 * time.Hour
	gcWorkers        = 20
	namespaceWorkers = 10
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of system:kube-controller-manager")
	health := flag.String("health-addr", "", "address that serves /healthz")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *health); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts the controllers. Each has its own service account, as in a real cluster: admission rules exempt the garbage collector by its user
// name.
func run(ctx context.Context, kubeconfig, health string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // The API server limits requests.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	accounts := clientbuilder.NewDynamicClientBuilder(rest.AnonymousClientConfig(config), client.CoreV1(), metav1.NamespaceSystem)
	shared, started := informers.NewSharedInformerFactory(client, resyncPeriod), make(chan struct{})
	startGarbageCollector, err := newGarbageCollector(ctx, config, accounts, shared, started)
	if err != nil {
		return err
	}
	startNamespaces, err := newNamespaces(ctx, accounts, shared)
	if err != nil {
		return err
	}
	serviceAccounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), shared.Core().V1().ServiceAccounts(), shared.Core().V1().Namespaces(),
		accounts.ClientOrDie("service-account-controller"), serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	startGarbageCollector()
	go startNamespaces()
	go serviceAccounts.Run(ctx, 1)
	shared.Start(ctx.Done())
	close(started)
	return serve(ctx, health)
}

func newGarbageCollector(
	ctx context.Context, config *rest.Config, accounts clientbuilder.ControllerClientBuilder, shared informers.SharedInformerFactory, started chan struct{},
) (start func(), err error) {
	const account = "generic-garbage-collector"
	watching, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	own, err := accounts.Config(account)
	if err != nil {
		return nil, err
	}
	deleting, err := metadata.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	client, err := accounts.Client(account)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	metadataInformers := metadatainformer.NewSharedInformerFactory(watching, resyncPeriod)
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, watching, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(shared, metadataInformers), started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, client, deleting, mapper, graph)
	return func() {
		metadataInformers.Start(ctx.Done())
		go wait.Until(mapper.Reset, discoveryPeriod, ctx.Done())
		go collector.Run(ctx, gcWorkers, discoveryPeriod)
		go collector.Sync(ctx, client.Discovery(), discoveryPeriod)
	}, err
}

func newNamespaces(ctx context.Context, accounts clientbuilder.ControllerClientBuilder, shared informers.SharedInformerFactory) (start func(), err error) {
	config, err := accounts.Config("namespace-controller")
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	deleting, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	controller := namespace.NewNamespaceController(ctx, client, deleting, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), namespacePeriod, corev1.FinalizerKubernetes)
	return func() { controller.Run(ctx, namespaceWorkers) }, nil
}

// serve serves /healthz until the context ends.
func serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
