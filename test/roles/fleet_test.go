// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// adoptFleet takes a fleet of CAPT v0.3 through all commands of captctl migrate, and waits until its stored versions are migrated. One of the clusters
// has a template that was edited since.
func adoptFleet(t *testing.T, manager, captctl *usage) {
	t.Helper()
	env := legacy.New(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true})
	bindAsDocumented(t, env)
	for namespace, name := range map[string]string{"plain": "reference-set", "drifted": "reference-set", "tenant": "templates-in-default"} {
		_, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(namespace))
		require.NoError(t, err)
	}
	editTemplate(t, env, "drifted")

	for _, deployment := range legacy.Deployments(0) {
		require.NoError(t, env.Admin.Create(t.Context(), deployment))
	}

	h := host.New(t, env.Sandbox)
	h.Run(migrate.NeedsDecision, "check")
	require.NoError(t, env.Upgrade(t.Context(), leaderElection()...))
	upgraded := time.Now() // Before, the API server was restarted, and an API server that starts forbids everything for a moment.
	createClassTemplates(t, env)
	host.Settled(t, env.Sandbox, func() map[string]string { return host.Fleet(t, env.Admin) })
	h.Run(migrate.NeedsDecision, "check")
	h.Run(migrate.Done, h.Advised(h.Run(migrate.NeedsDecision, "plan"), "pin: true")...)
	h.Run(migrate.Done, "show", "plan.json", "--diff")
	watchStatus(t, env, h)

	h.Run(migrate.Done, "apply", "plan.json", "--yes", "--fix-cluster-endpoints")
	h.Run(migrate.Done, "rollback", "plan.json", "--cluster=plain/plain-demo", "--yes")
	h.Run(migrate.Done, "show", h.Planned().ID)
	h.Plan("--decisions=decisions.yaml")
	h.Run(migrate.Done, "apply", "plan.json", "--yes", "--fix-cluster-endpoints")
	h.Run(migrate.Done, "status", "--detailed-exitcode")
	awaitMigrated(t, env)
	serveNoLegacyTemplates(t, env)

	// A manager of one namespace reads templates of other namespaces from the API server.
	require.NoError(t, env.StartControllers(t.Context(), append(leaderElection(), "--namespace=tenant")...))
	host.Settled(t, env.Sandbox, func() map[string]string { return host.Fleet(t, env.Admin) })
	manager.add(t, env.Sandbox, sandbox.ManagerUser, upgraded)
	captctl.add(t, env.Sandbox, sandbox.CaptctlUser, time.Time{})
}

// bindAsDocumented binds the roles of the journal in its namespace only, as docs/migration.md does it.
func bindAsDocumented(t *testing.T, env *legacy.Environment) {
	t.Helper()
	for _, role := range []string{"capt-migrate-journal-reader", "capt-migrate-journal"} {
		everywhere := manifests.ClusterRoleBinding("test-"+role, role, sandbox.CaptctlUser)
		require.NoError(t, env.Admin.Delete(t.Context(), everywhere.DeepCopy()))
		everywhere.SetKind("RoleBinding")
		everywhere.SetNamespace(sandbox.ManagerNamespace)
		require.NoError(t, env.Admin.Create(t.Context(), everywhere))
	}
}

// editTemplate edits the template of the VPC of a fleet.
func editTemplate(t *testing.T, env *legacy.Environment, namespace string) {
	t.Helper()
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("WorkspaceTemplate"))
	require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: legacy.VPCTemplate}, template))
	module, _, err := unstructured.NestedString(template.Object, "spec", "template", "spec", "forProvider", "module")
	require.NoError(t, err)
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"forProvider":{"module":%q}}}}}`, module+"\n# edited\n")
	require.NoError(t, env.Admin.Patch(t.Context(), template, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// createClassTemplates creates an object of each kind for ClusterClasses, of which CAPT v0.3 had none that could be used.
func createClassTemplates(t *testing.T, env *legacy.Environment) {
	t.Helper()
	for _, document := range []string{`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTClusterTemplate
metadata: {name: class}
spec: {template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc-template}}}}}}
`, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlaneTemplate
metadata: {name: class}
spec: {template: {spec: {version: v1.35.0, workspaceTemplateRef: {name: controlplane-template}}}}
`} {
		require.NoError(t, env.Admin.Create(t.Context(), fixture.Decode(t, "plain", document)))
	}
}

// serveNoLegacyTemplates no longer serves v1beta1 of a kind, and waits until the manager has removed that version from the managed fields.
func serveNoLegacyTemplates(t *testing.T, env *legacy.Environment) {
	t.Helper()
	kind := controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	fixture.Change(t, env.Admin, client.ObjectKey{Name: "captcontrolplanetemplates." + kind.Group}, definition, func() {
		for i := range definition.Spec.Versions {
			definition.Spec.Versions[i].Served = definition.Spec.Versions[i].Name == kind.Version
		}
	})
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	fixture.EventuallyObject(t, tick, env.Admin, client.ObjectKey{Namespace: "plain", Name: "class"}, object, func() string {
		return fixture.Unless(!slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.APIVersion != kind.GroupVersion().String()
		}), "managedFields are %v", object.GetManagedFields())
	})
	awaitMigrated(t, env)
}

// watchStatus runs status --watch until it watches every kind.
func watchStatus(t *testing.T, env *legacy.Environment, h *host.Host) {
	t.Helper()
	watching := h.Start("status", "--watch")
	defer watching.Kill()
	fixture.EventuallyTrue(t, tick, func() bool {
		resources := map[string]bool{}
		for _, event := range fixture.AuditEvents(t, env.Sandbox, audit.Filter{User: sandbox.CaptctlUser, Verbs: []string{"watch"}}) {
			resources[event.ObjectRef.APIGroup+"/"+event.ObjectRef.Resource] = true
		}
		return len(resources) >= 1+1+2+len(migrate.Kinds()) // Definitions, Clusters and two kinds of Workspaces.
	}, "it does not watch all kinds")
}

// awaitMigrated waits until the manager has marked each definition that has two versions.
func awaitMigrated(t *testing.T, env *legacy.Environment) {
	t.Helper()
	for _, kind := range migrate.Kinds() {
		if kind.Kind == "CAPTClusterTemplate" {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		fixture.EventuallyObject(t, tick, env.Admin, client.ObjectKey{Name: kind.Definition()}, definition, func() string {
			done := definition.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation]
			return fixture.Unless(done == fmt.Sprint(definition.Generation), "it is not migrated")
		})
	}
}
