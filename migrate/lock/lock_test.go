/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package lock_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/test/builder"
)

// bench is an API server that can fail, and a clock that the test moves.
type bench struct {
	*testing.T
	clock   *clocktesting.FakeClock
	options lock.Options

	mutex sync.Mutex
	fail  error
	// lossy loses the answers of two writes in three.
	lossy    bool
	answered int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, clock: clocktesting.NewFakeClock(builder.Created)}
	base := fake.NewClientBuilder().WithScheme(builder.Scheme()).Build()
	c := interceptor.NewClient(base, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			if b.fail != nil {
				return b.fail
			}
			if err := c.Update(ctx, object, options...); err != nil || !b.lossy {
				return err
			}
			if b.answered++; b.answered%3 != 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		},
	})
	b.options = lock.Options{Client: c, Reader: c, Namespace: "capt-system", Duration: 3 * time.Second, Clock: b.clock}
	return b
}

func (b *bench) failing(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fail = err
}

func (b *bench) acquire(identity string) (*lock.Lock, context.Context, error) {
	options := b.options
	options.Identity = identity
	return lock.Acquire(b.Context(), options)
}

// attempt is an Acquire under way.
type attempt struct {
	lock *lock.Lock
	err  error
}

func (b *bench) begin(identity string) <-chan attempt {
	done := make(chan attempt, 1)
	go func() {
		held, _, err := b.acquire(identity)
		done <- attempt{held, err}
	}()
	return done
}

// pass lets time go by in small steps, so that each waiter sees each of them, until done or the limit.
func pass[T any](b *bench, done <-chan T, limit time.Duration) (T, bool) {
	b.Helper()
	deadline := time.After(30 * time.Second)
	for end := b.clock.Now().Add(limit); b.clock.Now().Before(end); {
		select {
		case result := <-done:
			return result, true
		case <-deadline:
			require.Fail(b, "nobody waits for the clock")
		case <-time.After(5 * time.Millisecond): // Whoever is at work gets to its next wait.
			b.clock.Step(100 * time.Millisecond)
		}
	}
	var none T
	return none, false
}

func (b *bench) lease() *coordinationv1.Lease {
	b.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(b, b.options.Reader.Get(b.Context(), client.ObjectKey{Namespace: "capt-system", Name: lock.Name}, lease))
	return lease
}

func TestALockThatWasReleasedIsFree(t *testing.T) {
	b := newBench(t)
	first, ctx, err := b.acquire("first")
	require.NoError(t, err)
	require.NoError(t, first.Check())
	holder, err := lock.Held(t.Context(), b.options.Reader, "capt-system", b.clock.Now())
	require.NoError(t, err)
	assert.Equal(t, "first", holder.Identity)

	require.NoError(t, first.Release(t.Context()))
	require.Error(t, ctx.Err())
	assert.Nil(t, b.lease().Spec.HolderIdentity, "it is updated, not deleted")
	holder, err = lock.Held(t.Context(), b.options.Reader, "capt-system", b.clock.Now())
	require.NoError(t, err)
	assert.Nil(t, holder)
	second, _, err := b.acquire("second")
	require.NoError(t, err)
	assert.Equal(t, "second", *b.lease().Spec.HolderIdentity)
	require.NoError(t, second.Release(t.Context()))
}

func TestARunThatLivesKeepsItsLock(t *testing.T) {
	b := newBench(t)
	first, ctx, err := b.acquire("first")
	require.NoError(t, err)
	result, ended := pass(b, b.begin("second"), time.Minute)
	require.True(t, ended)
	assert.Equal(t, migrate.Locked, migrate.OutcomeOf(result.err))
	require.ErrorContains(t, result.err, "first, since 2026-01-02T03:04:05Z, until 2026-01-02T03:04:")
	require.NoError(t, ctx.Err())
	require.NoError(t, first.Release(t.Context()))
}

// A clock that is wrong by an hour, either way, changes nothing.
func TestTheLockOfADeadRunIsTakenOverWhenItsLeaseRanOut(t *testing.T) {
	for name, said := range map[string]time.Duration{"its clock was right": 0, "it was ahead": time.Hour, "it was behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			renewed := metav1.NewMicroTime(b.clock.Now().Add(said))
			require.NoError(t, b.options.Client.Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "capt-system", Name: lock.Name},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("dead"), LeaseDurationSeconds: ptr.To(int32(3)), RenewTime: &renewed},
			}))
			began := b.clock.Now()
			result, ended := pass(b, b.begin("heir"), 10*time.Second)
			require.True(t, ended)
			require.NoError(t, result.err)
			assert.GreaterOrEqual(t, b.clock.Since(began), 3*time.Second)
			assert.Equal(t, "heir", *b.lease().Spec.HolderIdentity)
			require.NoError(t, result.lock.Release(t.Context()))
		})
	}
}

func TestOfTwoRunsOneGetsTheLock(t *testing.T) {
	b := newBench(t)
	one, other := b.begin("one"), b.begin("other")
	results := make(chan []attempt, 1)
	go func() { results <- []attempt{<-one, <-other} }()
	both, ended := pass(b, results, time.Minute)
	require.True(t, ended)
	winners := 0
	for _, result := range both {
		if result.err == nil {
			winners++
			require.NoError(t, result.lock.Release(t.Context()))
			continue
		}
		assert.Equal(t, migrate.Locked, migrate.OutcomeOf(result.err))
	}
	assert.Equal(t, 1, winners)
}

func TestALockThatCanNotBeRenewedIsLost(t *testing.T) {
	b := newBench(t)
	held, ctx, err := b.acquire("first")
	require.NoError(t, err)
	b.failing(errors.New("no route to host"))
	_, ended := pass(b, ctx.Done(), 10*time.Second)
	require.True(t, ended)
	require.ErrorContains(t, context.Cause(ctx), "the lock is lost")
	require.ErrorContains(t, context.Cause(ctx), "no route to host")
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(context.Cause(ctx)))
	require.Error(t, held.Check())
	b.failing(nil)
	require.NoError(t, held.Release(t.Context()))
	assert.Equal(t, "first", *b.lease().Spec.HolderIdentity, "it may be somebody else's by now")
}

func TestALockIsKeptAlthoughAnswersAreLost(t *testing.T) {
	b := newBench(t)
	held, ctx, err := b.acquire("first")
	require.NoError(t, err)
	b.mutex.Lock()
	b.lossy = true
	b.mutex.Unlock()
	for range 100 {
		_, ended := pass(b, ctx.Done(), 100*time.Millisecond)
		require.False(t, ended, "%v", context.Cause(ctx))
		require.NoError(t, held.Check())
	}
}

func TestALockThatIsTakenAwayIsLost(t *testing.T) {
	b := newBench(t)
	_, ctx, err := b.acquire("first")
	require.NoError(t, err)
	lease := b.lease()
	lease.Spec.HolderIdentity = ptr.To("thief")
	require.NoError(t, b.options.Client.Update(t.Context(), lease))
	_, ended := pass(b, ctx.Done(), 10*time.Second)
	require.True(t, ended)
	require.ErrorContains(t, context.Cause(ctx), "another run has taken the lock")
}

// The clock decides, even if the renewal hangs and nobody has noticed yet.
func TestNothingIsWrittenWhenTheLeaseRanOut(t *testing.T) {
	b := newBench(t)
	held, _, err := b.acquire("first")
	require.NoError(t, err)
	b.failing(errors.New("no route to host"))
	fenced := lock.Fence(b.options.Client, held.Check)
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "capt-system", Name: name}}
	}
	require.NoError(t, fenced.Create(t.Context(), configMap("in-time")))
	require.ErrorContains(t, fenced.Delete(t.Context(), configMap("in-time")), "deletes nothing")
	b.clock.Step(3 * time.Second)
	require.Error(t, fenced.Create(t.Context(), configMap("late")))
	require.Error(t, fenced.Patch(t.Context(), configMap("in-time"), client.RawPatch("application/merge-patch+json", []byte(`{}`))))
	require.Error(t, fenced.Status().Patch(t.Context(), configMap("in-time"), client.RawPatch("application/merge-patch+json", []byte(`{}`))))
}
