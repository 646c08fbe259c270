// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const templates = "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"

// statuses of all checks, by name.
func statuses(report *check.Report) map[string]check.Status {
	found := map[string]check.Status{}
	for _, c := range report.Checks {
		found[c.Name] = c.Status
	}
	return found
}

// TestUntouched comes first: the tests after it install this version.
func TestUntouched(t *testing.T) {
	quiet(t)
	t.Run("every check", func(t *testing.T) {
		r := report(t, sandbox.Captctl)
		assert.Equal(t, check.Untouched, r.Stage)
		require.Empty(t, r.Failed())
		assert.Equal(t, map[string]check.Status{
			check.CheckPermissions: check.OK, check.CheckClock: check.OK, check.CheckJournal: check.OK,
			check.CheckClusterAPI: check.OK, check.CheckCertManager: check.Warning, check.CheckProvider: check.Warning,
			check.CheckDefinitions: check.Warning, check.CheckStored: check.OK, check.CheckInstallers: check.OK, check.CheckLegacy: check.OK,
		}, statuses(r))
		later := look(t, check.CheckJournal, func(o *check.Options) { o.JournalNamespace = "nowhere" })
		assert.Equal(t, check.Warning, later.Status, "there is time until this version is installed")
		assert.Contains(t, find(t, r, check.CheckStored).Objects, "captclusters.infrastructure.cluster.x-k8s.io: v1beta1")
	})
	t.Run("a reader lacks rights for later", func(t *testing.T) {
		began := time.Now()
		c := find(t, report(t, sandbox.Reader), check.CheckPermissions)
		assert.Equal(t, check.Warning, c.Status)
		assert.Contains(t, c.Objects, "patch captclusters.infrastructure.cluster.x-k8s.io")
		assert.Equal(t, []string{
			"kubectl apply -f config/rbac/captctl.yaml",
			"kubectl create clusterrolebinding 'capt-migrate:reader-user' --clusterrole=capt-migrate --user='reader-user'",
			"kubectl -n capt-system create rolebinding 'capt-migrate-journal:reader-user' --clusterrole=capt-migrate-journal --user='reader-user'",
		}, c.Commands)
		requireNoWrites(t, sandbox.ReaderUser, began)
	})
	t.Run("the renamed kind", func(t *testing.T) {
		c := look(t, check.CheckDefinitions)
		assert.Contains(t, c.Message, "cannot be changed in place")
		assert.Equal(t, []string{"kubectl get " + templates + " --all-namespaces -o yaml > captcontrolplanetemplates.yaml", "kubectl delete crd " + templates}, c.Commands)
		_, err := env.TakeTemplates(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"kubectl delete crd " + templates}, look(t, check.CheckDefinitions).Commands)
	})
	t.Run("CAPT v0.3 is to be stopped", stopLegacy)
}

func stopLegacy(t *testing.T) {
	deployments := legacy.Deployments(1)
	deployments[0].Labels["helm.toolkit.fluxcd.io/name"], deployments[0].Labels["helm.toolkit.fluxcd.io/namespace"] = "capt", "flux-system"
	for _, deployment := range deployments {
		create(t, deployment)
	}
	c := look(t, check.CheckLegacy)
	assert.Equal(t, check.Warning, c.Status)
	const name = "appthrust-capt-controller-manager-"
	assert.Equal(t, []string{
		"Deployment capt-system/" + name + "control-plane: it is not scaled to 0; Flux HelmRelease flux-system/capt can scale it up again",
		"Deployment capt-system/" + name + "infrastructure: it is not scaled to 0",
	}, c.Objects)
	assert.Equal(t, []string{
		"flux suspend helmrelease capt -n flux-system",
		"kubectl -n capt-system scale deployment/" + name + "control-plane --replicas=0",
		"kubectl -n capt-system wait pod -l 'cluster.x-k8s.io/provider=control-plane-capt,cluster.x-k8s.io/v1beta1=v1beta1,control-plane=controller-manager' --for=delete --timeout=2m",
		"kubectl -n capt-system scale deployment/" + name + "infrastructure --replicas=0",
		"kubectl -n capt-system wait pod -l 'cluster.x-k8s.io/provider=infrastructure-capt,cluster.x-k8s.io/v1beta1=v1beta1,control-plane=controller-manager' --for=delete --timeout=2m",
	}, c.Commands)
	installers := look(t, check.CheckInstallers)
	assert.Equal(t, check.Warning, installers.Status)
	assert.Equal(t, []string{"Deployment capt-system/" + name + "control-plane: Flux HelmRelease flux-system/capt"}, installers.Objects)
}

// requireNoWrites accepts reviews, which the API server does not store.
func requireNoWrites(t *testing.T, user string, since time.Time) {
	t.Helper()
	for _, event := range fixture.AuditEvents(t, env.Sandbox, audit.Filter{User: user, Verbs: audit.Writes, Since: since}) {
		require.Contains(t, []string{"selfsubjectaccessreviews", "selfsubjectreviews"}, event.ObjectRef.Resource, event.RequestURI)
	}
}

func TestInstallersOfDefinitionsAreFound(t *testing.T) {
	const name = "captclusters.infrastructure.cluster.x-k8s.io"
	for tool, row := range map[string]struct {
		installed string
		keep      string
		commands  []string
	}{
		"Helm release capt-system/capt": {
			`"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":"capt","meta.helm.sh/release-namespace":"capt-system"}`, ``, nil, // Helm does not read the live object.
		},
		"Flux Kustomization flux-system/capt": {
			`"labels":{"kustomize.toolkit.fluxcd.io/name":"capt","kustomize.toolkit.fluxcd.io/namespace":"flux-system"}`,
			`{"kustomize.toolkit.fluxcd.io/prune":"disabled"}`,
			[]string{"flux suspend kustomization capt -n flux-system", "kubectl annotate --overwrite crd " + name + " kustomize.toolkit.fluxcd.io/prune=disabled"},
		},
		"Argo CD Application capt": {
			`"annotations":{"argocd.argoproj.io/tracking-id":"capt:apiextensions.k8s.io/CustomResourceDefinition:x/y"}`,
			`{"argocd.argoproj.io/sync-options":"Prune=false,Delete=false"}`,
			[]string{"argocd app set capt --sync-policy none", "kubectl annotate --overwrite crd " + name + " argocd.argoproj.io/sync-options=Prune=false,Delete=false"},
		},
	} {
		t.Run(tool, func(t *testing.T) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKey{Name: name}, definition))
			before := definition.DeepCopy()
			t.Cleanup(func() {
				require.NoError(t, env.Admin.Get(context.Background(), client.ObjectKey{Name: name}, definition))
				definition.Labels, definition.Annotations = before.Labels, before.Annotations
				require.NoError(t, env.Admin.Update(context.Background(), definition))
			})
			patch(t, definition, `{"metadata":{`+row.installed+`}}`)
			c := look(t, check.CheckInstallers)
			assert.Equal(t, check.Warning, c.Status)
			assert.Equal(t, []string{"CustomResourceDefinition " + name + ": " + tool}, c.Objects)
			assert.Equal(t, row.commands, c.Commands)
			assert.Contains(t, c.Message, "never with helm uninstall")
			if row.keep != "" {
				patch(t, definition, `{"metadata":{"annotations":`+row.keep+`}}`)
				assert.Equal(t, check.OK, look(t, check.CheckInstallers).Status)
			}
		})
	}
}

func TestBeforeApply(t *testing.T) {
	install(t)
	quiet(t)
	began := time.Now()
	r := report(t, sandbox.Captctl)
	assert.Equal(t, check.Apply, r.Stage)
	require.Empty(t, r.Failed())
	assert.Equal(t, map[string]check.Status{
		check.CheckPermissions: check.OK, check.CheckClock: check.OK, check.CheckJournal: check.OK,
		check.CheckClusterAPI: check.OK, check.CheckProvider: check.Warning, check.CheckDefinitions: check.OK,
		check.CheckConversion: check.OK, check.CheckAdmission: check.OK, check.CheckStored: check.OK, check.CheckInstallers: check.OK,
		check.CheckLegacy: check.OK, check.CheckManager: check.Warning,
	}, statuses(r))
	events := fixture.AuditEvents(t, env.Sandbox, audit.Filter{User: sandbox.CaptctlUser, Verbs: []string{"patch", "update", "delete"}, Since: began})
	require.Len(t, events, 4, "admission of each kind that captctl writes")
	for _, event := range events {
		assert.Contains(t, event.RequestURI, "dryRun=All")
	}

	rollback := report(t, sandbox.Captctl, func(o *check.Options) { o.Before = check.Rollback })
	require.Empty(t, rollback.Failed())
	assert.Equal(t, map[string]check.Status{
		check.CheckPermissions: check.OK, check.CheckClock: check.OK, check.CheckJournal: check.OK,
		check.CheckDefinitions: check.OK, check.CheckConversion: check.OK, check.CheckAdmission: check.OK, check.CheckLegacy: check.OK,
	}, statuses(rollback))
}

func TestMissingRightsAreListedBeforeAnyWrite(t *testing.T) {
	install(t)
	began := time.Now()
	r := report(t, sandbox.Reader, func(o *check.Options) { o.FixClusterEndpoints, o.JournalNamespace = true, "capt-system" })
	c := find(t, r, check.CheckPermissions)
	assert.Equal(t, check.Failed, c.Status)
	rights, err := check.Rights("capt-system", check.RoleWriter, check.RoleJournal, check.RoleEndpoints)
	require.NoError(t, err)
	assert.Contains(t, r.Failed(), c)
	assert.Len(t, c.Objects, len(rights))
	for _, right := range rights {
		assert.Contains(t, c.Objects, right.String())
	}
	assert.Len(t, c.Commands, 3, "one binding per role")
	assert.Equal(t, check.Warning, find(t, r, check.CheckAdmission).Status, "not even a dry run")
	requireNoWrites(t, sandbox.ReaderUser, began)
}

func TestLegacyManagerMustNotRun(t *testing.T) {
	install(t)
	quiet(t)
	deployment := legacy.Deployments(1)[0]
	deployment.Namespace = "elsewhere"
	create(t, deployment)
	c := look(t, check.CheckLegacy)
	assert.Equal(t, check.Failed, c.Status)
	assert.Equal(t, "kubectl -n elsewhere scale deployment/"+deployment.Name+" --replicas=0", c.Commands[0])

	// It is scaled down, and on a node that does not respond its Pod runs on.
	patch(t, deployment, `{"spec":{"replicas":0}}`)
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Namespace, pod.Name, pod.Spec.AutomountServiceAccountToken = deployment.Namespace, "left", ptr.To(false)
	create(t, pod)
	c = look(t, check.CheckLegacy)
	assert.Equal(t, check.Failed, c.Status)
	assert.Contains(t, c.Objects[0], "it is scaled to 0, but Pod left still exists")
	assert.Len(t, c.Commands, 1)
	require.NoError(t, env.Admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	assert.Equal(t, check.OK, look(t, check.CheckLegacy).Status)
}

func TestLegacyManagerIsFoundByWhatItWrites(t *testing.T) {
	install(t)
	quiet(t)
	object := &fixture.List(t, env.Admin, infrav1beta1.GroupVersion.WithKind("CAPTCluster"))[0]
	patch(t, object, `{"metadata":{"labels":{"example.com/by":"alice"}}}`)
	assert.Equal(t, check.OK, look(t, check.CheckLegacy).Status, "users write v1beta1, too")

	require.NoError(t, unstructured.SetNestedField(object.Object, "vpc-0ffee", "status", "vpcId"))
	require.NoError(t, env.Admin.Status().Update(t.Context(), object, client.FieldOwner("anything")))
	c := look(t, check.CheckLegacy, func(o *check.Options) { o.Quiet = time.Hour })
	assert.Equal(t, check.Failed, c.Status)
	assert.Contains(t, strings.Join(c.Objects, "\n"), "CAPTCluster "+client.ObjectKeyFromObject(object).String()+": anything wrote its status in infrastructure.cluster.x-k8s.io/v1beta1 at ")
}

func TestTheManagerIsFoundByItsDeployment(t *testing.T) {
	install(t)
	labels := map[string]string{"app.kubernetes.io/name": "capt", "app.kubernetes.io/component": "manager"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: "capt-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "capt-manager",
				Containers:         []corev1.Container{{Name: "manager", Image: "capt-manager", Ports: []corev1.ContainerPort{{Name: "webhooks", ContainerPort: 9443}}}},
			}},
		},
	}
	create(t, deployment)
	c := look(t, check.CheckManager)
	assert.Equal(t, check.Warning, c.Status)
	assert.Equal(t, []string{
		"kubectl -n capt-system scale deployment/capt-manager --replicas=2", "kubectl -n capt-system rollout status deployment/capt-manager --timeout=5m",
	}, c.Commands)
	deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 1, 1, 1
	require.NoError(t, env.Admin.Status().Update(t.Context(), deployment))
	assert.Equal(t, check.OK, look(t, check.CheckManager).Status)
	assert.Equal(t, check.OK, look(t, check.CheckLegacy).Status)
}

// leaseOf is a Lease that is held for an hour.
func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("elsewhere"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
	}}
}

func TestTheManagerIsFoundByItsLease(t *testing.T) {
	install(t)
	lease := leaseOf("capt-manager-leader-election")
	require.NoError(t, client.IgnoreNotFound(env.Admin.Delete(t.Context(), lease.DeepCopy())))
	create(t, lease)
	assert.Equal(t, check.OK, look(t, check.CheckManager).Status)
	patch(t, lease, `{"spec":{"leaseDurationSeconds":1,"renewTime":"2026-01-01T00:00:00.000000Z"}}`)
	assert.Equal(t, check.Warning, look(t, check.CheckManager).Status)
}

func TestNamespaceAndClock(t *testing.T) {
	install(t)
	c := look(t, check.CheckJournal, func(o *check.Options) { o.JournalNamespace = "nowhere" })
	assert.Equal(t, check.Failed, c.Status)
	assert.Equal(t, []string{"kubectl create namespace nowhere"}, c.Commands)
	c = look(t, check.CheckClock, func(o *check.Options) { o.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(-time.Hour)) })
	assert.Equal(t, check.Warning, c.Status)
}

// TestWebhooksWithoutAManager comes last: it stops the manager.
func TestWebhooksWithoutAManager(t *testing.T) {
	install(t)
	require.NoError(t, env.StopComponent(t.Context(), sandbox.Manager))
	t.Cleanup(func() { require.NoError(t, env.StartComponent(context.Background(), sandbox.Manager)) })
	r := report(t, sandbox.Captctl)
	assert.NotEmpty(t, r.Failed())
	conversion, admission := find(t, r, check.CheckConversion), find(t, r, check.CheckAdmission)
	assert.Equal(t, check.Failed, conversion.Status)
	assert.NotEmpty(t, conversion.Objects)
	assert.Equal(t, check.Failed, admission.Status)
	assert.Len(t, admission.Objects, 4)
}
