// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package lock lets one run of captctl write at a time, on any host, with client-go's leader election and a Lease. In addition, a run does not queue
// behind another one that is alive, and sends no write once the lock is lost.
package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Name of the Lease, and the value of its label.
const Name = "captctl-migrate"

const label = "capt.cluster.x-k8s.io/migration-lock"

// DefaultDuration is how long other runs wait for a run that was killed.
const DefaultDuration = 15 * time.Second

// errTaken means that another run has acquired the Lease.
var errTaken = errors.New("another run has taken the lock")

// Options of a lock.
type Options struct {
	Client    client.Client // Client reads from the API server itself.
	Namespace string
	Identity  string        // Identity of this run.
	Duration  time.Duration // Duration of the lease, rounded up to whole seconds; zero means DefaultDuration.
	Waiting   func(Holder)  // Waiting is called once if another run has the Lease, and has not renewed it since this run began to wait.
}

// Identity identifies a run, and shows where to look for it: host, process, and a random suffix.
func Identity() string { return fmt.Sprintf("%s/%d/%s", Host(), os.Getpid(), rand.String(6)) }

// Host is the name of this host.
func Host() string {
	host, _ := os.Hostname()
	return cmp.Or(host, "unknown")
}

// Lock is held by this run until it is released or lost.
type Lock struct {
	Options
	acquired, stopped chan struct{}
	endWork           context.CancelCauseFunc // Ends the context of the work; resign ends the election.
	resign            context.CancelFunc

	mutex         sync.Mutex
	renewed       time.Time // When the last renewal that succeeded was sent; zero before the Lease was acquired.
	failure, lost error     // Of the last renewal, and why nothing may be written any more.
}

// Acquire takes the lock, and keeps it until Release. The context that it returns ends when the lock is lost; its cause is the reason.
//
// If another run has the Lease, it waits for the duration of that lease, by the clock of this process, because the clocks of hosts differ. If the
// other run renews its lease meanwhile, that run is alive, and the error names it.
func Acquire(ctx context.Context, o Options) (*Lock, context.Context, error) {
	o.Duration = time.Duration(math.Ceil(cmp.Or(o.Duration, DefaultDuration).Seconds())) * time.Second
	l := &Lock{Options: o, acquired: make(chan struct{}), stopped: make(chan struct{})}
	if err := l.requireOneNamespace(ctx); err != nil {
		return nil, nil, err
	}
	working, endWork := context.WithCancelCause(ctx)
	// The election goes on when ctx ends: a run that is interrupted still writes its journal. It logs; captctl reports errors.
	electing, resign := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	l.endWork, l.resign = endWork, resign
	elector, err := leaderelection.NewLeaderElector(l.config())
	if err != nil {
		return nil, nil, fmt.Errorf("taking the lock: %w", l.stop(err))
	}
	go elector.Run(electing)
	select {
	case <-l.acquired:
		if err := l.requireOneNamespace(ctx); err != nil {
			l.Release(ctx)
			return nil, nil, err
		}
		return l, working, nil
	case <-l.stopped:
	case <-ctx.Done():
		l.Release(ctx)
	}
	return nil, nil, context.Cause(working)
}

// requireOneNamespace fails if there is a Lease of captctl in another namespace, because a management cluster has one journal. A run calls it
// again once it has its Lease: of two runs that begin at the same time, at least the second one finds the Lease of the other.
func (l *Lock) requireOneNamespace(ctx context.Context) error {
	leases := &coordinationv1.LeaseList{}
	if err := migrate.RetryingReader(l.Client).List(ctx, leases, client.MatchingLabels{label: Name}); err != nil {
		return fmt.Errorf("looking for journals in other namespaces: %w", err)
	}
	for i := range leases.Items {
		if other := leases.Items[i].Namespace; other != l.Namespace {
			return migrate.Failed.Errorf("the migration of this management cluster has its journal in namespace %s. Use --journal-namespace %s or, if all of it is rolled back, "+
				"delete its Lease: kubectl -n %s delete lease %s", other, other, other, Name)
		}
	}
	return nil
}

func (l *Lock) config() leaderelection.LeaderElectionConfig {
	const leastPeriod = 200 * time.Millisecond // It leaves most of the rate limit for the work, even with the shortest lease and --qps 20.
	return leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: Name},
			Client:     &leases{Lock: l},
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
			Labels:     map[string]string{label: Name},
		},
		LeaseDuration: l.Duration, RenewDeadline: l.deadline(), RetryPeriod: max(l.Duration/15, leastPeriod), ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(l.acquired) },
			OnStoppedLeading: func() {
				_ = l.stop(l.expired())
				close(l.stopped)
			},
		},
	}
}

// deadline is how long after its last renewal this run may write. In the rest of the lease, requests that were sent before can complete.
func (l *Lock) deadline() time.Duration { return l.Duration * 4 / 5 }

// Check is called before each write: it fails once the lock may be lost. The wall clock counts, too: the monotonic one stops during sleep.
func (l *Lock) Check() error {
	l.mutex.Lock()
	lost, renewed := l.lost, l.renewed
	l.mutex.Unlock()
	now := time.Now()
	elapsed := max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0)))
	if lost != nil || renewed.IsZero() || elapsed < l.deadline() {
		return lost
	}
	return l.stop(l.expired())
}

// expired returns the error of a lock that could not be renewed in time.
func (l *Lock) expired() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return Lost(errors.Join(fmt.Errorf("it could not be renewed for %s", l.deadline()), l.failure))
}

// Lost is the error of a run that must not write any more, because another one may.
func Lost(why error) error { return migrate.Partly.Errorf("the lock is lost: %w", why) }

// stop ends the work and the election, and returns why. Only the reason of the first call is kept.
func (l *Lock) stop(why error) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lost == nil {
		l.lost = why
	}
	l.endWork(l.lost)
	l.resign()
	return l.lost
}

// Release ends the work and releases the lock, so that the next run need not wait. If that fails, the lease expires.
func (l *Lock) Release(ctx context.Context) {
	l.endWork(nil)
	l.resign()
	select {
	case <-l.stopped:
	case <-ctx.Done():
	}
}

// leases stops the elector once the lock is lost: it would acquire the Lease again, or release that of another run.
type leases struct {
	coordinationv1client.LeaseInterface // Only the methods below are called.
	*Lock
	seen string // The resourceVersion of another run's Lease when this run began to wait; empty if it does not wait.
}

func (l *leases) Leases(string) coordinationv1client.LeaseInterface { return l }

func (l *leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	read := func(ctx context.Context) error {
		return l.Client.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, lease)
	}
	if l.holding() {
		_, err := l.send(func() error { return read(ctx) })
		if apierrors.IsNotFound(err) || err == nil && holderOf(lease).Identity != l.Identity {
			err = l.stop(Lost(errTaken))
		}
		return lease, err
	}
	switch err, holder := migrate.Retry(ctx, read), holderOf(lease); {
	case apierrors.IsNotFound(err): // The elector creates it.
		return nil, err
	case err != nil:
		return nil, l.stop(fmt.Errorf("reading Lease %s/%s: %w", l.Namespace, Name, err))
	case holder.Identity == "" || holder.Identity == l.Identity:
	case l.seen != "" && l.seen != lease.ResourceVersion:
		return nil, l.stop(migrate.Failed.Errorf("another run is in progress: %s. Run the same command again when it has ended, or stop it on its host", holder))
	case l.seen == "": // This run waits for the other one.
		l.seen = lease.ResourceVersion
		l.Waiting(holder)
	}
	return lease, nil
}

func (l *leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return lease, l.write(func() error { return l.Client.Create(ctx, lease, client.FieldOwner(migrate.FieldManager)) })
}

func (l *leases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return lease, l.write(func() error { return l.Client.Update(ctx, lease, client.FieldOwner(migrate.FieldManager)) })
}

func (l *leases) write(request func() error) error {
	sent, err := l.send(request)
	switch {
	case err == nil:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.renewed = sent
		return nil
	case l.holding(), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), migrate.Transient(err): // The elector tries again.
		return err
	case apierrors.IsNotFound(err):
		return l.stop(fmt.Errorf("taking the lock: namespace %s does not exist; create it, or name another one with --journal-namespace", l.Namespace))
	case apierrors.IsForbidden(err):
		return l.stop(migrate.Failed.Errorf("taking the lock: %w", err))
	}
	return l.stop(fmt.Errorf("taking the lock: %w", err))
}

// send sends a request unless the lock is lost, and keeps its error, which the elector only logs.
func (l *Lock) send(request func() error) (sent time.Time, err error) {
	if err := l.Check(); err != nil {
		return sent, err
	}
	sent, err = time.Now(), request()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.failure = err
	return sent, err
}

func (l *Lock) holding() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.renewed.IsZero()
}

// Holder is a run that has the lock.
type Holder struct {
	Identity string      `json:"holder"`
	Since    metav1.Time `json:"since"` // Since is when it took the lock, by its own clock.
	Until    metav1.Time `json:"until"` // Until is when its lease expires unless it is renewed, by its own clock.
}

func (h Holder) String() string {
	return fmt.Sprintf("%s (host/process), since %s, Lease until %s unless it is renewed", h.Identity, h.Since.Format(time.RFC3339), h.Until.Format(time.RFC3339))
}

// Held is the run that has the lock, by the clocks of both hosts; nil if none has. It is for reports: only Acquire decides.
func Held(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Holder, error) {
	lease := &coordinationv1.Lease{}
	if err := client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, lease)); err != nil {
		return nil, fmt.Errorf("reading Lease %s/%s: %w", namespace, Name, err)
	}
	holder := holderOf(lease)
	if holder.Identity == "" || !now.Before(holder.Until.Time) {
		return nil, nil
	}
	return &holder, nil
}

func holderOf(lease *coordinationv1.Lease) Holder {
	spec := lease.Spec
	lasts := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	return Holder{
		Identity: ptr.Deref(spec.HolderIdentity, ""),
		Since:    metav1.NewTime(ptr.Deref(spec.AcquireTime, metav1.MicroTime{}).Time),
		Until:    metav1.NewTime(ptr.Deref(spec.RenewTime, metav1.MicroTime{}).Add(lasts)),
	}
}

// JournalPrefix begins the names of the ConfigMaps of journals.
const JournalPrefix = "capt-migrate-"

// Writer sends the writes of a run. It protects against defects of the rest of captctl: it sends nothing once the lock is lost, and writes
// nothing but CAPT's objects, journals and, if the user requested it, endpoints of Clusters. It cannot delete.
type Writer struct {
	client    client.Client
	check     func() error
	endpoints bool // Permits to write spec.controlPlaneEndpoint of Clusters.
}

// NewWriter returns a writer that calls check before each write.
func NewWriter(c client.Client, check func() error, endpoints bool) *Writer {
	return &Writer{client: client.WithFieldOwner(c, migrate.FieldManager), check: check, endpoints: endpoints}
}

// Create creates an object.
func (w *Writer) Create(ctx context.Context, object client.Object) error {
	return w.send(ctx, object, nil, func(ctx context.Context) error { return w.client.Create(ctx, object) })
}

// Update replaces an object.
func (w *Writer) Update(ctx context.Context, object client.Object) error {
	return w.send(ctx, object, nil, func(ctx context.Context) error { return w.client.Update(ctx, object) })
}

// Patch patches an object, or its subresource if that is not empty.
func (w *Writer) Patch(ctx context.Context, object client.Object, subresource string, patch client.Patch) error {
	return w.send(ctx, object, patch, func(ctx context.Context) error {
		if subresource == "" {
			return w.client.Patch(ctx, object, patch)
		}
		return w.client.SubResource(subresource).Patch(ctx, object, patch)
	})
}

func (w *Writer) send(ctx context.Context, object client.Object, patch client.Patch, request func(context.Context) error) error {
	ref := migrate.ObjectRef{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if !w.permits(object, patch) {
		return fmt.Errorf("captctl blocked its own write to %s, because it must never write this; nothing was sent. This is a bug in captctl: please report it", ref)
	}
	if err := w.check(); err != nil {
		return err
	}
	return request(context.WithValue(ctx, writtenKey{}, ref.String()))
}

// permits reports whether captctl may write an object: with a patch or, if patch is nil, as a whole.
func (w *Writer) permits(object client.Object, patch client.Patch) bool {
	switch kind := object.GetObjectKind().GroupVersionKind().GroupKind(); kind {
	case corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind():
		return patch == nil && strings.HasPrefix(object.GetName(), JournalPrefix)
	case clusterv1.GroupVersion.WithKind("Cluster").GroupKind():
		return patch != nil && w.endpoints && onlyEndpoint(object, patch)
	default:
		isMigrated := slices.ContainsFunc(migrate.Kinds(), func(known migrate.Kind) bool { return known.GroupKind() == kind && known.InLegacy() })
		return isMigrated && (patch != nil || kind.Kind == "WorkspaceTemplate")
	}
}

// onlyEndpoint reports whether a JSON patch changes nothing but the endpoint of a Cluster.
func onlyEndpoint(cluster client.Object, patch client.Patch) bool {
	var operations []struct{ Op, Path string }
	data, err := patch.Data(cluster)
	if err != nil || json.Unmarshal(data, &operations) != nil {
		return false
	}
	for _, operation := range operations {
		if operation.Op != "test" && !strings.HasPrefix(operation.Path, "/spec/controlPlaneEndpoint") {
			return false
		}
	}
	return true
}

type writtenKey struct{}

// WrittenObject returns the object that the request of a Writer writes, to report warnings of the API server with it; empty for other requests.
func WrittenObject(request context.Context) string {
	written, _ := request.Value(writtenKey{}).(string)
	return written
}
