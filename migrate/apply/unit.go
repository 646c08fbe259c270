// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
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
	return r.writeUnit(ctx, unit, started, is.nextState(recorded, r.proof()), is.write, result)
}

// proof is the name of a new proof; empty without --prove.
func (r *run) proof() string {
	if !r.Prove {
		return ""
	}
	return r.Clock.Now().UTC().Format(time.RFC3339Nano)
}

// beforeFirstWrite returns the error for a Workspace that changed before this run wrote anything.
func beforeFirstWrite(err error) error {
	if changed := (*workspaceError)(nil); errors.As(err, &changed) {
		return fmt.Errorf("%s changed since the plan was created: its UID, spec, labels, annotations or finalizers. Create a new plan", changed.before.ObjectRef)
	}
	return err
}

// leaveOut returns why a run skips a unit; empty if it does not.
func (r *run) leaveOut(unit string, recorded UnitRecord) string {
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
func (r *run) checkApplied(ctx context.Context, unit *plan.Unit, recorded UnitRecord, result *UnitResult) error {
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
func (r *run) writeUnit(ctx context.Context, unit *plan.Unit, started bool, next UnitRecord, steps []plan.Step, result *UnitResult) error {
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
func (c *comparison) nextState(recorded UnitRecord, proof string) UnitRecord {
	if !recorded.active() {
		recorded = UnitRecord{Found: c.found, Proof: proof}
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

// direction of a step.
type direction bool

const (
	forward  direction = true
	backward direction = false
)

// changedError means that an object is neither as it was before the step nor as the step wrote it. It is not written.
type changedError struct {
	object migrate.ObjectRef
	why    string
}

func (e *changedError) Error() string {
	return fmt.Sprintf("%s: %s since the plan was created; it is left as it is", e.object, e.why)
}

// examine compares a live object, nil if it does not exist, with a step. The state is Changed if at least one field is, else Pending if at least
// one field is. changed is a *changedError with the first change; nil for other states. err means that the object cannot be compared.
func examine(step *plan.Step, live *unstructured.Unstructured, to direction) (state plan.FieldState, changed, err error) {
	if step.Create != nil {
		return examineCreated(step, live)
	}
	switch {
	case live == nil:
		return plan.Changed, &changedError{step.Object, "it was deleted"}, nil
	case live.GetUID() != step.Object.UID:
		return plan.Changed, &changedError{step.Object, "it was recreated"}, nil
	case live.GetDeletionTimestamp() != nil && to == forward:
		return plan.Changed, &changedError{step.Object, "it is being deleted"}, nil
	}
	state = plan.Applied
	for i := range step.Fields {
		ofField, err := step.Fields[i].State(live.Object)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", step.Object, err)
		}
		switch {
		case ofField == plan.Changed && changed == nil:
			state, changed = ofField, &changedError{step.Object, "its field " + step.Fields[i].Path + " was changed"}
		case ofField == plan.Pending && changed == nil:
			state = ofField
		}
	}
	return state, changed, nil
}

// examineCreated is examine for a step that creates an object. It compares only the spec.
func examineCreated(step *plan.Step, live *unstructured.Unstructured) (state plan.FieldState, changed, err error) {
	if live == nil {
		return plan.Pending, nil, nil
	}
	spec, err := json.Marshal(step.Create["spec"])
	if err != nil {
		return "", nil, err
	}
	state, err = (&plan.Field{Path: "/spec", After: spec}).State(live.Object)
	if err == nil && state != plan.Applied {
		return plan.Changed, &changedError{step.Object, "its spec was changed"}, nil
	}
	return state, nil, err
}

// write writes a step, or reverts it, unless that is done already. The object is read before each attempt, so that an attempt after a conflict or a
// lost response is like a first one. The error is a *changedError if the object is left as it is.
func (r *run) write(ctx context.Context, step *plan.Step, to direction, result *UnitResult) error {
	if step.Create != nil && to == backward { // captctl deletes nothing.
		return nil
	}
	var kept error
	writes := result.Writes
	err := migrate.Retry(ctx, func(ctx context.Context) error {
		live, err := r.read(ctx, step.Object)
		if err != nil {
			return err
		}
		var state plan.FieldState
		// Forward, an object that was changed is not written at all; backward, each field is checked on its own.
		state, kept, err = examine(step, live, to)
		switch {
		case err != nil:
			return err
		case step.Create != nil && state == plan.Pending:
			return r.create(ctx, step, result)
		case step.Create != nil, kept != nil && (to == forward || live == nil || live.GetUID() != step.Object.UID):
			return nil
		}
		return r.patch(ctx, step, live, to, result)
	})
	result.Writes = min(result.Writes, writes+1) // However often it was sent.
	if err != nil {
		return fmt.Errorf("writing %s: %w", step.Object, err)
	}
	return kept
}

// mayBeWritten reports whether the API server has carried out a request with this error, or may have.
func mayBeWritten(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// withFieldsOf returns an object with the fields of a step as they are after it or, backward, before it.
func withFieldsOf(step *plan.Step, live *unstructured.Unstructured, to direction) (*unstructured.Unstructured, error) {
	wanted := live.DeepCopy()
	for i := range step.Fields {
		field := &step.Fields[i]
		state, err := field.State(live.Object)
		switch {
		case err != nil:
		case to == forward && state == plan.Pending:
			err = field.Set(wanted.Object)
		case to == backward && state == plan.Applied:
			err = field.Revert(wanted.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Object, err)
		}
	}
	return wanted, nil
}

func (r *run) create(ctx context.Context, step *plan.Step, result *UnitResult) error {
	err := r.writes.Create(ctx, (&unstructured.Unstructured{Object: step.Create}).DeepCopy())
	switch {
	case apierrors.IsAlreadyExists(err):
		return migrate.Again(err)
	case mayBeWritten(err):
		result.Writes++
	}
	return err
}

// patch sends what a step changes as a JSON patch that applies only to the object that was read.
func (r *run) patch(ctx context.Context, step *plan.Step, live *unstructured.Unstructured, to direction, result *UnitResult) error {
	wanted, err := withFieldsOf(step, live, to)
	if err != nil {
		return err
	}
	before, err := live.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil || len(operations) == 0 {
		return err
	}
	guard := []jsonpatch.Operation{
		jsonpatch.NewOperation("test", "/metadata/uid", string(live.GetUID())),
		jsonpatch.NewOperation("test", "/metadata/resourceVersion", live.GetResourceVersion()),
	}
	data, err := json.Marshal(append(guard, operations...))
	if err != nil {
		return err
	}
	err = r.writes.Patch(ctx, wanted, step.Subresource, client.RawPatch(types.JSONPatchType, data))
	switch {
	case apierrors.IsConflict(err), apierrors.IsInvalid(err) && r.changedSinceRead(ctx, step, live):
		return migrate.Again(err)
	case mayBeWritten(err):
		result.Writes++
	}
	return err
}

// changedSinceRead reports whether an object changed since it was read: a failed test of a JSON patch has the same status as an invalid object.
func (r *run) changedSinceRead(ctx context.Context, step *plan.Step, live *unstructured.Unstructured) bool {
	now, err := r.read(ctx, step.Object)
	return err == nil && now != nil && now.GetResourceVersion() != live.GetResourceVersion()
}

func (r *run) read(ctx context.Context, ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	return migrate.Get(ctx, r.reads, ref)
}

// rollBack reverts a unit in the reverse order. Fields that were changed since keep their values, which is not a failure.
func (r *run) rollBack(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	result.Outcome = Unchanged
	recorded := r.journal.unit(unit.Name())
	if !recorded.active() {
		result.Message = cmp.Or(recorded.Message, "there is nothing of this plan to roll back")
		return nil
	}
	if later := r.laterPlan(unit.Name(), recorded); later != "" {
		return fmt.Errorf("plan %s wrote it later. Roll that back first: captctl migrate rollback %s", later, later)
	}
	before, err := r.workspaces(ctx, unit.Workspaces)
	if err != nil {
		return err
	}
	result.Outcome = RolledBack
	var notes []string
	write := func(ctx context.Context) (err error) {
		var steps []*plan.Step
		if steps, notes, err = r.reversible(ctx, unit, recorded, result); err == nil {
			err = r.revert(ctx, steps, result)
		}
		if err == nil {
			err = r.setProof(ctx, unit, recorded.Proof, backward)
		}
		result.Message = strings.Join(slices.Concat(result.Kept, notes), "; ")
		return err
	}
	if r.DryRun {
		return write(ctx)
	}
	if err := r.journal.setPhase(ctx, unit.Name(), PhaseRollingBack, ""); err != nil {
		return err
	}
	if err := r.whilePaused(ctx, unit, true, result, write); err != nil {
		return err
	}
	unreported, err := r.awaitRollback(ctx, unit)
	if err != nil {
		return err
	}
	if err := r.verifyWorkspaces(ctx, before); err != nil {
		return err
	}
	result.Message = strings.Join(slices.Concat(result.Kept, notes, unreported), "; ")
	return r.journal.setPhase(ctx, unit.Name(), PhaseRolledBack, result.Message)
}

// awaitRollback waits for the manager, and returns what it did not report: it may have been stopped. After that, no other unit waits.
func (r *run) awaitRollback(ctx context.Context, unit *plan.Unit) (unreported []string, err error) {
	if r.managerSilent.Load() {
		return nil, nil
	}
	_, err = r.awaitManager(ctx, unit, PhaseRolledBack)
	if errors.Is(err, errUnreported) {
		r.managerSilent.Store(true)
		return []string{err.Error()}, nil
	}
	return nil, err
}

// laterPlan returns a plan that began a unit after this one did, and was not rolled back; empty if there is none.
func (r *run) laterPlan(unit string, recorded UnitRecord) string {
	for i := range r.otherPlans {
		theirs := r.otherPlans[i].Units[unit]
		if recorded.active() && theirs.active() && recorded.Begun.Before(&theirs.Begun) {
			return r.otherPlans[i].PlanID
		}
	}
	return ""
}

// reversible returns the steps of a unit to revert, in that order, and why the others stay.
func (r *run) reversible(ctx context.Context, unit *plan.Unit, recorded UnitRecord, result *UnitResult) (steps []*plan.Step, notes []string, err error) {
	for _, step := range reverseOrder(writtenSteps(unit, recorded)) {
		user, err := r.permissionUser(ctx, unit, step)
		switch {
		case err != nil:
			return nil, nil, err
		case user != "":
			notes = append(notes, fmt.Sprintf("%s still allows namespace %s, because %s uses it", step.Object, permittedNamespace(step), user))
		case step.Create != nil:
			result.Left = append(result.Left, step.Object.String())
			notes = append(notes, fmt.Sprintf("%s, which the plan created, is not deleted", step.Object))
		default:
			steps = append(steps, step)
		}
	}
	return steps, notes, nil
}

// revert writes steps backward, in passes, until a pass has nothing to write.
func (r *run) revert(ctx context.Context, steps []*plan.Step, result *UnitResult) error {
	const lateWrites = time.Second // The interval between two passes of revert, in which a reconcile that began before the pause may write a status once more.
	var again *plan.Step           // The last step that had to be reverted a second time.
	pass := 0
	err := wait.PollUntilContextTimeout(ctx, lateWrites, r.Wait, true, func(ctx context.Context) (bool, error) {
		result.Kept = nil
		before, incomplete := result.Writes, map[migrate.ObjectRef]bool{}
		for _, step := range steps {
			if incomplete[step.Object] { // Status follows from spec: it is kept while a field of spec is kept.
				continue
			}
			writes := result.Writes
			err := r.write(ctx, step, backward, result)
			if changed := (*changedError)(nil); errors.As(err, &changed) {
				result.Kept, incomplete[step.Object] = append(result.Kept, changed.Error()), true
			} else if err != nil {
				return false, err
			}
			if result.Writes > writes && pass > 0 {
				again = step
			}
		}
		pass++
		return result.Writes == before || r.DryRun, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil && again != nil {
		err = fmt.Errorf("%s is applied again by another client, such as a GitOps controller, each time it is reverted (for %s). Stop that client, and roll back again", again.Object, r.Wait)
	}
	return err
}

// writtenSteps returns the steps of a unit without the fields that were as planned before the first write.
func writtenSteps(unit *plan.Unit, recorded UnitRecord) []plan.Step {
	steps := slices.Clone(unit.Steps)
	if recorded.Endpoint && unit.Endpoint != nil {
		steps = append(steps, *unit.Endpoint)
	}
	for i := range steps {
		steps[i].Fields = slices.DeleteFunc(slices.Clone(steps[i].Fields), func(field plan.Field) bool {
			return slices.Contains(recorded.Found, foundField(&steps[i], &field))
		})
	}
	return steps
}

// reverseOrder returns steps in reverse order of their objects. Status still comes after spec: the manager derives it from there.
func reverseOrder(steps []plan.Step) (reverse []*plan.Step) {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Subresource != "" && i > 0 && steps[i-1].Object == steps[i].Object {
			reverse = append(reverse, &steps[i-1], &steps[i])
			i--
			continue
		}
		reverse = append(reverse, &steps[i])
	}
	return reverse
}

// permittedNamespace returns the namespace that a step permits to use a WorkspaceTemplate; empty if it is not such a step.
func permittedNamespace(step *plan.Step) (namespace string) {
	if step.Object.Kind == templateKind && len(step.Fields) == 1 && step.Fields[0].Element {
		_ = json.Unmarshal(step.Fields[0].After, &namespace) // It is a string.
	}
	return namespace
}

// permissionUser returns a WorkspaceTemplateApply that still needs the permission of a step after this run, because the manager renders it; empty
// if there is none, or if the step is not about a permission.
func (r *run) permissionUser(ctx context.Context, unit *plan.Unit, step *plan.Step) (user string, err error) {
	namespace := permittedNamespace(step)
	if namespace == "" {
		return "", nil
	}
	leaving := r.objectsRolledBack(unit)
	key := types.NamespacedName{Namespace: step.Object.Namespace, Name: step.Object.Name}
	err = migrate.Each(ctx, r.reads, infrav1.GroupVersion.WithKind(applyKind), namespace, func(object *unstructured.Unstructured) error {
		other := &infrav1.WorkspaceTemplateApply{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, other); err != nil {
			return err
		}
		if rendered := legacy.AwaitsProof(other) || legacy.UnadoptedWorkspace(other) == ""; rendered && other.TemplateKey() == key && !leaving[other.UID] {
			user = migrate.Ref(applyKind, other).String()
		}
		return nil
	})
	return user, err
}

// objectsRolledBack returns the UIDs of the objects of a unit, and of the units that are being rolled back at the same time.
func (r *run) objectsRolledBack(unit *plan.Unit) map[types.UID]bool {
	leaving := map[types.UID]bool{}
	selected, _ := r.selected(r.plan) // It was validated.
	for _, other := range selected {
		if other.Name() != unit.Name() && r.journal.unit(other.Name()).Phase != PhaseRollingBack {
			continue
		}
		for _, object := range other.Objects() {
			leaving[object.UID] = true
		}
	}
	return leaving
}
