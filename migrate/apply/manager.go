// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// pausedBy is the value of the pause annotation. An object with another value was paused by the user, and stays paused. The Lease lets one run
// write at a time, so that what an earlier run left paused is this run's, too.
const pausedBy = naming.MigrationPause

// annotate writes an annotation, or removes it, unless the object was deleted or the annotation has another value.
func (r *run) annotate(ctx context.Context, object migrate.ObjectRef, name, value string, to direction) error {
	encoded, _ := json.Marshal(value) // A string can always be encoded.
	field := plan.Field{Path: "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1"), After: encoded}
	err := r.write(ctx, &plan.Step{Object: object, Fields: []plan.Field{field}}, to, &UnitResult{})
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		return nil
	}
	return err
}

// whilePaused writes a unit while the manager does not reconcile its objects, so that the manager observes all of the writes or none. A unit that is
// written in part stays paused, because a manager that acts on one half could change a Workspace. started is true if an earlier run wrote some of it.
func (r *run) whilePaused(ctx context.Context, unit *plan.Unit, started bool, result *UnitResult, write func(context.Context) error) error {
	err := r.setPaused(ctx, unit, forward)
	if err == nil {
		err = write(ctx)
	}
	if err == nil {
		return r.setPaused(ctx, unit, backward)
	}
	if !started && result.Writes == 0 {
		resume, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, r.setPaused(resume, unit, backward))
	}
	return err
}

// setPaused pauses or resumes the objects of a unit. Those that the user paused, and those that are deleted, stay as they are.
func (r *run) setPaused(ctx context.Context, unit *plan.Unit, to direction) error {
	return eachAdopted(unit, func(object migrate.ObjectRef) error {
		return r.annotate(ctx, object, clusterv1.PausedAnnotation, pausedBy, to)
	})
}

func (r *run) objectsPaused(ctx context.Context, unit *plan.Unit) (objects []string, err error) {
	err = eachAdopted(unit, func(object migrate.ObjectRef) error {
		live, err := r.read(ctx, object)
		if err == nil && live != nil && live.GetAnnotations()[clusterv1.PausedAnnotation] == pausedBy {
			objects = append(objects, object.String())
		}
		return err
	})
	return objects, err
}

// leftPaused describes how a unit that failed is left; empty if the manager reconciles all of it.
func (r *run) leftPaused(ctx context.Context, unit *plan.Unit) string {
	const until = "with annotation " + clusterv1.PausedAnnotation + "=" + pausedBy + " until the unit is applied or rolled back"
	objects, err := r.objectsPaused(ctx, unit)
	switch {
	case err != nil:
		return "Its objects may be paused " + until
	case len(objects) > 0:
		return fmt.Sprintf("Paused %s: %s", until, strings.Join(objects, ", "))
	}
	return ""
}

// eachAdopted calls do for the owners and WorkspaceTemplateApplies of a unit that are adopted, an owner before what it writes.
func eachAdopted(unit *plan.Unit, do func(migrate.ObjectRef) error) error {
	var done []migrate.ObjectRef
	for _, member := range adoptedMembers(unit) {
		for _, object := range []migrate.ObjectRef{member.Object, *cmp.Or(member.WorkspaceTemplateApply, &member.Object)} {
			if slices.Contains(done, object) {
				continue
			}
			if err := do(object); err != nil {
				return err
			}
			done = append(done, object)
		}
	}
	return nil
}

// adoptedMembers returns the members of a unit that have a Workspace and are adopted, or are to be adopted.
func adoptedMembers(unit *plan.Unit) (members []plan.Member) {
	for _, member := range unit.Members {
		if member.Workspace != nil && (member.State == migrate.Adoptable || member.State == migrate.Adopted) {
			members = append(members, member)
		}
	}
	return members
}

// unprovenError means that the plan of Terraform for a WorkspaceTemplateApply is not known to be empty.
type unprovenError struct {
	object migrate.ObjectRef
	found  infrav1.RevisionPreview
}

func (e *unprovenError) Error() string {
	return fmt.Sprintf("%s: %s", e.object, overview.WhyNotEmpty(e.found))
}

// setProof requests a proof of the WorkspaceTemplateApplies that a unit adopts, before their first field is written, or ends the request.
func (r *run) setProof(ctx context.Context, unit *plan.Unit, request string, to direction) error {
	for _, member := range adoptedMembers(unit) {
		if request == "" || member.State != migrate.Adoptable {
			continue
		}
		if err := r.annotate(ctx, *cmp.Or(member.WorkspaceTemplateApply, &member.Object), naming.ProveAnnotation, request, to); err != nil {
			return err
		}
	}
	return nil
}

// undo reverts a unit that failed its proof.
func (r *run) undo(ctx context.Context, unit *plan.Unit, why *unprovenError, result *UnitResult) error {
	recorded := r.journal.unit(unit.Name())
	if err := r.rollBack(ctx, unit, result); err != nil {
		return errors.Join(why, fmt.Errorf("reverting what was written: %w", err))
	}
	result.Outcome = NotProven
	result.Message = strings.TrimSuffix(fmt.Sprintf("%s. It is not adopted, and what was written is reverted. %s", why, result.Message), " ")
	recorded.Phase, recorded.Message = PhaseRolledBack, result.Message
	if why.found.Result == infrav1.PreviewUnavailable {
		r.mutex.Lock()
		r.unplannable++
		r.mutex.Unlock()
	}
	return r.journal.set(ctx, unit.Name(), recorded)
}

// poll repeats a check until the timeout: first often, since the manager usually reacts at once, then every second.
func poll(ctx context.Context, timeout time.Duration, check wait.ConditionWithContextFunc) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Cap: time.Second, Steps: math.MaxInt}.DelayFunc().Until(ctx, true, true, check)
}

// errUnreported means that the manager has not reported a unit in time.
var errUnreported = errors.New("the manager has not confirmed it")

// awaitManager waits until the manager has reported that every object and Workspace of a unit is adopted or rolled back or, while it is applied, that
// its adoption is proven. What the user paused is returned.
func (r *run) awaitManager(ctx context.Context, unit *plan.Unit, is Phase) (paused []string, err error) {
	var last string
	// Reads have no deadline: one that is cut off would hide what is waited for.
	err = poll(ctx, r.Wait, func(context.Context) (bool, error) {
		var err error
		last, paused, err = r.pendingReport(ctx, unit, is)
		return last == "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		if last != "" {
			last = ". " + strings.TrimSuffix(last, ".")
		}
		err = fmt.Errorf("everything is written, but %w within %s%s. Check that the manager runs and what it logs (kubectl -n %s get deployments,pods)",
			errUnreported, r.Wait, last, r.Namespace)
	}
	return paused, err
}

// pendingReport returns the first object of a unit that the manager has not reported, and why; and those that are paused by the user.
func (r *run) pendingReport(ctx context.Context, unit *plan.Unit, is Phase) (pending string, paused []string, err error) {
	owners, byUser := map[types.UID]types.UID{}, map[types.UID]bool{}
	for _, member := range adoptedMembers(unit) {
		if member.WorkspaceTemplateApply != nil {
			owners[member.WorkspaceTemplateApply.UID] = member.Object.UID
		}
	}
	cluster, err := r.clusterPaused(ctx, unit)
	if err != nil {
		return "", nil, err
	}
	err = eachAdopted(unit, func(ref migrate.ObjectRef) error {
		live, err := r.read(ctx, ref)
		if err != nil || pending != "" && is != PhaseApplying {
			return err
		}
		if live != nil && (cluster || pausedByUser(live) || byUser[owners[ref.UID]]) {
			byUser[ref.UID] = true // What it owns is paused with it.
			paused = append(paused, ref.String())
			return nil
		}
		why, err := whyUnreported(live, is)
		if why != "" {
			pending = fmt.Sprintf("%s: %s", ref, why)
		}
		return err
	})
	return pending, paused, err
}

func pausedByUser(live *unstructured.Unstructured) bool {
	value, paused := live.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused && value != pausedBy
}

// clusterPaused reports whether the user paused all of a unit with spec.paused of the Cluster.
func (r *run) clusterPaused(ctx context.Context, unit *plan.Unit) (bool, error) {
	if unit.Object.Kind != clusterKind {
		return false, nil
	}
	live, err := r.read(ctx, unit.Object)
	if err != nil || live == nil {
		return false, err
	}
	paused, _, err := unstructured.NestedBool(live.Object, "spec", "paused")
	return paused, err
}

// managerReport has the fields of status in which the manager reports an object of any kind.
type managerReport struct {
	Status struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
		// WrittenGeneration and Preview are those of a WorkspaceTemplateApply only.
		WrittenGeneration int64                   `json:"writtenGeneration"`
		Preview           infrav1.RevisionPreview `json:"preview"`
	} `json:"status"`
}

// whyUnreported returns why the manager has not reported an object yet; empty if it has. After a rollback, it reports only the conditions Paused and
// AdoptionRequired, and before an adoption is proven, only the proof.
func whyUnreported(live *unstructured.Unstructured, awaited Phase) (string, error) {
	switch {
	case live == nil && awaited == PhaseRolledBack:
		return "", nil
	case live == nil:
		return "it no longer exists", nil
	}
	var is managerReport
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &is); err != nil {
		return "", fmt.Errorf("reading the status of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	if awaited == PhaseApplying {
		return whyUnproven(live, &is)
	}
	return is.whyUnreported(live, awaited), nil
}

func (is *managerReport) whyUnreported(live *unstructured.Unstructured, awaited Phase) string {
	conditions, generation := is.Status.Conditions, live.GetGeneration()
	required := meta.IsStatusConditionTrue(conditions, infrav1.AdoptionRequiredCondition)
	switch {
	case meta.IsStatusConditionTrue(conditions, clusterv1.PausedCondition):
		return describe(conditions, clusterv1.PausedCondition)
	case required && awaited == PhaseRolledBack:
		return ""
	case required:
		return describe(conditions, infrav1.AdoptionRequiredCondition)
	case is.Status.ObservedGeneration != generation:
		return fmt.Sprintf("status.observedGeneration is %d, metadata.generation is %d", is.Status.ObservedGeneration, generation)
	case awaited == PhaseRolledBack || live.GetKind() != applyKind || is.Status.WrittenGeneration == generation:
		return ""
	}
	return fmt.Sprintf("the manager has not confirmed that its Workspace is as rendered (status.writtenGeneration is %d, metadata.generation is %d). %s",
		is.Status.WrittenGeneration, generation, describe(conditions, infrav1.ReadyCondition))
}

func whyUnproven(live *unstructured.Unstructured, is *managerReport) (string, error) {
	proof := legacy.ProofResult(live, is.Status.Preview)
	if proof == "" {
		return describe(is.Status.Conditions, infrav1.AdoptionRequiredCondition), nil
	} else if proof != infrav1.PreviewEmpty {
		return "", &unprovenError{migrate.RefOf(live), is.Status.Preview}
	}
	return "", nil
}

func describe(conditions []metav1.Condition, name string) string {
	condition := meta.FindStatusCondition(conditions, name)
	if condition == nil {
		return "It has no condition " + name
	}
	return strings.TrimSuffix(fmt.Sprintf("Condition %s is %s (%s): %s", name, condition.Status, condition.Reason, condition.Message), ": ")
}
