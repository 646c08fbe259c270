// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/builder"
)

const unitName, namespace = "team-a/demo", "capt-system"

// environment is a management cluster with one control plane to adopt. A generation of 0 is one that the manager has reported.
type environment struct {
	*testing.T
	client.WithWatch
	plane migrate.ObjectRef
	gates int
}

func newEnvironment(t *testing.T, funcs interceptor.Funcs) *environment {
	t.Helper()
	plane := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "plane"}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", UID: "demo"}}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "here"}}
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(plane, cluster, system).WithInterceptorFuncs(funcs).Build()
	return &environment{T: t, WithWatch: c, plane: migrate.Ref("CAPTControlPlane", plane)}
}

// plan writes fields of the control plane.
func (env *environment) plan(id string, fields ...plan.Field) *plan.Plan {
	env.Helper()
	p := &plan.Plan{ClusterUID: "here", Units: []plan.Unit{{
		Object: migrate.ObjectRef{Group: clusterv1.GroupVersion.Group, Kind: clusterKind, Namespace: "team-a", Name: "demo", UID: "demo"}, State: plan.Adoptable,
		Members: []plan.Member{{Object: env.plane, State: migrate.Adoptable, Workspace: &migrate.ObjectRef{Kind: "Workspace", Name: "demo"}}},
		Steps:   []plan.Step{{Object: env.plane, Fields: fields}},
	}}}
	require.NoError(env, p.Seal())
	p.ID = id
	return p
}

func label(name string) plan.Field {
	return plan.Field{Path: "/metadata/labels/" + name, After: json.RawMessage(`"planned"`)}
}

func (env *environment) options(units ...string) Options {
	return Options{
		Client: env.WithWatch, Namespace: namespace, Units: units, Wait: 3 * time.Second, LeaseDuration: time.Minute,
		Backup: func(context.Context, *Backup) (*Backup, error) { return &Backup{}, nil },
		Check:  func(context.Context) error { return nil },
		Gate:   func(context.Context, *plan.Unit) error { env.gates++; return nil },
	}
}

func (env *environment) apply(p *plan.Plan, units ...string) UnitResult {
	env.Helper()
	result, err := Apply(env.Context(), p, env.options(units...))
	require.NoError(env, err)
	return result.Units[0]
}

// requireFailed requires that the first unit failed, with a message that contains a text.
func requireFailed(t *testing.T, result *Result, err error, text string) {
	t.Helper()
	require.ErrorContains(t, err, "the first: "+result.Units[0].Unit)
	require.Contains(t, result.Units[0].Message, text)
}

func (env *environment) live() *unstructured.Unstructured {
	env.Helper()
	kind, err := env.plane.GroupVersionKind()
	require.NoError(env, err)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.plane.Namespace, Name: env.plane.Name}, live))
	return live
}

// set changes labels of the control plane as a user does; an empty value removes one.
func (env *environment) set(name, value string) {
	env.Helper()
	live, labels := env.live(), map[string]string{}
	maps.Copy(labels, live.GetLabels())
	if labels[name] = value; value == "" {
		delete(labels, name)
	}
	live.SetLabels(labels)
	require.NoError(env, env.Update(env.Context(), live))
}

func (env *environment) recorded(planID string) UnitRecord {
	env.Helper()
	state, err := Recorded(env.Context(), env.WithWatch, namespace, planID)
	require.NoError(env, err)
	return state.Units[unitName]
}

func TestPlansOfOneUnitKeepTheirOrder(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	older, later := env.plan("older", label("one")), env.plan("later", label("one"), label("two"))
	assert.Equal(t, Applied, env.apply(older).Outcome)
	assert.Equal(t, Applied, env.apply(later).Outcome)
	for range 2 { // What the refusal records must not make the plan the later one.
		result, err := Rollback(t.Context(), older, env.options())
		requireFailed(t, result, err, "plan later wrote it later")
		again := env.apply(older)
		assert.Equal(t, LeftOut, again.Outcome)
		assert.Contains(t, again.Message, "plan later")
	}
	for _, p := range []*plan.Plan{later, older} {
		_, err := Rollback(t.Context(), p, env.options())
		require.NoError(t, err)
	}
	assert.Empty(t, env.live().GetLabels())
}

func TestAUnitThatWasRolledBackIsAdoptedAgainOnlyByName(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	env.apply(p)
	begun := env.recorded("plan").Begun
	_, err := Rollback(t.Context(), p, env.options())
	require.NoError(t, err)
	left := env.apply(p)
	assert.Equal(t, LeftOut, left.Outcome)
	assert.Contains(t, left.Message, "name it with --cluster")
	assert.Equal(t, Applied, env.apply(p, unitName).Outcome)
	assert.True(t, begun.Before(new(env.recorded("plan").Begun)), "it begins again")
}

// A permission that the user added after the plan was made is not the plan's, whichever unit finds it. One that the plan wrote ends with the last unit.
func TestARollbackLeavesThePermissionThatTheUserAdded(t *testing.T) {
	for name, row := range map[string]struct {
		before, after []string
		used          bool
	}{
		"added by the user":                 {[]string{"team-b", "team-a"}, []string{"team-b", "team-a"}, false},
		"added by the plan":                 {[]string{"team-b"}, []string{"team-b"}, false},
		"added by the plan, and used since": {[]string{"team-b"}, []string{"team-b", "team-a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, interceptor.Funcs{})
			template := builder.WorkspaceTemplate("eks", builder.WithNamespace("shared"))
			template.UID, template.Spec.AllowedNamespaces = "template", infrav1.AllowedNamespaces{Names: row.before}
			require.NoError(t, env.Create(t.Context(), template))
			if row.used {
				other := builder.WorkspaceTemplateApply("other", builder.WithNamespace("team-a"))
				other.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "eks", Namespace: "shared"}
				require.NoError(t, env.Create(t.Context(), other))
			}
			p := env.plan("plan", label("one"))
			permission := plan.Step{Object: migrate.Ref(templateKind, template), Fields: []plan.Field{
				{Path: "/spec/allowedNamespaces/names", Element: true, After: json.RawMessage(`"team-a"`)},
			}}
			p.Units[0].Steps = append([]plan.Step{permission}, p.Units[0].Steps...)
			second := p.Units[0]
			second.Object.Name, second.Object.UID = "shop", "shop"
			second.Steps = []plan.Step{permission, {Object: env.plane, Fields: []plan.Field{label("two")}}}
			p.Units = append(p.Units, second)
			names := func() []string {
				require.NoError(t, env.Get(t.Context(), client.ObjectKeyFromObject(template), template))
				return template.Spec.AllowedNamespaces.Names
			}
			_, err := Apply(t.Context(), p, env.options())
			require.NoError(t, err)
			assert.Equal(t, []string{"team-b", "team-a"}, names())
			state, err := Recorded(t.Context(), env, namespace, "plan")
			require.NoError(t, err)
			found := foundField(&permission, &permission.Fields[0])
			assert.Equal(t, len(row.before) == 2, slices.Contains(state.Units["team-a/shop"].Found, found))
			result, err := Rollback(t.Context(), p, env.options())
			require.NoError(t, err)
			assert.Equal(t, row.used, strings.Contains(result.Units[0].Message, "still allows namespace team-a, because WorkspaceTemplateApply team-a/other uses it"))
			assert.Equal(t, row.after, names())
		})
	}
}

func TestARollbackReportsWhatItKeeps(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"), label("two"))
	env.apply(p)
	env.set("one", "mine")
	result, err := Rollback(t.Context(), p, env.options())
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "1 units keep fields that were changed since the plan wrote them: "+unitName)
	assert.Equal(t, RolledBack, result.Units[0].Outcome)
	assert.Equal(t, map[string]string{"one": "mine"}, env.live().GetLabels())
	again, err := Rollback(t.Context(), p, env.options())
	require.NoError(t, err)
	assert.Contains(t, again.Units[0].Message, "/metadata/labels/one")
}

func TestARollbackOfAPlanWithoutAJournalIsAnError(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	for _, dry := range []bool{false, true} {
		o := env.options()
		o.DryRun = dry
		_, err := Rollback(t.Context(), p, o)
		require.EqualError(t, err, "plan plan has no journal in namespace capt-system: it was never applied here, or was applied with another --journal-namespace")
	}
}

func TestWhatWasRestoredAfterItsAdoptionIsReported(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	env.apply(p)
	env.set("one", "")
	result, err := Apply(t.Context(), p, env.options())
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
	assert.Equal(t, Unchanged, result.Units[0].Outcome)
	assert.Contains(t, result.Units[0].Kept[0], "is as it was before")
}

func TestTheGateIsPassedBeforeAUnitIsResumed(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	live := env.live()
	live.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: pausedBy})
	live.SetLabels(map[string]string{"one": "planned"})
	require.NoError(t, env.Update(t.Context(), live))
	o := env.options()
	o.Gate = func(context.Context, *plan.Unit) error { return errors.New("it would change") }
	result, err := Apply(t.Context(), p, o)
	requireFailed(t, result, err, "it would change")
	assert.False(t, result.Units[0].Begun, "nothing of it is to be reverted")
	assert.Contains(t, env.live().GetAnnotations(), clusterv1.PausedAnnotation)
	assert.True(t, env.apply(p).Begun)
	assert.Equal(t, 1, env.gates)
	assert.NotContains(t, env.live().GetAnnotations(), clusterv1.PausedAnnotation)
}

func TestAUnitThatAnotherPlanAdoptedIsUnchanged(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	p.Units[0].Workspaces = []migrate.WorkspaceRecord{{ObjectRef: migrate.ObjectRef{Group: "tf.upbound.io", Kind: "Workspace", Name: "upgraded"}}}
	env.set("one", "planned")
	assert.Equal(t, UnitResult{Unit: unitName, Outcome: Unchanged, Message: "nothing to adopt"}, env.apply(p))
	assert.Empty(t, env.recorded("plan").Phase)
}

// A plan repairs only endpoints that it found: a run that is to repair them says which Clusters need another plan.
func TestAnEndpointThatThePlanDoesNotRepairIsReported(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	cluster := &clusterv1.Cluster{}
	require.NoError(t, env.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "demo"}, cluster))
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "CAPTControlPlane", Name: "demo", APIGroup: controlplanev1.GroupVersion.Group}
	apply := func(host string, fix bool) string {
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 443}
		require.NoError(t, env.Update(t.Context(), cluster))
		o := env.options()
		o.FixClusterEndpoints = fix
		result, err := Apply(t.Context(), p, o)
		require.NoError(t, err)
		return result.Units[0].Message
	}
	const warning = "Warning: spec.controlPlaneEndpoint.host of Cluster team-a/demo is still a URL: it became one after the plan was created. "
	assert.Empty(t, apply("https://abc.eks.amazonaws.com", false), "it was not asked for")
	assert.Contains(t, apply("https://abc.eks.amazonaws.com", true), warning, "the unit is adopted already")
	assert.Empty(t, apply("abc.eks.amazonaws.com", true))
	env.set("one", "changed")
	message := apply("https://abc.eks.amazonaws.com", true)
	assert.Contains(t, message, "To adopt it again, create a new plan. "+warning)
}

// It is not this run that changed the Workspace: no other unit is held up.
func TestAWorkspaceThatChangedWhileAUnitWasSkippedIsNotAnAlarm(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	p.Units[0].Workspaces = []migrate.WorkspaceRecord{{ObjectRef: migrate.ObjectRef{Group: "tf.upbound.io", Kind: "Workspace", Name: "upgraded"}}}
	env.set("one", "planned")
	r := newRun(p, env.options())
	r.journal.state.Units = map[string]UnitRecord{unitName: {Phase: PhaseApplying}}
	err := r.apply(t.Context(), &p.Units[0], &UnitResult{})
	require.ErrorContains(t, err, "changed since the plan was created")
	alarm := (*workspaceError)(nil)
	assert.NotErrorAs(t, err, &alarm)
}

// A run that lost its Lease while a request was on its way must not replace what the next run recorded.
func TestTheJournalOfAnotherRunIsNotReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		run  string
		want string
	}{"of another run": {"another", "another run (another) has written the journal"}, "of this run, whose answer was lost": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			meanwhile := false
			env := newEnvironment(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				if object, is := object.(*corev1.ConfigMap); is && !meanwhile {
					meanwhile = true
					live := object.DeepCopy()
					state := Journal{}
					require.NoError(t, decode(live, &state))
					if tc.run != "" {
						state.Run = tc.run
					}
					state.Started = metav1.NewTime(time.Unix(1, 0))
					live.BinaryData, _ = state.Encode()
					require.NoError(t, c.Update(ctx, live))
				}
				return c.Update(ctx, object, options...)
			}})
			p := env.plan("plan", label("one"))
			result, err := Apply(t.Context(), p, env.options())
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			requireFailed(t, result, err, "the lock is lost: "+tc.want)
			state, err := Recorded(t.Context(), env, namespace, "plan")
			require.NoError(t, err)
			assert.Equal(t, "another", state.Run)
		})
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	failed := map[string]bool{}
	once := func(what string, then func() error) error {
		if failed[what] {
			return then()
		}
		failed[what] = true
		return apierrors.NewTooManyRequests("busy", 1)
	}
	env := newEnvironment(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return once(key.String(), func() error { return c.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return once("list", func() error { return c.List(ctx, list, options...) })
		},
	})
	env.apply(env.plan("plan", label("one")))
	assert.True(t, failed["list"])
}

func TestAWriteWhoseAnswerWasLostIsCounted(t *testing.T) {
	lost := true
	env := newEnvironment(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		data, _ := patch.Data(object)
		err := c.Patch(ctx, object, patch, options...)
		if lost && strings.Contains(string(data), "planned") {
			lost = false
			return errors.New("the answer was lost")
		}
		return err
	}})
	p := env.plan("plan", label("one"))
	result, err := Apply(t.Context(), p, env.options())
	requireFailed(t, result, err, "the answer was lost")
	assert.Equal(t, 1, result.Units[0].Writes)
	assert.Contains(t, env.live().GetAnnotations(), clusterv1.PausedAnnotation, "what is written in part stays paused")
}

func TestEndlessRevertsNameTheObject(t *testing.T) {
	var env *environment
	again := false
	env = newEnvironment(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		err := c.Patch(ctx, object, patch, options...)
		if live := env.live(); err == nil && again && live.GetLabels()["one"] == "" {
			live.SetLabels(map[string]string{"one": "planned"})
			err = c.Update(ctx, live)
		}
		return err
	}})
	p := env.plan("plan", label("one"))
	env.apply(p)
	again = true
	result, err := Rollback(t.Context(), p, env.options())
	requireFailed(t, result, err, env.plane.String()+" is applied again by another client")
}
