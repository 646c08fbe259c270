// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheManagerHasProvenAnObject(t *testing.T) {
	for name, row := range map[string]struct {
		request, answered string
		result            infrav1.PreviewResult
		waits, failed     string
	}{
		"none requested":      {"", "", "", "", ""},
		"no answer":           {"now", "", "", "It has no condition AdoptionRequired", ""},
		"an earlier answer":   {"now", "then", infrav1.PreviewChanges, "It has no condition AdoptionRequired", ""},
		"an earlier empty":    {"now", "then", infrav1.PreviewEmpty, "It has no condition AdoptionRequired", ""},
		"empty":               {"now", "now", infrav1.PreviewEmpty, "", ""},
		"changes":             {"now", "now", infrav1.PreviewChanges, "", "Terraform would change something: why"},
		"a plan that fails":   {"now", "now", infrav1.PreviewFailed, "", "its plan fails: why"},
		"no plan is possible": {"now", "now", infrav1.PreviewUnavailable, "", "no plan is possible: why"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"kind": applyKind, "status": map[string]any{
				"preview": map[string]any{"proof": row.answered, "result": string(row.result), "message": "why."},
			}}}
			object.SetAnnotations(map[string]string{naming.ProveAnnotation: row.request})
			why, err := whyUnreported(object, PhaseApplying)
			assert.Contains(t, why, row.waits)
			assert.Equal(t, row.waits == "", why == "")
			if row.failed != "" {
				require.ErrorContains(t, err, row.failed)
				_, err = whyUnreported(object, PhaseRolledBack)
			}
			require.NoError(t, err)
		})
	}
}

// proving is a plan with two units, of one WorkspaceTemplateApply each. The manager has answered the request of the first one.
func (env *environment) proving(result infrav1.PreviewResult) (p *plan.Plan, o Options) {
	env.Helper()
	o = env.options()
	now := time.Unix(1000, 0)
	o.Prove, o.Clock = true, clocktesting.NewFakeClock(now)
	p = env.plan("plan")
	p.Units = nil
	for _, name := range []string{"a", "b"} {
		apply := builder.WorkspaceTemplateApply(name, builder.WithNamespace("team-a"))
		apply.Generation, apply.Annotations = 0, nil
		apply.Status.Preview = infrav1.RevisionPreview{Proof: now.UTC().Format(time.RFC3339Nano), Result: result, Message: "why", TemplateRevision: "1"}
		require.NoError(env, env.Create(env.Context(), apply))
		ref := migrate.Ref(applyKind, apply)
		p.Units = append(p.Units, plan.Unit{
			Object: ref, State: plan.Adoptable, Steps: []plan.Step{{Object: ref, Fields: []plan.Field{label("one")}}},
			Members: []plan.Member{{Object: ref, State: migrate.Adoptable, Workspace: &migrate.ObjectRef{Kind: "Workspace", Name: name}}},
		})
	}
	require.NoError(env, p.Seal())
	return p, o
}

func (env *environment) written(name string) map[string]string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: "team-a", Name: name}, apply))
	assert.NotContains(env, apply.Annotations, naming.ProveAnnotation)
	return apply.Labels
}

func TestAUnitThatIsNotProvenIsReverted(t *testing.T) {
	for want, row := range map[infrav1.PreviewResult]struct {
		outcomes []UnitOutcome
		code     migrate.Outcome
	}{
		infrav1.PreviewEmpty:       {[]UnitOutcome{Applied, Applied}, migrate.Done},
		infrav1.PreviewChanges:     {[]UnitOutcome{NotProven, NotProven}, migrate.NeedsDecision},
		infrav1.PreviewFailed:      {[]UnitOutcome{NotProven, NotProven}, migrate.NeedsDecision},
		infrav1.PreviewUnavailable: {[]UnitOutcome{NotProven, NotStarted}, migrate.Partly},
	} {
		t.Run(string(want), func(t *testing.T) {
			env := newEnvironment(t, interceptor.Funcs{})
			p, o := env.proving(want)
			run := func(change func(*Options)) ([]UnitOutcome, error) {
				changed := o
				change(&changed)
				result, err := Apply(t.Context(), p, changed)
				require.NotNil(t, result, "%v", err)
				outcomes := make([]UnitOutcome, len(result.Units))
				for i := range result.Units {
					outcomes[i] = result.Units[i].Outcome
				}
				return outcomes, err
			}
			outcomes, err := run(func(*Options) {})
			assert.Equal(t, row.outcomes, outcomes)
			assert.Equal(t, row.code, migrate.OutcomeOf(err), "%v", err)
			if want == infrav1.PreviewEmpty {
				assert.Equal(t, map[string]string{"one": "planned"}, env.written("a"))
				return
			}
			assert.Empty(t, env.written("a"))
			state, err := Recorded(t.Context(), env, namespace, p.ID)
			require.NoError(t, err)
			assert.Equal(t, PhaseRolledBack, state.Units[p.Units[0].Name()].Phase)
			assert.Contains(t, state.Units[p.Units[0].Name()].Message, "It is not adopted, and what was written is reverted")

			again, _ := run(func(*Options) {})
			assert.Equal(t, row.outcomes, again, "the same command tries again")
			if again, _ = run(func(o *Options) { o.Prove = false }); row.code == migrate.NeedsDecision {
				assert.Equal(t, []UnitOutcome{LeftOut, LeftOut}, again)
			}
			again, err = run(func(o *Options) { o.Prove, o.Units = false, []string{p.Units[0].Name()} })
			require.NoError(t, err)
			assert.Equal(t, []UnitOutcome{Applied}, again)
			assert.Equal(t, map[string]string{"one": "planned"}, env.written("a"))
		})
	}
}

// What a run without a proof has begun cannot be proven: the manager may have adopted half of it.
func TestAProofMustBeRequestedFromTheBeginning(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p, o := env.proving(infrav1.PreviewEmpty)
	r := newRun(p, o)
	r.journal.state.Units = map[string]UnitRecord{p.Units[0].Name(): {Phase: PhaseApplying}}
	require.ErrorContains(t, r.apply(t.Context(), &p.Units[0], &UnitResult{}), "a run without --prove has begun to write it")
	assert.Empty(t, env.written("a"))
}
