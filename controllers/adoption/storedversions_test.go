// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func unadopted(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, append(options, builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer))...)
}

func reader(objects ...client.Object) client.WithWatch { return builder.Clients(objects...).Build() }

// cache returns lists as a cache of controller-runtime does.
func cache(objects ...client.Object) client.WithWatch {
	return interceptor.NewClient(reader(objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if (&client.ListOptions{}).ApplyOptions(options).Continue != "" {
				return errors.New("continue list option is not supported by the cache")
			}
			defer list.SetContinue("continue-not-supported")
			return c.List(ctx, list)
		},
	})
}

// gate is a StoredVersions that counts how often it starts the migrator.
type gate struct {
	StoredVersions
	registry *prometheus.Registry
	starts   int
}

func newGate(cached, live client.Reader) *gate {
	g := &gate{registry: prometheus.NewPedanticRegistry()}
	g.StoredVersions = StoredVersions{Cached: cached, Uncached: live, Metrics: NewMetrics(g.registry), Start: func() error {
		g.starts++
		return nil
	}}
	return g
}

func (g *gate) reconcile(t *testing.T) {
	t.Helper()
	_, err := g.Reconcile(t.Context(), wholeCluster)
	require.NoError(t, err)
}

func (g *gate) requireAwaiting(t *testing.T, applies string) {
	t.Helper()
	problems, err := testutil.GatherAndLint(g.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.GatherAndCompare(g.registry, strings.NewReader(`
# HELP capt_objects_awaiting_adoption Objects of CAPT v0.3 that have not been adopted. While there are any, stored versions are not migrated.
# TYPE capt_objects_awaiting_adoption gauge
capt_objects_awaiting_adoption{kind="CAPTCluster"} 0
capt_objects_awaiting_adoption{kind="CAPTControlPlane"} 0
capt_objects_awaiting_adoption{kind="WorkspaceTemplateApply"} `+applies+"\n")))
}

func TestTheMigratorStartsOnceWhenTheLastObjectIsAdopted(t *testing.T) {
	cached := cache(unadopted("one"), unadopted("two"), unadopted("adopted", builder.WithWorkspaceName("x")), builder.CAPTCluster("demo"))
	change := func(name string, change func(*infrav1.WorkspaceTemplateApply)) {
		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, cached.Get(t.Context(), client.ObjectKeyFromObject(unadopted(name)), apply))
		change(apply)
		require.NoError(t, cached.Update(t.Context(), apply))
	}
	g := newGate(cached, nil)
	g.reconcile(t)
	g.requireAwaiting(t, "2")
	require.Zero(t, g.starts)

	change("one", func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	g.reconcile(t)
	g.requireAwaiting(t, "1")
	require.Zero(t, g.starts)

	change("two", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.WorkspaceName = "x" })
	g.reconcile(t)
	g.reconcile(t)
	g.requireAwaiting(t, "0")
	require.Equal(t, 1, g.starts)
}

func TestANamespacedManagerLooksAtTheWholeManagementCluster(t *testing.T) {
	elsewhere := unadopted("elsewhere", builder.WithNamespace("elsewhere"))
	own := unadopted("own")
	g := newGate(cache(own), reader(own, elsewhere))
	g.reconcile(t)
	g.requireAwaiting(t, "1")
	require.Zero(t, g.starts, "its own namespace is reason enough")

	adopted := unadopted("own", builder.WithWorkspaceName("x"))
	g = newGate(cache(adopted), reader(adopted, elsewhere))
	g.reconcile(t)
	g.requireAwaiting(t, "1")
	require.Zero(t, g.starts)

	g = newGate(cache(adopted), reader(adopted))
	g.reconcile(t)
	require.Equal(t, 1, g.starts)
}

// pages returns one object per page, as an API server with more objects than fit a page.
func pages(objects ...client.Object) client.Reader {
	return interceptor.NewClient(reader(objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			if err := c.List(ctx, list); err != nil {
				return err
			}
			applies, ok := list.(*infrav1.WorkspaceTemplateApplyList)
			if !ok || asked.Limit == 0 {
				return nil
			}
			next := len(asked.Continue)
			list.SetContinue("")
			if next+1 < len(applies.Items) {
				list.SetContinue(asked.Continue + "x")
			}
			applies.Items = applies.Items[next : next+1]
			return nil
		},
	})
}

func TestTheLastPageCounts(t *testing.T) {
	adopted := builder.WithWorkspaceName("x")
	g := newGate(cache(), pages(unadopted("a", adopted), unadopted("b", adopted), unadopted("c")))
	g.reconcile(t)
	g.requireAwaiting(t, "1")
	require.Zero(t, g.starts)
}

func TestWhatCannotBeListedKeepsTheMigratorFromStarting(t *testing.T) {
	for name, row := range map[string]struct {
		refusal  error
		terminal bool
	}{
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "captclusters"}, "", errors.New("no such right")), true},
		"failed":    {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(cache(), interceptor.NewClient(reader(), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return row.refusal
				},
			}))
			_, err := g.Reconcile(t.Context(), wholeCluster)
			require.ErrorIs(t, err, row.refusal)
			assert.Equal(t, row.terminal, errors.Is(err, reconcile.TerminalError(nil)))
			require.Zero(t, g.starts)
		})
	}
}

func TestAStartThatFailedIsRetried(t *testing.T) {
	g := newGate(cache(), nil)
	start, failure := g.Start, errors.New("definitions cannot be watched")
	g.Start = func() error { return failure }
	_, err := g.Reconcile(t.Context(), wholeCluster)
	require.ErrorIs(t, err, failure)
	require.NotErrorIs(t, err, reconcile.TerminalError(nil))

	g.Start = start
	g.reconcile(t)
	g.reconcile(t)
	require.Equal(t, 1, g.starts)
}

func TestOnlyAdoptionsWakeTheController(t *testing.T) {
	waiting, adopted := unadopted("a"), unadopted("a", builder.WithWorkspaceName("x"))
	p := adoptionChanged()
	assert.True(t, p.Create(event.CreateEvent{Object: waiting}))
	assert.False(t, p.Create(event.CreateEvent{Object: adopted}))
	assert.True(t, p.Delete(event.DeleteEvent{Object: waiting}))
	assert.False(t, p.Delete(event.DeleteEvent{Object: adopted}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: waiting, ObjectNew: adopted}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: adopted, ObjectNew: waiting}), "it was rolled back")
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: waiting, ObjectNew: waiting}))
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: adopted, ObjectNew: adopted}))
}
