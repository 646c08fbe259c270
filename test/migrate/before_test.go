// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// legacyKinds are the kinds of CAPT v0.3 that the manager reconciles, with the conditions that it may add before the adoption.
var legacyKinds = map[string][]string{
	"CAPTCluster":            {infrav1.AdoptionRequiredCondition, clusterv1.PausedCondition, infrav1.ReadyCondition},
	"CAPTControlPlane":       {infrav1.AdoptionRequiredCondition, clusterv1.PausedCondition},
	"WorkspaceTemplateApply": {infrav1.AdoptionRequiredCondition, clusterv1.PausedCondition},
	"WorkspaceTemplate":      {infrav1.ValidCondition, infrav1.InUseCondition, infrav1.DeletingCondition},
}

// versions of a kind: that of CAPT v0.3, and the hub.
func versions(kind string) []schema.GroupVersion {
	if kind == "CAPTControlPlane" {
		return []schema.GroupVersion{controlplanev1beta1.GroupVersion, controlplanev1.GroupVersion}
	}
	return []schema.GroupVersion{infrav1beta1.GroupVersion, infrav1.GroupVersion}
}

// TestBeforeAdoptionTheManagerWritesOnlyConditions installs the manager, with Cluster API running, over the fleet that CAPT v0.3 left. Nothing
// looks worse than before, nothing is written but conditions, and the fleet can be adopted under that manager.
func TestBeforeAdoptionTheManagerWritesOnlyConditions(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true})
	_, err := env.Create(t.Context(), reference(nil), referenceNames())
	require.NoError(t, err)
	require.NoError(t, env.Upgrade(t.Context(), legacy.WebhooksOnly))
	env.await(env.unsettled)
	before, untouched, history := env.legacyObjects(), env.untouched(), env.history()
	require.Len(t, before, 2*(5+5+25+9))

	require.NoError(t, env.StartControllers(t.Context()))
	env.await(env.withoutAdoptionRequired)
	env.awaitReconciled()
	env.requireOnlyConditions(before, env.legacyObjects())
	require.Empty(t, history.lost(), "no Cluster and no object is less available than before")

	// Each object was written once at most, and only its status.
	written := map[string]int{}
	for _, event := range env.managerWrites(untouched.since) {
		require.Equal(t, "patch status", event.Verb+" "+event.ObjectRef.Subresource, event.RequestURI)
		written[event.RequestURI]++
		require.Equal(t, 1, written[event.RequestURI], event.RequestURI)
	}
	require.Len(t, written, 5+5+25+9)

	// When everything is reconciled again there is nothing to write.
	for range 2 {
		again := time.Now()
		require.NoError(t, env.StartControllers(t.Context()))
		env.awaitReconciled()
		require.Empty(t, env.managerWrites(again))
	}
	untouched.require(t)
	require.Empty(t, history.lost())

	env.host.Plan()
	env.host.Run(migrate.Done, "apply", "plan.json", "--yes")
	env.await(env.notAdopted)
	require.Empty(t, history.lost(), "nor is anything lost by the adoption")
	untouched.require(t)
}

// unsettled reports what Cluster API has not seen of the fleet.
func (env *environment) unsettled() string {
	var list clusterv1.ClusterList
	require.NoError(env, env.Admin.List(env.Context(), &list))
	for i := range list.Items {
		cluster := &list.Items[i]
		available := cluster.Name != wholeBroken.Name && cluster.Name != wholeOld.Name
		for condition, want := range map[string]bool{clusterv1.ClusterInfrastructureReadyCondition: true, clusterv1.ClusterControlPlaneAvailableCondition: available} {
			if meta.IsStatusConditionTrue(cluster.Status.Conditions, condition) != want {
				return fmt.Sprintf("Cluster %s: %s is not %v: %+v", cluster.Name, condition, want, cluster.Status.Conditions)
			}
		}
	}
	return ""
}

// legacyObjects are the objects of v0.3 in both versions, by version, kind, namespace and name.
func (env *environment) legacyObjects() map[string]*unstructured.Unstructured {
	env.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for kind := range legacyKinds {
		for _, version := range versions(kind) {
			for _, object := range fixture.List(env, env.Admin, version.WithKind(kind)) {
				objects[fmt.Sprintf("%s %s %s/%s", version.Version, kind, object.GetNamespace(), object.GetName())] = &object
			}
		}
	}
	return objects
}

// withoutAdoptionRequired reports which object does not have the condition yet that the manager sets before the adoption.
func (env *environment) withoutAdoptionRequired() string {
	for name, object := range env.legacyObjects() {
		expected := legacyKinds[object.GetKind()][0]
		if _, conditions := splitStatus(env.T, object); conditions[expected]["status"] != string(metav1.ConditionTrue) {
			return fmt.Sprintf("%s: %s is not True: %v", name, expected, conditions)
		}
	}
	return ""
}

// splitStatus returns an object without what a write of its conditions changes, and its conditions by type.
func splitStatus(t *testing.T, object *unstructured.Unstructured) (rest map[string]any, conditions map[string]map[string]any) {
	t.Helper()
	rest = object.DeepCopy().Object
	for _, field := range []string{"resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(rest, "metadata", field)
	}
	if object.GroupVersionKind().Version != migrate.Version && carriesConditions(t, object) {
		unstructured.RemoveNestedField(rest, "status", "conversionData")
	}
	list, _, err := unstructured.NestedSlice(rest, "status", "conditions")
	require.NoError(t, err)
	unstructured.RemoveNestedField(rest, "status", "conditions")
	conditions = map[string]map[string]any{}
	for _, condition := range list {
		fields := condition.(map[string]any)
		conditions[fields["type"].(string)] = fields
	}
	if status, _, _ := unstructured.NestedMap(rest, "status"); len(status) == 0 { // It had nothing but conditions.
		delete(rest, "status")
	}
	return rest, conditions
}

// carriesConditions reports whether the part of status for which v1beta1 has no fields is about conditions only.
func carriesConditions(t *testing.T, object *unstructured.Unstructured) bool {
	t.Helper()
	var carried struct{ Fields []struct{ Path string } }
	text, found, err := unstructured.NestedString(object.Object, "status", "conversionData")
	require.NoError(t, err)
	if found {
		require.NoError(t, json.Unmarshal([]byte(text), &carried))
	}
	return !slices.ContainsFunc(carried.Fields, func(field struct{ Path string }) bool { return !strings.HasPrefix(field.Path, "/status/conditions") })
}

// requireOnlyConditions proves that objects differ in nothing but conditions that the manager may add.
func (env *environment) requireOnlyConditions(before, after map[string]*unstructured.Unstructured) {
	env.Helper()
	require.Len(env, after, len(before))
	for name, object := range before {
		require.Contains(env, after, name)
		was, had := splitStatus(env.T, object)
		is, has := splitStatus(env.T, after[name])
		assert.Equal(env, was, is, name)
		for condition, fields := range had {
			assert.Equal(env, fields, has[condition], "%s: %s", name, condition)
		}
		for condition := range has {
			assert.True(env, had[condition] != nil || slices.Contains(legacyKinds[object.GetKind()], condition), "%s: %s", name, condition)
		}
	}
	if env.Failed() {
		env.FailNow()
	}
}

// awaitReconciled waits until the manager has reconciled every object since its start, and has nothing left to do.
func (env *environment) awaitReconciled() {
	env.Helper()
	manager, objects := &fixture.Server{Sandbox: env.Environment.Sandbox}, map[string]float64{}
	for name, object := range env.legacyObjects() {
		if strings.HasPrefix(name, migrate.Version+" ") {
			objects[strings.ToLower(object.GetKind())]++
		}
	}
	env.await(func() string {
		activity, err := manager.Activity(env.Context())
		if err != nil {
			return err.Error() // It has just been started.
		}
		for controller, count := range objects {
			if activity.Reconciles[controller] < count {
				return fmt.Sprintf("%s has reconciled %v times", controller, activity.Reconciles[controller])
			}
			if activity.Errors[controller] > 0 {
				return fmt.Sprintf("%s had %v errors", controller, activity.Errors[controller])
			}
		}
		return fixture.Unless(activity.Pending == 0, "the controllers are at work")
	})
}

// managerWrites are the writes of the manager but for its lease and its events.
func (env *environment) managerWrites(since time.Time) []auditv1.Event {
	env.Helper()
	user, err := env.InstalledManagerUser()
	require.NoError(env, err)
	events := fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: user, Verbs: audit.Writes, Since: since})
	return slices.DeleteFunc(events, func(event auditv1.Event) bool {
		return slices.Contains([]string{"leases", "events", "tokenreviews", "subjectaccessreviews"}, event.ObjectRef.Resource)
	})
}

// notAdopted reports which object is not adopted, or not Ready after that.
func (env *environment) notAdopted() string {
	for name, object := range env.legacyObjects() {
		// This helper has no Workspace: there is nothing to adopt.
		left := strings.HasSuffix(object.GetName(), "-spot-role-create")
		_, conditions := splitStatus(env.T, object)
		observed, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		require.NoError(env, err)
		required := conditions[infrav1.AdoptionRequiredCondition]["status"] == string(metav1.ConditionTrue)
		switch ready := conditions[infrav1.ReadyCondition]["status"] == string(metav1.ConditionTrue); {
		case required:
			return fmt.Sprintf("%s awaits adoption: %v", name, required)
		case object.GetKind() == "WorkspaceTemplate" || left || strings.HasPrefix(object.GetName(), wholeBroken.Name):
		case !ready, strings.HasPrefix(name, migrate.Version+" ") && observed != object.GetGeneration():
			return fmt.Sprintf("%s is not Ready: %v", name, conditions)
		}
	}
	return ""
}
