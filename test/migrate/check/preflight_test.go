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

package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// writes are the requests of a user that could have changed something: reviews of permissions could not.
func writes(t *testing.T, user string, since time.Time) []auditv1.Event {
	t.Helper()
	events, err := shared.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Since: since})
	require.NoError(t, err)
	var found []auditv1.Event
	for _, event := range events {
		if event.ObjectRef == nil || event.ObjectRef.Resource != "selfsubjectaccessreviews" {
			found = append(found, event)
		}
	}
	return found
}

func TestAMigrationCanBeginWhereEverythingIsInPlace(t *testing.T) {
	began := time.Now()
	create(t, "kubectl-create", captCluster(namespace(t), "harbour"))
	create(t, "sandbox", deployment(sandbox.ManagerNamespace, "capt-manager", "example.com/capt-manager:v1.0.0", 2, "--leader-elect", "--webhooks-only"))

	report, err := check.Run(t.Context(), optionsOf(t, sandbox.Captctl))
	require.NoError(t, err)
	for _, name := range []string{check.CheckPermissions, check.CheckJournal, check.CheckDefinitions, check.CheckConversion,
		check.CheckAdmission, check.CheckClusterAPI, check.CheckWorkspaces, check.CheckOlderManager, check.CheckActivity,
		check.CheckGitOps, check.CheckInstallers, check.CheckLock, check.CheckClock} {
		check := find(t, report, name)
		assert.Equal(t, check.OK, check.Status, "%s: %s %q", name, check.Message, check.Objects)
	}
	assert.Equal(t, check.Warning, find(t, report, check.CheckProvider).Status, "there is no provider in this cluster")
	assert.Contains(t, find(t, report, check.CheckAdmission).Message, "CAPTCluster")

	sent := writes(t, sandbox.CaptctlUser, began)
	require.Len(t, sent, 1, "one object was there to try admission with")
	assert.Contains(t, sent[0].RequestURI, "dryRun=All")
}

func TestWhoMayOnlyReadIsToldWhatIsMissingAndSendsNoWrite(t *testing.T) {
	began := time.Now()
	object := captCluster(namespace(t), "harbour")
	create(t, "kubectl-create", object)
	before := object.GetResourceVersion()
	options := optionsOf(t, sandbox.Reader)
	options.Phases = []check.Phase{check.Adopt, check.Storage, check.Backup}

	report, err := check.Run(t.Context(), options)
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err))
	var want []string
	for _, right := range check.Rights(sandbox.ManagerNamespace, check.Adopt, check.Storage) {
		if right.Optional == "" {
			want = append(want, right.String())
			assert.ErrorContains(t, err, right.String())
		}
	}
	check := find(t, report, check.CheckPermissions)
	assert.Equal(t, check.Failed, check.Status)
	assert.ElementsMatch(t, want, check.Objects)
	assert.Contains(t, check.Objects, "patch captclusters.infrastructure.cluster.x-k8s.io")
	assert.Contains(t, check.Objects, "create leases.coordination.k8s.io in namespace capt-system")

	assert.Empty(t, writes(t, sandbox.ReaderUser, began), "not even a dry run")
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	assert.Equal(t, before, object.GetResourceVersion())
}

func TestAPermissionThatOneCanDoWithoutIsAWarning(t *testing.T) {
	check := look(t, check.CheckPermissions, func(o *check.Options) { o.Phases = []check.Phase{check.Adopt, check.Backup} })
	assert.Equal(t, check.Warning, check.Status)
	assert.Equal(t, []string{"list secrets"}, check.Objects)
	assert.Contains(t, check.Message, "Terraform's state")
}

func TestTheJournalNeedsItsNamespace(t *testing.T) {
	check := look(t, check.CheckJournal, func(o *check.Options) { o.JournalNamespace = "nowhere" })
	assert.Equal(t, check.Failed, check.Status)
	assert.Contains(t, check.Message, "--journal-namespace")
}

func TestTheOlderManagerMustBeOff(t *testing.T) {
	place := namespace(t)
	older := deployment(place, "capt-controller-manager", "example.com/older/capt:v0.4.1", 1)
	create(t, "kubectl-create", older)
	check := look(t, check.CheckOlderManager)
	assert.Equal(t, check.Failed, check.Status)
	assert.Equal(t, []string{"Deployment " + place + "/capt-controller-manager: it is not scaled to 0"}, check.Objects)
	runs, err := check.OlderManagerRuns(t.Context(), optionsOf(t, sandbox.Captctl))
	require.NoError(t, err)
	assert.Equal(t, check.Objects[0], runs)

	// It is scaled down, and on a node that does not answer its Pod goes on.
	require.NoError(t, admin.Patch(t.Context(), older, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))
	pod := &corev1.Pod{ObjectMeta: older.Spec.Template.ObjectMeta, Spec: older.Spec.Template.Spec}
	pod.Namespace, pod.Name = place, "left"
	pod.Spec.AutomountServiceAccountToken = new(bool)
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: "default"}}))
	create(t, "kubectl-create", pod)
	check = look(t, check.CheckOlderManager)
	assert.Equal(t, check.Failed, check.Status)
	assert.Equal(t, []string{"Deployment " + place + "/capt-controller-manager: it is scaled to 0, but Pod left is still there"}, check.Objects)

	require.NoError(t, admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	assert.Equal(t, check.OK, look(t, check.CheckOlderManager).Status)
}

func TestAnOlderManagerCanBeNamed(t *testing.T) {
	place := namespace(t)
	create(t, "kubectl-create", deployment(place, "clusters", "example.com/platform/operator:3", 1))
	assert.Equal(t, check.OK, look(t, check.CheckOlderManager).Status, "nothing tells what it is")

	name := func(name string) func(*check.Options) {
		return func(o *check.Options) { o.OlderManagers = []types.NamespacedName{{Namespace: place, Name: name}} }
	}
	assert.Equal(t, check.Failed, look(t, check.CheckOlderManager, name("clusters")).Status)
	check := look(t, check.CheckOlderManager, name("cluster"))
	assert.Equal(t, check.Failed, check.Status, "a name that is mistyped must not look as if nothing ran")
	assert.Contains(t, check.Message, "there is no Deployment "+place+"/cluster")
}

func TestWhoeverWritesAsTheOlderManagerDoesIsSeen(t *testing.T) {
	object := captCluster(namespace(t), "harbour")
	create(t, "kubectl-create", object)
	assert.Equal(t, check.OK, look(t, check.CheckActivity).Status, "people write v1beta1, too")

	object.SetGroupVersionKind(object.GroupVersionKind().GroupVersion().WithKind("CAPTCluster"))
	require.NoError(t, unstructured.SetNestedField(object.Object, "vpc-0ffee", "status", "vpcId"))
	require.NoError(t, admin.Status().Update(t.Context(), object, client.FieldOwner("manager")))
	check := look(t, check.CheckActivity)
	assert.Equal(t, check.Failed, check.Status)
	require.Len(t, check.Objects, 1)
	assert.Contains(t, check.Objects[0], "CAPTCluster "+object.GetNamespace()+"/harbour: manager wrote its status in infrastructure.cluster.x-k8s.io/v1beta1 at ")
	runs, err := check.OlderManagerRuns(t.Context(), optionsOf(t, sandbox.Captctl))
	require.NoError(t, err)
	assert.Equal(t, check.Objects[0], runs)

	// The API server writes seconds, so a write is over when the next one has begun.
	quiet := func(o *check.Options) { o.Quiet = time.Nanosecond }
	require.Eventually(t, func() bool { return look(t, check.CheckActivity, quiet).Status == check.OK }, time.Minute, 100*time.Millisecond)
}

func TestTheOlderManagerIsSeenOnClustersToo(t *testing.T) {
	place := namespace(t)
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"namespace": place, "name": "harbour"},
		"spec":     map[string]any{"paused": true},
	}}
	create(t, "kubectl-create", cluster)
	object := captCluster(place, "harbour")
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "harbour", UID: cluster.GetUID()}})
	create(t, "older", object)
	quiet := func(o *check.Options) { o.Quiet = time.Nanosecond }
	require.Eventually(t, func() bool { return look(t, check.CheckActivity, quiet).Status == check.OK }, time.Minute, 100*time.Millisecond)

	wide := func(o *check.Options) { o.Quiet = time.Second }
	require.Eventually(t, func() bool {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/at":"`+time.Now().String()+`"}}}`))
		require.NoError(t, admin.Patch(t.Context(), cluster, patch, client.FieldOwner("older")))
		check := look(t, check.CheckActivity, wide)
		return check.Status == check.Failed && strings.HasPrefix(check.Objects[0], "Cluster "+place+"/harbour: older wrote it in cluster.x-k8s.io/v1beta2")
	}, time.Minute, 100*time.Millisecond)
}

func TestObjectsThatGitOpsAppliesAreListed(t *testing.T) {
	place := namespace(t)
	flux := captCluster(place, "flux")
	flux.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
	create(t, "kustomize-controller", flux)
	create(t, "argocd-controller", captCluster(place, "argo"))
	create(t, "kubectl-create", captCluster(place, "nobody"))

	check := look(t, check.CheckGitOps)
	assert.Equal(t, check.Warning, check.Status)
	assert.Contains(t, check.Message, "captctl convert")
	assert.ElementsMatch(t, []string{
		"CAPTCluster " + place + "/flux: Flux Kustomization flux-system/fleet",
		"CAPTCluster " + place + "/argo: Argo CD",
	}, check.Objects)
}

func TestALockThatIsHeldStandsInTheWayOfOthers(t *testing.T) {
	holder, seconds, renewed := "somebody", int32(600), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: check.LockName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
	create(t, "captctl", lease)
	report, err := check.Run(t.Context(), optionsOf(t, sandbox.Captctl))
	assert.Equal(t, migrate.Locked, migrate.OutcomeOf(err))
	assert.Contains(t, find(t, report, check.CheckLock).Message, holder)

	assert.Equal(t, check.OK, look(t, check.CheckLock, func(o *check.Options) { o.Holder = holder }).Status)

	longAgo := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease.Spec.RenewTime = &longAgo
	require.NoError(t, admin.Update(t.Context(), lease))
	assert.Equal(t, check.OK, look(t, check.CheckLock).Status, "it was given up")
}

func TestAClockThatIsWrongIsAWarning(t *testing.T) {
	check := look(t, check.CheckClock, func(o *check.Options) {
		o.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(-time.Hour))
	})
	assert.Equal(t, check.Warning, check.Status)
}

func TestWorkspacesAtWhichTerraformWorksAreListed(t *testing.T) {
	place := namespace(t)
	apply := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
		"metadata": map[string]any{"namespace": place, "name": "harbour-vpc-apply"},
		"spec":     map[string]any{"templateRef": map[string]any{"name": "dock"}},
	}}
	create(t, "kubectl-create", apply)
	for name, conditions := range map[string][]any{
		"harbour-vpc": {map[string]any{"type": "Synced", "status": "False", "reason": "ReconcileError", "lastTransitionTime": "2025-03-01T10:00:00Z"}},
		"elsewhere":   nil,
	} {
		workspace := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "tf.upbound.io/v1beta1", "kind": "Workspace", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"forProvider": map[string]any{"source": "Inline", "module": ""}},
		}}
		create(t, "older", workspace)
		if conditions != nil {
			require.NoError(t, unstructured.SetNestedSlice(workspace.Object, conditions, "status", "conditions"))
			require.NoError(t, admin.Status().Update(t.Context(), workspace))
		}
	}
	check := look(t, check.CheckWorkspaces)
	assert.Equal(t, check.Warning, check.Status)
	assert.Equal(t, []string{"Workspace harbour-vpc: Synced is False (ReconcileError)"}, check.Objects, "others are nobody's business")
}

// TestWebhooksThatNobodyServes comes last: it takes the manager away.
func TestWebhooksThatNobodyServes(t *testing.T) {
	object := captCluster(namespace(t), "harbour")
	create(t, "kubectl-create", object)
	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	t.Cleanup(func() { require.NoError(t, shared.StartComponent(context.Background(), sandbox.Manager)) })

	report, err := check.Run(t.Context(), optionsOf(t, sandbox.Captctl))
	assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err))
	conversion := find(t, report, check.CheckConversion)
	assert.Equal(t, check.Failed, conversion.Status)
	assert.Contains(t, conversion.Objects[0], "CAPTCluster in v1beta1")
	admission := find(t, report, check.CheckAdmission)
	assert.Equal(t, check.Failed, admission.Status)
	assert.Contains(t, admission.Objects[0], "CAPTCluster "+object.GetNamespace()+"/harbour")
}
