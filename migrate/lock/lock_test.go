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
func inTime(t *testing.T, test func(api *fakeAPI)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{T: t}
		api.base = fake.NewClientBuilder().WithScheme(builder.Scheme()).Build()
		api.client = interceptor.NewClient(api.base, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				return api.answer("get", func() error { return c.Get(ctx, key, object, options...) })
			},
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				return api.answer("create", func() error { return c.Create(ctx, object, options...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				return api.answer("update", func() error { return c.Update(ctx, object, options...) })
			},
		})
		test(api)
	})
}

func (api *fakeAPI) answer(verb string, do func() error) error {
	api.mutex.Lock()
	defer api.mutex.Unlock()
	if api.refuse != nil {
		if err := api.refuse(verb); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && api.lose != nil {
		return api.lose(verb)
	}
	return err
}

func (api *fakeAPI) failing(refuse, lose func(verb string) error) {
	api.mutex.Lock()
	defer api.mutex.Unlock()
	api.refuse, api.lose = refuse, lose
}

func unreachable(string) error { return errors.New("no route to host") }

func (api *fakeAPI) acquire(identity string) (*lock.Lock, context.Context, error) {
	return lock.Acquire(api.Context(), api.options(identity))
}

func (api *fakeAPI) options(identity string) lock.Options {
	return lock.Options{Client: api.client, Namespace: namespace, Identity: identity, Duration: duration, Waiting: func(lock.Holder) {}}
}

// pass lets time pass in the bubble.
func (api *fakeAPI) pass(some time.Duration) { <-time.After(some) }

func (api *fakeAPI) lease() *coordinationv1.Lease {
	api.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(api, api.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: lock.Name}, lease))
	return lease
}

// steal gives the Lease to another run, or to none.
func (api *fakeAPI) steal(identity string) {
	api.Helper()
	lease := api.lease()
	lease.Spec.HolderIdentity = ptr.To(identity)
	require.NoError(api, api.client.Update(api.Context(), lease))
}

// dead creates the Lease of a run that died, with a clock that was wrong.
func (api *fakeAPI) dead(skew time.Duration) {
	api.Helper()
	renewed := metav1.NewMicroTime(time.Now().Add(skew))
	require.NoError(api, api.client.Create(api.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lock.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("dead"), LeaseDurationSeconds: ptr.To(int32(3)), RenewTime: &renewed},
	}))
}

func TestALockThatWasReleasedIsFree(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		first, ctx, err := api.acquire("first")
		require.NoError(api, err)
		require.NoError(api, first.Check())
		holder, err := lock.Held(api.Context(), api.client, namespace, time.Now())
		require.NoError(api, err)
		assert.Equal(api, "first", holder.Identity)

		first.Release(api.Context())
		require.ErrorIs(api, context.Cause(ctx), context.Canceled)
		require.Error(api, first.Check(), "it writes no more")
		assert.Empty(api, api.lease().Spec.HolderIdentity, "it is updated, not deleted")
		holder, err = lock.Held(api.Context(), api.client, namespace, time.Now())
		require.NoError(api, err)
		assert.Nil(api, holder)
		began := time.Now()
		second, _, err := api.acquire("second")
		require.NoError(api, err)
		assert.Zero(api, time.Since(began), "nothing is waited for")
		assert.Equal(api, "second", *api.lease().Spec.HolderIdentity)
		second.Release(api.Context())
	})
}

func TestARunThatLivesKeepsItsLock(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		first, ctx, err := api.acquire("first")
		require.NoError(api, err)
		_, _, err = api.acquire("second")
		assert.Equal(api, migrate.Failed, migrate.OutcomeOf(err))
		require.ErrorContains(api, err, "another run is in progress: first (host/process), since 2000-01-01T")
		api.pass(3 * duration)
		require.NoError(api, ctx.Err())
		require.NoError(api, first.Check())
		first.Release(api.Context())
	})
}

// A clock that is wrong by an hour, either way, changes nothing.
func TestTheLockOfADeadRunIsTakenOverWhenItsLeaseRanOut(t *testing.T) {
	for name, skew := range map[string]time.Duration{"its clock was right": 0, "it was ahead": time.Hour, "it was behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(api *fakeAPI) {
				api.dead(skew)
				began := time.Now()
				var waited []string
				options := api.options("heir")
				options.Waiting = func(holder lock.Holder) { waited = append(waited, holder.Identity) }
				heir, _, err := lock.Acquire(api.Context(), options)
				require.NoError(api, err)
				assert.Equal(api, []string{"dead"}, waited, "it is reported, once")
				assert.GreaterOrEqual(api, time.Since(began), duration)
				assert.Less(api, time.Since(began), duration+time.Second)
				assert.Equal(api, "heir", *api.lease().Spec.HolderIdentity)
				heir.Release(api.Context())
			})
		})
	}
}

func TestOfTwoRunsOneGetsTheLock(t *testing.T) {
	for name, before := range map[string]func(*fakeAPI){"at first": func(*fakeAPI) {}, "after one that died": func(api *fakeAPI) { api.dead(0) }} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(api *fakeAPI) {
				before(api)
				results := make(chan error, 2)
				for _, identity := range []string{"one", "other"} {
					go func() {
						held, _, err := api.acquire(identity)
						results <- err
						if err == nil {
							api.pass(3 * duration)
							held.Release(context.Background())
						}
					}()
				}
				errs := errors.Join(<-results, <-results)
				assert.Equal(api, migrate.Failed, migrate.OutcomeOf(errs), "%v", errs)
				assert.Len(api, errs.(interface{ Unwrap() []error }).Unwrap(), 1)
				api.pass(3 * duration) // The one that has it releases it.
				synctest.Wait()
			})
		})
	}
}

func TestOneManagementClusterHasOneLock(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		first, _, err := api.acquire("first")
		require.NoError(api, err)
		elsewhere := api.options("second")
		elsewhere.Namespace = "elsewhere"
		for _, running := range []bool{true, false} { // The journal stays where it is when the run has ended.
			_, _, err = lock.Acquire(api.Context(), elsewhere)
			require.ErrorContains(api, err, "Use --journal-namespace capt-system", running)
			assert.Equal(api, migrate.Failed, migrate.OutcomeOf(err))
			first.Release(api.Context())
		}
		again, _, err := api.acquire("first")
		require.NoError(api, err)
		again.Release(api.Context())
	})
}

// Both have looked before one of them had its Lease.
func TestOfTwoRunsThatBeginInTwoNamespacesOneGetsTheLockAtMost(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		api.failing(nil, func(verb string) error {
			if verb == "create" {
				lease := &coordinationv1.Lease{}
				err := api.base.Get(api.Context(), client.ObjectKey{Namespace: namespace, Name: lock.Name}, lease)
				lease.Namespace, lease.ResourceVersion = "elsewhere", ""
				return errors.Join(err, api.base.Create(api.Context(), lease))
			}
			return nil
		})
		_, _, err := api.acquire("first")
		require.ErrorContains(api, err, "kubectl -n elsewhere delete lease captctl-migrate")
		assert.Empty(api, *api.lease().Spec.HolderIdentity, "it is released")
	})
}

func TestALockThatCannotBeRenewedIsLost(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		held, ctx, err := api.acquire("first")
		require.NoError(api, err)
		api.failing(unreachable, nil)
		began := time.Now()
		<-ctx.Done()
		assert.Less(api, time.Since(began), duration, "before another run can take it")
		require.ErrorContains(api, context.Cause(ctx), "the lock is lost: it could not be renewed for 2.4s")
		require.ErrorContains(api, context.Cause(ctx), "no route to host")
		assert.Equal(api, migrate.Partly, migrate.OutcomeOf(context.Cause(ctx)))
		api.failing(nil, nil)
		held.Release(api.Context())
		require.Error(api, held.Check())
		assert.Equal(api, "first", *api.lease().Spec.HolderIdentity, "another run may have it by now")
	})
}

func TestALockIsKeptAlthoughAnswersAreLost(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		held, ctx, err := api.acquire("first")
		require.NoError(api, err)
		answered := 0
		api.failing(nil, func(verb string) error {
			if verb != "update" {
				return nil
			}
			if answered++; answered%3 != 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		for range 100 {
			api.pass(100 * time.Millisecond)
			require.NoError(api, ctx.Err(), "%v", context.Cause(ctx))
			require.NoError(api, held.Check())
		}
		api.failing(nil, nil)
		held.Release(api.Context())
	})
}

// client-go's elector would take a Lease again that is free, and not notice that another run had it meanwhile.
func TestALockThatIsTakenAwayIsLost(t *testing.T) {
	for name, holder := range map[string]string{"by another run": "thief", "by one that has released it": ""} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(api *fakeAPI) {
				_, ctx, err := api.acquire("first")
				require.NoError(api, err)
				api.steal(holder)
				<-ctx.Done()
				require.ErrorContains(api, context.Cause(ctx), "the lock is lost: another run has taken the lock")
				synctest.Wait()
				assert.Equal(api, holder, *api.lease().Spec.HolderIdentity)
			})
		})
	}
}

// A machine or process that was suspended learns nothing before it writes: only the clock shows it.
func TestARunThatWasSuspendedWritesNothing(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		resume := make(chan struct{})
		held, ctx, err := api.acquire("first")
		require.NoError(api, err)
		api.failing(func(string) error {
			<-resume // Its requests come nowhere.
			return errors.New("no route to host")
		}, nil)
		fenced := lock.NewWriter(api.base, held.Check, false)
		require.NoError(api, fenced.Create(api.Context(), object("v1", "ConfigMap", lock.JournalPrefix+"in-time")))
		api.pass(duration)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
		require.ErrorContains(api, fenced.Create(api.Context(), object("v1", "ConfigMap", lock.JournalPrefix+"late")), "the lock is lost")
		require.ErrorContains(api, fenced.Patch(api.Context(), controlPlane(), "", patch), "the lock is lost")
		require.ErrorContains(api, fenced.Patch(api.Context(), controlPlane(), "status", patch), "the lock is lost")
		require.Error(api, ctx.Err(), "the first write that is refused ends the work")
		close(resume)
		synctest.Wait()
	})
}

// A run that is interrupted writes its journal before it releases the lock.
func TestTheLockIsKeptUntilARunThatIsInterruptedHasEnded(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		ctx, interrupt := context.WithCancel(api.Context())
		held, working, err := lock.Acquire(ctx, api.options("first"))
		require.NoError(api, err)
		interrupt()
		require.Error(api, working.Err())
		api.pass(3 * duration)
		require.NoError(api, held.Check())
		held.Release(api.Context())
		assert.Empty(api, api.lease().Spec.HolderIdentity)
	})
}

func TestARunThatIsInterruptedWhileItWaitsTakesNothing(t *testing.T) {
	inTime(t, func(api *fakeAPI) {
		api.dead(0)
		ctx, interrupt := context.WithTimeout(api.Context(), time.Second)
		defer interrupt()
		_, _, err := lock.Acquire(ctx, api.options("first"))
		require.ErrorIs(api, err, context.DeadlineExceeded)
		synctest.Wait()
		api.pass(3 * duration)
		assert.Equal(api, "dead", *api.lease().Spec.HolderIdentity)
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
			inTime(t, func(api *fakeAPI) {
				api.failing(func(verb string) error {
					if verb == row.verb {
						return row.err
					}
					return nil
				}, nil)
				_, _, err := api.acquire("first")
				require.ErrorContains(api, err, row.message)
				assert.Equal(api, row.outcome, migrate.OutcomeOf(err))
			})
		})
	}
}
