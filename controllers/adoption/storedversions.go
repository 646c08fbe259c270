// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
)

// StoredVersions migrates the stored versions of CAPT's CustomResourceDefinitions: it starts the CRD migrator when no object of the management cluster awaits adoption: the migration cannot be reverted, so the
// migrator does not even run before that.
type StoredVersions struct {
	// Cached lists watched objects.
	Cached client.Reader
	// Uncached lists objects of the whole management cluster; nil if the cache has all namespaces.
	Uncached client.Reader
	// Metrics has the number of objects that await adoption.
	Metrics *prometheus.GaugeVec
	// Start adds the CRD migrator to the manager. It is called until it succeeds.
	Start func() error

	// The controller has one worker, so these fields need no lock.
	started  bool
	reported int
}

// The CRD migrator patches definitions, and objects of theirs. Permissions for other kinds are those of their controllers.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions;customresourcedefinitions/status,verbs=patch,resourceNames=captclusters.infrastructure.cluster.x-k8s.io;captcontrolplanes.controlplane.cluster.x-k8s.io;captcontrolplanetemplates.controlplane.cluster.x-k8s.io;workspacetemplateapplies.infrastructure.cluster.x-k8s.io;workspacetemplates.infrastructure.cluster.x-k8s.io
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanetemplates,verbs=get;list;patch

// Reconcile counts the objects that await adoption, and starts the migrator when there are none.
func (r *StoredVersions) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	found, err := r.awaitingAdoption(ctx)
	if apierrors.IsForbidden(err) { // Retries do not help.
		err = reconcile.TerminalError(err)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("stored versions are not migrated: %w", err)
	}
	log := ctrl.LoggerFrom(ctx)
	for kind, count := range found.byKind {
		r.Metrics.WithLabelValues(kind).Set(float64(count))
	}
	switch {
	case r.started:
		return ctrl.Result{}, nil
	case found.total > 0:
		if r.reported != found.total {
			log.Info("Waiting to migrate stored versions: objects of CAPT v0.3 have not been adopted. Adopt them with captctl migrate (see captctl migrate check); "+
				"for helpers and objects of CaptMachines it is sufficient to set spec.deletionPolicy to Retain",
				"objects", found.total, "kind", found.kind, "example", klog.KRef(found.object.GetNamespace(), found.object.GetName()))
			r.reported = found.total
		}
		return ctrl.Result{}, nil
	}
	log.Info("All objects are adopted: migrating stored versions")
	if err := r.Start(); err != nil {
		return ctrl.Result{}, fmt.Errorf("starting the CRD migrator: %w", err)
	}
	r.started = true
	return ctrl.Result{}, nil
}

// setupStoredVersions adds the controller, unless StorageVersionMigration is skipped. The CRD migrator marks definitions as done when it
// skips that phase, and would not migrate them after the flag is removed. The other phase has nothing to do while v1beta1 is served.
func setupStoredVersions(ctx context.Context, mgr ctrl.Manager, options Options) error {
	const migrationTimeout = 10 * time.Minute // Long enough to rewrite thousands of objects of one kind. After it the migrator continues.
	if slices.Contains(options.SkipPhases, crdmigrator.StorageVersionMigrationPhase) {
		return nil
	}
	r := &StoredVersions{Cached: mgr.GetClient(), Metrics: NewMetrics(options.Metrics), Start: func() error {
		// A start that failed may have registered the name of the controller.
		return migrator(mgr, options.SkipPhases).SetupWithManager(ctx, mgr, controller.Options{
			MaxConcurrentReconciles: 1, ReconciliationTimeout: migrationTimeout, SkipNameValidation: ptr.To(true),
		})
	}}
	if options.Namespace != "" {
		r.Uncached = mgr.GetAPIReader()
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{wholeCluster} })
	return ctrl.NewControllerManagedBy(mgr).
		Named("storedversions").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(wholeCluster)
			return nil
		})).
		Watches(&infrav1.WorkspaceTemplateApply{}, enqueue, builder.WithPredicates(adoptionChanged())).
		Watches(&infrav1.CAPTCluster{}, enqueue, builder.WithPredicates(adoptionChanged())).
		Watches(&controlplanev1.CAPTControlPlane{}, enqueue, builder.WithPredicates(adoptionChanged())).
		Complete(r)
}

// migrator reads from the API server: the cache drops managedFields, and may hold one namespace only. Kinds with a status are rewritten
// there: admission and the rules for spec, which objects of CAPT v0.3 may break, do not see these writes.
func migrator(mgr ctrl.Manager, skip []crdmigrator.Phase) *crdmigrator.CRDMigrator {
	withStatus := crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}
	return &crdmigrator.CRDMigrator{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), SkipCRDMigrationPhases: skip,
		// CAPTClusterTemplate never had another version. The RBAC markers list the definitions of these kinds.
		Config: map[client.Object]crdmigrator.ByObjectConfig{
			&infrav1.CAPTCluster{}:                     withStatus,
			&infrav1.WorkspaceTemplate{}:               withStatus,
			&infrav1.WorkspaceTemplateApply{}:          withStatus,
			&controlplanev1.CAPTControlPlane{}:         withStatus,
			&controlplanev1.CAPTControlPlaneTemplate{}: {},
		},
	}
}

// wholeCluster is the only request: the count is for the whole management cluster.
var wholeCluster = ctrl.Request{}

// adoptionChanged passes events that change the number of objects that await adoption.
func adoptionChanged() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return legacy.IsPending(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return legacy.IsPending(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return legacy.IsPending(e.ObjectOld) != legacy.IsPending(e.ObjectNew)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// pageSize limits the memory that listing past the cache takes.
const pageSize = 500

type awaiting struct {
	total  int
	byKind map[string]int
	// kind and object are an example of such an object; object is nil when there is none.
	kind   string
	object metav1.Object
}

// awaitingAdoption returns the objects that await adoption. It lists them from the API server only if the cache has none.
func (r *StoredVersions) awaitingAdoption(ctx context.Context) (*awaiting, error) {
	found, err := countAwaiting(ctx, r.Cached, 0)
	if err != nil || found.total > 0 || r.Uncached == nil {
		return found, err
	}
	return countAwaiting(ctx, r.Uncached, pageSize)
}

// countAwaiting counts the objects that await adoption. limit is the page size; zero lists without pages, for caches.
func countAwaiting(ctx context.Context, reader client.Reader, limit int64) (*awaiting, error) {
	found := &awaiting{byKind: map[string]int{}}
	for kind, newList := range map[string]func() client.ObjectList{
		"WorkspaceTemplateApply": func() client.ObjectList { return &infrav1.WorkspaceTemplateApplyList{} },
		"CAPTCluster":            func() client.ObjectList { return &infrav1.CAPTClusterList{} },
		"CAPTControlPlane":       func() client.ObjectList { return &controlplanev1.CAPTControlPlaneList{} },
	} {
		if err := found.addKind(ctx, reader, kind, newList, limit); err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", kind, err)
		}
	}
	return found, nil
}

// addKind counts the objects of one kind. Each page has its own list: decoding into one that was used keeps fields that the next page lacks.
func (a *awaiting) addKind(ctx context.Context, reader client.Reader, kind string, newList func() client.ObjectList, limit int64) error {
	a.byKind[kind] = 0
	for next := ""; ; {
		list := newList()
		err := reader.List(ctx, list, client.Limit(limit), client.Continue(next), client.UnsafeDisableDeepCopy)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(metav1.Object); ok && legacy.IsPending(object) {
				a.total++
				a.byKind[kind]++
				a.kind, a.object = kind, object
			}
			return nil
		})
		next = list.GetContinue()
		if err != nil || limit == 0 || next == "" { // Caches set a continue token too.
			return err
		}
	}
}

// NewMetrics registers capt_objects_awaiting_adoption{kind}, a gauge: the number of objects of CAPT v0.3 that have not been adopted. It panics when it is
// already registered.
func NewMetrics(registry prometheus.Registerer) *prometheus.GaugeVec {
	objects := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_objects_awaiting_adoption",
		Help: "Objects of CAPT v0.3 that have not been adopted. While there are any, stored versions are not migrated.",
	}, []string{"kind"})
	registry.MustRegister(objects)
	return objects
}
