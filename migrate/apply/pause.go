// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// pollInterval is how often objects are read while the manager is waited for.
const pollInterval = time.Second

// pausedBy is the value of the annotation cluster.x-k8s.io/paused that captctl sets. An object with another value was paused by the user, and
// stays paused. The Lease lets one run write at a time, so that what an earlier plan left paused is this run's, too.
const pausedBy = "captctl-migrate"

// pauseStep sets the annotation that pauses an object.
func pauseStep(object migrate.ObjectRef) *plan.Step {
	value, _ := json.Marshal(pausedBy) // A string can always be encoded.
	path := "/metadata/annotations/" + strings.ReplaceAll(clusterv1.PausedAnnotation, "/", "~1")
	return &plan.Step{Object: object, Why: "paused while captctl writes its Cluster", Fields: []plan.Field{{Path: path, After: value}}}
}

// pause stops the manager from looking at a unit that is only half written.
func (r *run) pause(ctx context.Context, unit *plan.Unit) error {
	return r.eachObject(unit, func(object migrate.ObjectRef) error {
		return ignoreChanged(r.write(ctx, pauseStep(object), forward, &UnitResult{}))
	})
}

func (r *run) unpause(ctx context.Context, unit *plan.Unit) error {
	return r.eachObject(unit, func(object migrate.ObjectRef) error {
		return ignoreChanged(r.write(ctx, pauseStep(object), backward, &UnitResult{}))
	})
}

func ignoreChanged(err error) error {
	if _, ok := err.(*changedError); ok { //nolint:errorlint // write returns it unwrapped.
		return nil
	}
	return err
}

// eachObject calls do for the owners and WorkspaceTemplateApplies of a unit.
func (r *run) eachObject(unit *plan.Unit, do func(migrate.ObjectRef) error) error {
	return each(unit.Members, do)
}

func each(members []plan.Member, do func(migrate.ObjectRef) error) error {
	done := map[migrate.ObjectRef]bool{}
	for _, member := range members {
		objects := []migrate.ObjectRef{member.Object}
		if member.WorkspaceTemplateApply != nil {
			objects = append(objects, *member.WorkspaceTemplateApply)
		}
		for _, object := range objects {
			if done[object] {
				continue
			}
			done[object] = true
			if err := do(object); err != nil {
				return err
			}
		}
	}
	return nil
}

// await waits until the manager has reported every object of a unit as it is now. What the user paused is not waited for.
func (r *run) await(ctx context.Context, unit *plan.Unit, adopted bool) error {
	// A helper that is left alone has no Workspace in the plan, and stays unadopted.
	members := slices.DeleteFunc(slices.Clone(unit.Members), func(member plan.Member) bool { return member.Workspace == nil })
	var unsettled string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, r.Wait, true, func(ctx context.Context) (bool, error) {
		unsettled = ""
		err := each(members, func(ref migrate.ObjectRef) error {
			live, err := r.read(ctx, ref)
			if err != nil || live == nil || unsettled != "" {
				return err
			}
			if why := unreported(live, adopted); why != "" {
				unsettled = fmt.Sprintf("%s: %s", ref, why)
			}
			return nil
		})
		return unsettled == "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("everything is written, but within %s the manager has not reported it. %s. Check that the manager runs, and run the same command again", r.Wait, unsettled)
	}
	return err
}

// unreported says why the manager has not yet reported an object as it is now; empty if it has. It reports an object that is not adopted with
// the condition AdoptionRequired only, and leaves the rest of its status alone.
func unreported(live *unstructured.Unstructured, adopted bool) string {
	if _, paused := live.GetAnnotations()[clusterv1.PausedAnnotation]; paused {
		return ""
	}
	required, message := adoptionRequired(live)
	switch observed, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); {
	case adopted && required:
		return "condition AdoptionRequired is still True: " + message
	case !adopted && required, observed == live.GetGeneration():
		return ""
	}
	return "status.observedGeneration is not yet " + strconv.FormatInt(live.GetGeneration(), 10)
}

func adoptionRequired(live *unstructured.Unstructured) (required bool, message string) {
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == infrav1.AdoptionRequiredCondition && condition["status"] == string(metav1.ConditionTrue) {
			message, _ = condition["message"].(string)
			return true, message
		}
	}
	return false, ""
}
