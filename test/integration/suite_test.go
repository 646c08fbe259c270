// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration_test proves what only an API server can show of CAPT: admission and server-side apply.
package integration_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// environment is one test's namespace.
type environment struct{ *fixture.Environment }

func newEnvironment(t *testing.T) environment {
	t.Helper()
	return environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
}

// ready is an environment with a Cluster that is Ready.
func ready(t *testing.T) environment {
	t.Helper()
	env := newEnvironment(t)
	env.User(env.Everything()...)
	env.awaitReady()
	return env
}

func (env environment) awaitReady() {
	env.Helper()
	env.AwaitVPC()
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
}

func (env environment) awaitUpToDate(apply string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	object := &infrav1.WorkspaceTemplateApply{}
	env.Await(object, apply, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	return object
}

// workspaces counts the Workspaces of the namespace.
func (env environment) workspaces() int {
	env.Helper()
	return len(fixture.List(env, env, env.Scope.GroupVersionKind(), client.InNamespace(env.Namespace)))
}

// document of any kind of CAPT's, in v1beta2.
func document(kind, name, spec string) string { return versioned("v1beta2", kind, name, spec) }

// legacyDocument is one in v1beta1.
func legacyDocument(kind, name, spec string) string { return versioned("v1beta1", kind, name, spec) }

func versioned(version, kind, name, spec string) string {
	group := "infrastructure"
	if strings.HasPrefix(kind, "CAPTControlPlane") {
		group = "controlplane"
	}
	return fmt.Sprintf("apiVersion: %s.cluster.x-k8s.io/%s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", group, version, kind, name, spec)
}

// network is a CAPTCluster, in v1beta2.
func network(spec string) string { return document("CAPTCluster", fixture.Demo, spec) }

// plane is a CAPTControlPlane with more in its spec, in v1beta2.
func plane(more string) string {
	return document("CAPTControlPlane", fixture.Demo, `{version: "1.35", workspaceTemplateRef: {name: eks}, `+more+`}`)
}

// legacyPlane is one in v1beta1.
func legacyPlane(more string) string {
	return legacyDocument("CAPTControlPlane", fixture.Demo, `{version: "1.35", workspaceTemplateRef: {name: eks}, `+more+`}`)
}

// applied is a WorkspaceTemplateApply of template "vpc" with more in its spec.
func applied(name, more string) string {
	return document("WorkspaceTemplateApply", name, `{templateRef: {name: vpc}, `+more+`}`)
}
