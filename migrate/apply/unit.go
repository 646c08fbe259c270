// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

const (
	clusterKind  = "Cluster"
	templateKind = "WorkspaceTemplate"
	applyKind    = "WorkspaceTemplateApply"
)

// apply adopts a unit. With --fix-cluster-endpoints, it warns of a Cluster whose endpoint became invalid after the plan was created.
func (r *run) apply(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	err := r.adopt(ctx, unit, result)
	if err != nil || !r.FixClusterEndpoints || unit.Endpoint != nil || unit.Object.Kind != clusterKind || result.Outcome == LeftOut {
		return err
	}
	warning, err := r.unrepaired(ctx, unit.Object)
	if err == nil && warning != "" {
		result.Message = strings.TrimPrefix(result.Message+". "+warning, ". ")
	}
	return err
}

// unrepaired returns the warning about a Cluster whose endpoint a new plan would repair; empty if it is valid.
func (r *run) unrepaired(ctx context.Context, ref migrate.ObjectRef) (string, error) {
	live, err := r.read(ctx, ref)
	if err != nil || live == nil {
		return "", err
	}
	host, _, _ := unstructured.NestedString(live.Object, "spec", "controlPlaneEndpoint", "host")
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "controlPlaneRef", "kind")
	repaired := validation.RepairEndpoint(clusterv1.APIEndpoint{Host: host}).Host
	if repaired == host || repaired == "" || kind != "CAPTControlPlane" {
		return "", nil
	}
	return fmt.Sprintf("Warning: spec.controlPlaneEndpoint.host of %s is still a URL: it became one after the plan was created. "+
		"Create a new plan, and apply it with --fix-cluster-endpoints", ref), nil
}

// adopt writes a unit: pause, write, resume, wait for the manager, and verify that no Workspace changed.
func (r *run) adopt(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	result.Outcome = Unchanged
	recorded := r.journal.unit(unit.Name())
	if why := r.leaveOut(unit.Name(), recorded); why != "" {
		result.Outcome, result.State, result.Message = LeftOut, unit.State, why
		return nil
	}
	if recorded.Phase == PhaseApplied {
		return r.checkApplied(ctx, unit, recorded, result)
	}
	steps := unit.Steps
	if unit.Endpoint != nil && r.FixClusterEndpoints {
		steps = append(slices.Clone(steps), *unit.Endpoint)
	}
	is, err := r.compare(ctx, steps)
	if err = cmp.Or(err, is.changed); err != nil {
		return err
	}
	paused, err := r.objectsPaused(ctx, unit)
	if err != nil {
		return err
	}
	written, started := !is.pending && len(paused) == 0, recorded.active()
	if written && !started { // Its Workspaces may have been upgraded since.
		result.Message = "nothing to adopt"
		return nil
	}
	// Compare with the plan, also after an interruption: a Workspace that changed meanwhile must not be accepted as it is.
	if err := beforeFirstWrite(r.verifyWorkspaces(ctx, unit.Workspaces)); err != nil {
		return err
	}
	if written {
		return r.awaitAndVerify(ctx, unit, unit.Workspaces, result)
	}
	proof := map[bool]string{true: r.Clock.Now().UTC().Format(time.RFC3339Nano)}[r.Prove]
	return r.writeUnit(ctx, unit, started, is.nextState(recorded, proof), is.write, result)
}

// beforeFirstWrite returns the error for a Workspace that changed before this run wrote anything.
func beforeFirstWrite(err error) error {
	if changed := (*workspaceError)(nil); errors.As(err, &changed) {
		return fmt.Errorf("%s changed since the plan was created: its UID, spec, labels, annotations or finalizers. Create a new plan", changed.before.ObjectRef)
	}
	return err
}

// leaveOut returns why a run skips a unit; empty if it does not.
func (r *run) leaveOut(unit string, recorded UnitState) string {
	if later := r.laterPlan(unit, recorded); later != "" {
		return fmt.Sprintf("plan %s was applied to it later", later)
	}
	if (recorded.Phase == PhaseRolledBack || recorded.Phase == PhaseRollingBack) && len(r.Units) == 0 && (!r.Prove || recorded.Proof == "") {
		return "it was rolled back; name it with --cluster (or --unit) to adopt it again"
	}
	return ""
}

// checkApplied compares a unit that this plan has applied. Its objects belong to the user again: what changed is reported, and not written a
// second time. Only the repair of the endpoint, which the user may request later, is written.
func (r *run) checkApplied(ctx context.Context, unit *plan.Unit, recorded UnitState, result *UnitResult) error {
	is, err := r.compare(ctx, unit.Steps)
	if err != nil {
		return err
	}
	if is.differs != nil {
		result.Message = fmt.Sprintf("changed since it was applied: %s. To adopt it again, create a new plan", is.differs)
	}
	if is.pending { // It was restored from a backup, or its old manifest was applied.
		result.Kept = []string{is.differs.Error()}
	}
	if unit.Endpoint == nil || !r.FixClusterEndpoints {
		return nil
	}
	if is, err = r.compare(ctx, []plan.Step{*unit.Endpoint}); err != nil || !is.pending {
		return cmp.Or(err, is.changed)
	}
	before, err := r.workspaces(ctx, unit.Workspaces)
	if err != nil {
		return err
	}
	result.Outcome, recorded.Endpoint = Applied, true
	if !r.DryRun {
		if err := r.journal.set(ctx, unit.Name(), recorded); err != nil {
			return err
		}
	}
	if err := r.write(ctx, unit.Endpoint, forward, result); err != nil {
		return err
	}
	return r.awaitAndVerify(ctx, unit, before, result)
}

// writeUnit writes the steps of a unit and records it as next. started is true if an earlier run has written some of them.
func (r *run) writeUnit(ctx context.Context, unit *plan.Unit, started bool, next UnitState, steps []plan.Step, result *UnitResult) error {
	if r.Prove && next.Proof == "" {
		return errors.New("a run without --prove has begun to write it. Resume it without --prove, or roll it back first")
	}
	err := r.Gate(ctx, unit)
	if err != nil {
		return err
	}
	result.Outcome = Applied
	write := func(ctx context.Context) error {
		if err := r.setProof(ctx, unit, next.Proof, forward); err != nil {
			return err
		}
		for i := range steps {
			if err := r.write(ctx, &steps[i], forward, result); err != nil {
				return err
			}
		}
		return nil
	}
	if r.DryRun {
		return write(ctx)
	}
	next.Phase, next.Message = PhaseApplying, ""
	if err := r.journal.set(ctx, unit.Name(), next); err != nil {
		return err
	}
	if len(steps) == 0 {
		err = r.setPaused(ctx, unit, backward)
	} else {
		err = r.whilePaused(ctx, unit, started, result, write)
	}
	if err != nil {
		return err
	}
	return r.awaitAndVerify(ctx, unit, unit.Workspaces, result)
}

// awaitAndVerify waits for the manager, verifies that no Workspace changed since before, and records a unit as applied. Everything is written. A unit
// that fails its proof is reverted.
func (r *run) awaitAndVerify(ctx context.Context, unit *plan.Unit, before []migrate.WorkspaceRecord, result *UnitResult) error {
	if r.DryRun {
		return nil
	}
	if proof := r.journal.unit(unit.Name()).Proof; proof != "" {
		paused, err := r.awaitManager(ctx, unit, PhaseApplying)
		if err == nil && len(paused) > 0 {
			err = &unprovenError{unit.Object, infrav1.RevisionPreview{Result: infrav1.PreviewUnavailable, Message: "resume what you paused: " + strings.Join(paused, ", ")}}
		}
		if unproven := (*unprovenError)(nil); errors.As(err, &unproven) {
			return r.undo(ctx, unit, unproven, result)
		}
		if err == nil {
			err = r.setProof(ctx, unit, proof, backward) // Now the manager adopts all of it.
		}
		if err != nil {
			return err
		}
	}
	paused, err := r.awaitManager(ctx, unit, PhaseApplied)
	if err = cmp.Or(err, r.verifyWorkspaces(ctx, before)); err != nil {
		return err
	}
	if len(paused) > 0 {
		result.Message = "the manager verifies it only after you resume what you paused: " + strings.Join(paused, ", ")
	}
	return r.journal.setPhase(ctx, unit.Name(), PhaseApplied, result.Message)
}

// comparison of the live objects of a unit with its steps.
type comparison struct {
	pending, endpoint bool // A step is not written; the repair of the endpoint is one of them.
	// write are all steps if one is pending. Otherwise there are none: an earlier run was interrupted before it resumed the objects.
	write []plan.Step
	// changed is the first object that is neither as the plan found it nor as it leaves it; differs the first that is not as the plan leaves it.
	changed, differs error
	found            []string // The fields that are as the plan leaves them.
}

// nextState returns what is recorded of a unit before the next write of it.
func (c *comparison) nextState(recorded UnitState, proof string) UnitState {
	if !recorded.active() {
		recorded = UnitState{Found: c.found, Proof: proof}
	}
	recorded.Endpoint = recorded.Endpoint || c.endpoint
	return recorded
}

func (r *run) compare(ctx context.Context, steps []plan.Step) (is comparison, err error) {
	for i := range steps {
		step := &steps[i]
		live, err := r.read(ctx, step.Object)
		if err != nil {
			return is, err
		}
		state, changed, err := examine(step, live, forward)
		if err != nil {
			return is, err
		}
		switch state {
		case plan.Applied:
		case plan.Changed:
			is.changed, is.differs = cmp.Or(is.changed, fmt.Errorf("%w. Create a new plan", changed)), cmp.Or(is.differs, changed)
		case plan.Pending:
			is.pending, is.write, is.endpoint = true, steps, is.endpoint || step.Object.Kind == clusterKind
			is.differs = cmp.Or(is.differs, fmt.Errorf("%s is as it was before", step.Object))
		}
		is.found = append(is.found, r.foundFields(step, live)...)
	}
	return is, nil
}

// foundFields are the fields of a step that are as the step leaves them, and that the plan did not write.
func (r *run) foundFields(step *plan.Step, live *unstructured.Unstructured) (found []string) {
	if live == nil || r.permittedByPlan(step) {
		return nil
	}
	for i := range step.Fields {
		if state, err := step.Fields[i].State(live.Object); err == nil && state == plan.Applied {
			found = append(found, foundField(step, &step.Fields[i]))
		}
	}
	return found
}

// permittedByPlan reports whether the plan wrote the permission of a step: several units have the same one, and the first of them writes it.
func (r *run) permittedByPlan(step *plan.Step) bool {
	namespace := permittedNamespace(step)
	return namespace != "" && slices.ContainsFunc(r.plan.Units, func(unit plan.Unit) bool {
		recorded := r.journal.unit(unit.Name())
		return recorded.active() && slices.ContainsFunc(writtenSteps(&unit, recorded), func(other plan.Step) bool {
			return other.Object == step.Object && permittedNamespace(&other) == namespace
		})
	})
}

func foundField(step *plan.Step, field *plan.Field) string {
	return step.Object.String() + " " + field.Path
}

// workspaceError means that a Workspace changed while a unit was written.
type workspaceError struct{ before migrate.WorkspaceRecord }

func (e *workspaceError) Error() string {
	resource := "workspaces." + e.before.Group + " " + e.before.Name
	if e.before.Namespace != "" {
		resource = "-n " + e.before.Namespace + " " + resource
	}
	return fmt.Sprintf("%s changed while captctl wrote its unit: its UID, generation (%d before), spec, labels, annotations or finalizers. "+
		"Keep Terraform from applying the change (kubectl annotate %s crossplane.io/paused=true), and find out what changed it",
		e.before.ObjectRef, e.before.Generation, resource)
}

// workspaces reads Workspaces as they are now. One that does not exist is left out.
func (r *run) workspaces(ctx context.Context, known []migrate.WorkspaceRecord) (items []migrate.WorkspaceRecord, err error) {
	for _, before := range known {
		live, err := r.read(ctx, before.ObjectRef)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		item, err := migrate.RecordWorkspace(live)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// verifyWorkspaces fails with a *workspaceError if a Workspace is not what it was before.
func (r *run) verifyWorkspaces(ctx context.Context, before []migrate.WorkspaceRecord) error {
	after, err := r.workspaces(ctx, before)
	if err != nil {
		return err
	}
	for _, was := range before {
		if !slices.ContainsFunc(after, was.IsUnchanged) {
			return &workspaceError{was}
		}
	}
	return nil
}

// legacyGuard reads objects unless CAPT v0.3 has written them since a time.
type legacyGuard struct {
	client.Reader
	since time.Time
}

// Get implements client.Reader.
func (g legacyGuard) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := g.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if writes := migrate.LegacyWrites(object, g.since); len(writes) > 0 {
		return fmt.Errorf("CAPT v0.3 runs again: %s %s: %s. Stop it as \"captctl migrate check\" shows, and run the same command again",
			object.GetObjectKind().GroupVersionKind().Kind, key, writes[0])
	}
	return nil
}

// Gate returns the render gate for Options.Gate: it reads the objects of a unit and plans the unit again. It fails if CAPT v0.3 has written one of
// them since Gate was called: a run can take hours, and v0.3 can be started meanwhile.
func Gate(reader client.Reader, p *plan.Plan, now clock.PassiveClock) func(context.Context, *plan.Unit) error {
	reader = legacyGuard{reader, now.Now()}
	return func(ctx context.Context, unit *plan.Unit) error {
		snapshot, err := migrate.ReadObjects(ctx, reader, unit.Objects(), now.Now())
		if err != nil {
			return err
		}
		return planner.Recheck(snapshot, p.Decisions, unit)
	}
}
