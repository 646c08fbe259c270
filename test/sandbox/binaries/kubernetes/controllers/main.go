// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command controllers is kube-controller-manager with only the controllers that the sandbox needs: garbage collection, namespaces, service
// accounts, and the aggregation of ClusterRoles. Compiling the others, with everything that they need of nodes, volumes and clouds, would take
// a minute.
package main

import (
	"context"
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
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// These are the defaults of kube-controller-manager.
const (
	discoveryPeriod    = 30 * time.Second
	namespacePeriod    = 5 * time.Minute
	resyncPeriod       = 12 * time.Hour
	gcWorkers          = 20
	namespaceWorkers   = 10
	aggregationWorkers = 5
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of system:kube-controller-manager")
	health := flag.String("health-addr", "", "address that serves /healthz")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: *health, ReadHeaderTimeout: time.Minute}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	err := start(ctx, *kubeconfig)
	if err == nil {
		err = server.ListenAndServe()
	}
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start starts the controllers. Each has its own service account, as in a real cluster: admission rules exempt the garbage collector by its user
// name.
func start(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // The API server limits requests.
	client := kubernetes.NewForConfigOrDie(config)
	accounts := clientbuilder.NewDynamicClientBuilder(rest.AnonymousClientConfig(config), client.CoreV1(), metav1.NamespaceSystem)
	shared, started := informers.NewSharedInformerFactory(client, resyncPeriod), make(chan struct{})

	watching := metadata.NewForConfigOrDie(config)
	metadataInformers := metadatainformer.NewSharedInformerFactory(watching, resyncPeriod)
	collecting := accounts.ClientOrDie("generic-garbage-collector")
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(collecting.Discovery()))
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, watching, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(shared, metadataInformers), started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, collecting,
		metadata.NewForConfigOrDie(accounts.ConfigOrDie("generic-garbage-collector")), mapper, graph)
	if err != nil {
		return err
	}

	emptying := accounts.ClientOrDie("namespace-controller")
	namespaces := namespace.NewNamespaceController(ctx, emptying, metadata.NewForConfigOrDie(accounts.ConfigOrDie("namespace-controller")),
		emptying.Discovery().ServerPreferredNamespacedResources, shared.Core().V1().Namespaces(), namespacePeriod, corev1.FinalizerKubernetes)
	serviceAccounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), shared.Core().V1().ServiceAccounts(), shared.Core().V1().Namespaces(),
		accounts.ClientOrDie("service-account-controller"), serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	aggregation := clusterroleaggregation.NewClusterRoleAggregation(shared.Rbac().V1().ClusterRoles(),
		accounts.ClientOrDie("clusterrole-aggregation-controller").RbacV1())

	go wait.Until(mapper.Reset, discoveryPeriod, ctx.Done())
	go collector.Run(ctx, gcWorkers, discoveryPeriod)
	go collector.Sync(ctx, collecting.Discovery(), discoveryPeriod)
	go namespaces.Run(ctx, namespaceWorkers)
	go serviceAccounts.Run(ctx, 1)
	go aggregation.Run(ctx, aggregationWorkers)
	shared.Start(ctx.Done())
	metadataInformers.Start(ctx.Done())
	close(started)
	return nil
}
