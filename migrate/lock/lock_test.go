// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/test/builder"
)

const (
	namespace = "capt-system"
	duration  = 3 * time.Second
)

// fakeAPI is an API server that can fail. The tests run in the time of a synctest bubble, which passes when all wait.
type fakeAPI struct {
	*testing.T
	client client.WithWatch
	// base answers always.
	base client.WithWatch

	mutex sync.Mutex
	// refuse fails a request before it is carried out, and lose fails it afterwards.
	refuse, lose func(verb string) error
}

// inTime runs a test with an API server of its own.
func inTime(t *testing.T, test func(b *fakeAPI)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeAPI{T: t}
		b.base = fake.NewClientBuilder().WithScheme(builder.Scheme()).Build()
		b.client = interceptor.NewClient(b.base, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				return b.answer("get", func() error { return c.Get(ctx, key, object, options...) })
			},
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				return b.answer("create", func() error { return c.Create(ctx, object, options...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				return b.answer("update", func() error { return c.Update(ctx, object, options...) })
			},
		})
		test(b)
	})
}

func (b *fakeAPI) answer(verb string, do func() error) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.refuse != nil {
		if err := b.refuse(verb); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && b.lose != nil {
		return b.lose(verb)
	}
	return err
}

func (b *fakeAPI) failing(refuse, lose func(verb string) error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.refuse, b.lose = refuse, lose
}

func unreachable(string) error { return errors.New("no route to host") }

func (b *fakeAPI) acquire(identity string) (*lock.Lock, context.Context, error) {
	return lock.Acquire(b.Context(), b.options(identity))
}

func (b *fakeAPI) options(identity string) lock.Options {
	return lock.Options{Client: b.client, Reader: b.client, Namespace: namespace, Identity: identity, Duration: duration}
}

// pass lets time pass in the bubble.
func (b *fakeAPI) pass(some time.Duration) { <-time.After(some) }

func (b *fakeAPI) lease() *coordinationv1.Lease {
	b.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(b, b.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: lock.Name}, lease))
	return lease
}

// steal gives the Lease to another run, or to none.
func (b *fakeAPI) steal(identity string) {
	b.Helper()
	lease := b.lease()
	lease.Spec.HolderIdentity = ptr.To(identity)
	require.NoError(b, b.client.Update(b.Context(), lease))
}

// dead creates the Lease of a run that died, with a clock that was wrong.
func (b *fakeAPI) dead(skew time.Duration) {
	b.Helper()
	renewed := metav1.NewMicroTime(time.Now().Add(skew))
	require.NoError(b, b.client.Create(b.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lock.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("dead"), LeaseDurationSeconds: ptr.To(int32(3)), RenewTime: &renewed},
	}))
}

func TestALockThatWasReleasedIsFree(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		first, ctx, err := b.acquire("first")
		require.NoError(b, err)
		require.NoError(b, first.Check())
		holder, err := lock.Held(b.Context(), b.client, namespace, time.Now())
		require.NoError(b, err)
		assert.Equal(b, "first", holder.Identity)

		first.Release(b.Context())
		require.ErrorIs(b, context.Cause(ctx), context.Canceled)
		require.Error(b, first.Check(), "it writes no more")
		assert.Empty(b, b.lease().Spec.HolderIdentity, "it is updated, not deleted")
		holder, err = lock.Held(b.Context(), b.client, namespace, time.Now())
		require.NoError(b, err)
		assert.Nil(b, holder)
		began := time.Now()
		second, _, err := b.acquire("second")
		require.NoError(b, err)
		assert.Zero(b, time.Since(began), "nothing is waited for")
		assert.Equal(b, "second", *b.lease().Spec.HolderIdentity)
		second.Release(b.Context())
	})
}

func TestARunThatLivesKeepsItsLock(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		first, ctx, err := b.acquire("first")
		require.NoError(b, err)
		_, _, err = b.acquire("second")
		assert.Equal(b, migrate.Failed, migrate.OutcomeOf(err))
		require.ErrorContains(b, err, "another run is in progress: first (host/process), since 2000-01-01T")
		b.pass(3 * duration)
		require.NoError(b, ctx.Err())
		require.NoError(b, first.Check())
		first.Release(b.Context())
	})
}

// A clock that is wrong by an hour, either way, changes nothing.
func TestTheLockOfADeadRunIsTakenOverWhenItsLeaseRanOut(t *testing.T) {
	for name, skew := range map[string]time.Duration{"its clock was right": 0, "it was ahead": time.Hour, "it was behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(b *fakeAPI) {
				b.dead(skew)
				began := time.Now()
				var waited []string
				options := b.options("heir")
				options.Waiting = func(holder lock.Holder) { waited = append(waited, holder.Identity) }
				heir, _, err := lock.Acquire(b.Context(), options)
				require.NoError(b, err)
				assert.Equal(b, []string{"dead"}, waited, "it is reported, once")
				assert.GreaterOrEqual(b, time.Since(began), duration)
				assert.Less(b, time.Since(began), duration+time.Second)
				assert.Equal(b, "heir", *b.lease().Spec.HolderIdentity)
				heir.Release(b.Context())
			})
		})
	}
}

func TestOfTwoRunsOneGetsTheLock(t *testing.T) {
	for name, before := range map[string]func(*fakeAPI){"at first": func(*fakeAPI) {}, "after one that died": func(b *fakeAPI) { b.dead(0) }} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(b *fakeAPI) {
				before(b)
				results := make(chan error, 2)
				for _, identity := range []string{"one", "other"} {
					go func() {
						held, _, err := b.acquire(identity)
						results <- err
						if err == nil {
							b.pass(3 * duration)
							held.Release(context.Background())
						}
					}()
				}
				errs := errors.Join(<-results, <-results)
				assert.Equal(b, migrate.Failed, migrate.OutcomeOf(errs), "%v", errs)
				assert.Len(b, errs.(interface{ Unwrap() []error }).Unwrap(), 1)
				b.pass(3 * duration) // The one that has it releases it.
				synctest.Wait()
			})
		})
	}
}

func TestOneManagementClusterHasOneLock(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		first, _, err := b.acquire("first")
		require.NoError(b, err)
		elsewhere := b.options("second")
		elsewhere.Namespace = "elsewhere"
		for _, running := range []bool{true, false} { // The journal stays where it is when the run has ended.
			_, _, err = lock.Acquire(b.Context(), elsewhere)
			require.ErrorContains(b, err, "Use --journal-namespace capt-system", running)
			assert.Equal(b, migrate.Failed, migrate.OutcomeOf(err))
			first.Release(b.Context())
		}
		again, _, err := b.acquire("first")
		require.NoError(b, err)
		again.Release(b.Context())
	})
}

// Both have looked before one of them had its Lease.
func TestOfTwoRunsThatBeginInTwoNamespacesOneGetsTheLockAtMost(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		b.failing(nil, func(verb string) error {
			if verb == "create" {
				lease := &coordinationv1.Lease{}
				err := b.base.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: lock.Name}, lease)
				lease.Namespace, lease.ResourceVersion = "elsewhere", ""
				return errors.Join(err, b.base.Create(b.Context(), lease))
			}
			return nil
		})
		_, _, err := b.acquire("first")
		require.ErrorContains(b, err, "kubectl -n elsewhere delete lease captctl-migrate")
		assert.Empty(b, *b.lease().Spec.HolderIdentity, "it is released")
	})
}

func TestALockThatCannotBeRenewedIsLost(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		held, ctx, err := b.acquire("first")
		require.NoError(b, err)
		b.failing(unreachable, nil)
		began := time.Now()
		<-ctx.Done()
		assert.Less(b, time.Since(began), duration, "before another run can take it")
		require.ErrorContains(b, context.Cause(ctx), "the lock is lost: it could not be renewed for 2.4s")
		require.ErrorContains(b, context.Cause(ctx), "no route to host")
		assert.Equal(b, migrate.Partly, migrate.OutcomeOf(context.Cause(ctx)))
		b.failing(nil, nil)
		held.Release(b.Context())
		require.Error(b, held.Check())
		assert.Equal(b, "first", *b.lease().Spec.HolderIdentity, "another run may have it by now")
	})
}

func TestALockIsKeptAlthoughAnswersAreLost(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		held, ctx, err := b.acquire("first")
		require.NoError(b, err)
		answered := 0
		b.failing(nil, func(verb string) error {
			if verb != "update" {
				return nil
			}
			if answered++; answered%3 != 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		for range 100 {
			b.pass(100 * time.Millisecond)
			require.NoError(b, ctx.Err(), "%v", context.Cause(ctx))
			require.NoError(b, held.Check())
		}
		b.failing(nil, nil)
		held.Release(b.Context())
	})
}

// client-go's elector would take a Lease again that is free, and not notice that another run had it meanwhile.
func TestALockThatIsTakenAwayIsLost(t *testing.T) {
	for name, holder := range map[string]string{"by another run": "thief", "by one that has released it": ""} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(b *fakeAPI) {
				_, ctx, err := b.acquire("first")
				require.NoError(b, err)
				b.steal(holder)
				<-ctx.Done()
				require.ErrorContains(b, context.Cause(ctx), "the lock is lost: another run has taken the lock")
				synctest.Wait()
				assert.Equal(b, holder, *b.lease().Spec.HolderIdentity)
			})
		})
	}
}

// A machine or process that was suspended learns nothing before it writes: only the clock shows it.
func TestARunThatWasSuspendedWritesNothing(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		resume := make(chan struct{})
		held, ctx, err := b.acquire("first")
		require.NoError(b, err)
		b.failing(func(string) error {
			<-resume // Its requests come nowhere.
			return errors.New("no route to host")
		}, nil)
		fenced := lock.NewWriter(b.base, held.Check, false)
		require.NoError(b, fenced.Create(b.Context(), object("v1", "ConfigMap", lock.JournalPrefix+"in-time")))
		b.pass(duration)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
		require.ErrorContains(b, fenced.Create(b.Context(), object("v1", "ConfigMap", lock.JournalPrefix+"late")), "the lock is lost")
		require.ErrorContains(b, fenced.Patch(b.Context(), controlPlane(), "", patch), "the lock is lost")
		require.ErrorContains(b, fenced.Patch(b.Context(), controlPlane(), "status", patch), "the lock is lost")
		require.Error(b, ctx.Err(), "the first write that is refused ends the work")
		close(resume)
		synctest.Wait()
	})
}

// A run that is interrupted writes its journal before it releases the lock.
func TestTheLockIsKeptUntilARunThatIsInterruptedHasEnded(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		ctx, interrupt := context.WithCancel(b.Context())
		held, working, err := lock.Acquire(ctx, b.options("first"))
		require.NoError(b, err)
		interrupt()
		require.Error(b, working.Err())
		b.pass(3 * duration)
		require.NoError(b, held.Check())
		held.Release(b.Context())
		assert.Empty(b, b.lease().Spec.HolderIdentity)
	})
}

func TestARunThatIsInterruptedWhileItWaitsTakesNothing(t *testing.T) {
	inTime(t, func(b *fakeAPI) {
		b.dead(0)
		ctx, interrupt := context.WithTimeout(b.Context(), time.Second)
		defer interrupt()
		_, _, err := lock.Acquire(ctx, b.options("first"))
		require.ErrorIs(b, err, context.DeadlineExceeded)
		synctest.Wait()
		b.pass(3 * duration)
		assert.Equal(b, "dead", *b.lease().Spec.HolderIdentity)
	})
}

func TestTheReasonForAFailedLockIsReported(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, row := range map[string]struct {
		verb    string
		err     error
		outcome migrate.Outcome
		message string
	}{
		"no right to write": {"create", apierrors.NewForbidden(leases, lock.Name, nil), migrate.Failed, "taking the lock: leases"},
		"no namespace": {
			"create", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace), migrate.Failed,
			"namespace capt-system does not exist; create it, or name another one with --journal-namespace",
		},
		"no right to read":           {"get", apierrors.NewForbidden(leases, lock.Name, nil), migrate.Failed, "reading Lease capt-system/captctl-migrate"},
		"an API server that is away": {"get", apierrors.NewServiceUnavailable("starting"), migrate.Failed, "starting"},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(b *fakeAPI) {
				b.failing(func(verb string) error {
					if verb == row.verb {
						return row.err
					}
					return nil
				}, nil)
				_, _, err := b.acquire("first")
				require.ErrorContains(b, err, row.message)
				assert.Equal(b, row.outcome, migrate.OutcomeOf(err))
			})
		})
	}
}
