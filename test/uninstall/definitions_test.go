// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall_test removes what is installed under running clusters.
package uninstall_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// shared is the control plane of the only test. It cannot be used afterwards.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared, fixture.Own)) }

// definitions are those whose deletion deletes objects with cloud resources.
var definitions = []string{
	"captclusters.infrastructure.cluster.x-k8s.io", "captcontrolplanes.controlplane.cluster.x-k8s.io",
	"workspacetemplateapplies.infrastructure.cluster.x-k8s.io",
}

// The policy that keeps the definitions can be gone: deleting the manifests of CAPT a second time finds it deleted by the first.
// Then the definitions go, and with them every object, while the manager runs or is installed again.
func TestDeletedDefinitionsDestroyNothing(t *testing.T) {
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	created := map[string]any{}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		created[name] = env.Workspace(name).GetUID()
	}

	require.NoError(t, shared.API.DeleteAllOf(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{}))
	deleteDefinitions(env)
	for object, name := range map[engine.Object]string{
		&infrav1.CAPTCluster{}: fixture.Demo, &controlplanev1.CAPTControlPlane{}: fixture.Demo,
	} {
		env.Await(object, name, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DefinitionDeletingReason, "so nothing is destroyed", naming.AllowDeleteAnnotation)
	}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DefinitionDeletingReason)
	}
	requireUntouched(env, created)

	// What the message says: keep the cloud resources, then let the definitions go.
	env.Kubectl("patch", "captcluster", fixture.Demo, "--type=merge", "-p", `{"spec":{"vpc":{"template":{"deletionPolicy":"Retain"}}}}`)
	env.Kubectl("patch", "workspacetemplateapply", fixture.VPC, fixture.ControlPlane, "--type=merge", "-p", `{"spec":{"deletionPolicy":"Retain"}}`)
	for _, name := range definitions {
		env.Kubectl("annotate", "crd", name, naming.AllowDeleteAnnotation+"=true")
	}
	env.Eventually(func() string {
		for _, name := range definitions {
			if definition(env, name) != nil {
				return "CustomResourceDefinition " + name + " is still there"
			}
		}
		return ""
	})
	requireUntouched(env, created)
}

// deleteDefinitions deletes the definitions as soon as the API server no longer enforces the policy.
func deleteDefinitions(env *fixture.Environment) {
	env.Helper()
	for _, name := range definitions {
		env.Eventually(func() string {
			if err := shared.API.Delete(env.Context(), definition(env, name)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	for _, name := range definitions {
		require.NotNil(env, definition(env, name), "objects with finalizers keep it")
		require.False(env, definition(env, name).DeletionTimestamp.IsZero())
	}
}

// definition is the metadata of a CustomResourceDefinition; nil when it does not exist.
func definition(env *fixture.Environment, name string) *metav1.PartialObjectMetadata {
	env.Helper()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	found, err := engine.Get(env.Context(), client.Reader(shared.API), client.ObjectKey{Name: name}, object)
	require.NoError(env, err)
	return found
}

func requireUntouched(env *fixture.Environment, created map[string]any) {
	env.Helper()
	for name, uid := range created {
		workspace := env.Workspace(name)
		require.NotNil(env, workspace, "Workspace of %s", name)
		require.Nil(env, workspace.GetDeletionTimestamp(), fmt.Sprintf("Workspace of %s", name))
		require.Equal(env, uid, workspace.GetUID())
		require.Empty(env, env.Operations(name, scripted.Destroy))
	}
}
