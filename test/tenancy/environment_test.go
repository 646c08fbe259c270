// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenancy_test proves that CAPT's controllers keep to the security rules between namespaces, on a real API server. CAPT's
// webhooks and admission policies are removed: what they would have refused, the controllers must refuse by themselves.
// Terraform is a scripted executor, which reads Secrets as provider-terraform does and reports whatever a test wants it to.
package tenancy_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// tick is the first interval of waits.
const tick = 200 * time.Millisecond

var (
	// shared is the control plane of all tests of the package.
	shared *fixture.Server
	// reports is everything that CAPT has reported since the first test.
	reports *record
	// prepare is what must be done before the first test.
	prepare sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) {
		options.Installation = ""              // The names of config/default.
		options.ManagerArgs = []string{"-v=5"} // A verbose log can leak more.
	}))
}

// bypassAdmission removes all that guards admission to CAPT's kinds, except for the schemas and their conversion.
func bypassAdmission(t *testing.T) {
	t.Helper()
	removed := 0
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		for _, found := range fixture.List(t, shared.API, admissionv1.SchemeGroupVersion.WithKind(kind)) {
			if strings.HasPrefix(found.GetName(), "capt-") {
				require.NoError(t, shared.API.Delete(t.Context(), &found))
				removed++
			}
		}
	}
	require.GreaterOrEqual(t, removed, 4, "two configurations, and a policy with its binding")

	// The API server learns of the removal a little later.
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	refused := fixture.Decode(t, env.Namespace, uses("refused", env.Namespace, "any", "waitForSecrets: [{name: any, namespace: elsewhere}]"))
	env.Eventually(func() string {
		err := env.Create(t.Context(), refused.DeepCopy(), client.DryRunAll)
		return fixture.Unless(err == nil, "it is still refused: %v", err)
	})
}

// environment is what one test has: the namespace of a tenant, that of another one, and what the other one keeps secret.
type environment struct {
	*fixture.Environment
	// a is the tenant's namespace, b is the one that the tenant has no access to.
	a, b string
	// canary is a value that b has in a Secret and a ConfigMap called "canary", under the key "value". As a file of
	// variables, it is under the key "tfvars". In a, objects of the same name and keys hold the word "harmless".
	canary string
}

// newEnvironment makes the namespaces of a test, which runs beside others. The tenant's Workspaces have a scope.
func newEnvironment(t *testing.T, scope terraform.Scope) *environment {
	t.Helper()
	t.Parallel()
	prepare.Do(func() {
		bypassAdmission(t)
		reports = listen(context.WithoutCancel(t.Context()), t)
	})
	env := &environment{Environment: shared.NewEnvironment(t, scope), canary: secretText("canary")}
	env.a, env.b = env.Namespace, shared.NewEnvironment(t, scope).Namespace
	for namespace, value := range map[string]string{env.a: "harmless", env.b: env.canary} {
		for kind, field := range map[string]string{"Secret": "stringData", "ConfigMap": "data"} {
			env.apply(namespace, fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: canary}, %s: {value: %s, tfvars: 'stolen = \"%s\"'}}", kind, field, value, value))
		}
	}
	return env
}

// inBothScopes runs a test with Workspaces of either scope.
func inBothScopes(t *testing.T, test func(t *testing.T, env *environment)) {
	t.Helper()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) { test(t, newEnvironment(t, scope)) })
	}
}

// secretText is a text that occurs nowhere else.
func secretText(prefix string) string { return prefix + "-" + rand.Text() }

// apply applies documents in a namespace, as a user with write access would.
func (env *environment) apply(namespace string, documents ...string) {
	env.Helper()
	there := *env.Environment
	there.Namespace = namespace
	there.User(documents...)
}

// await waits until an object is as wanted; want says what is still missing.
func (env *environment) await(object client.Object, namespace, name string, want func() string) {
	env.Helper()
	fixture.EventuallyObject(env, tick, env, client.ObjectKey{Namespace: namespace, Name: name}, object, want)
}

// read waits until an object exists.
func (env *environment) read(object client.Object, namespace, name string) {
	env.Helper()
	env.await(object, namespace, name, func() string { return "" })
}

// awaitCondition waits until the controller has looked at the object as it is now, and a condition has a status and a reason.
// It returns the message.
func (env *environment) awaitCondition(object engine.Object, namespace, name, conditionType string, status metav1.ConditionStatus, reason string) (message string) {
	env.Helper()
	env.await(object, namespace, name, func() string {
		condition := meta.FindStatusCondition(object.GetConditions(), conditionType)
		if condition == nil {
			return "condition " + conditionType + " is missing"
		}
		message = condition.Message
		return fixture.Unless(condition.Status == status && condition.Reason == reason && condition.ObservedGeneration == object.GetGeneration(),
			"condition %s of generation %d is %s/%s: %s", conditionType, condition.ObservedGeneration, condition.Status, condition.Reason, message)
	})
	return message
}

func (env *environment) awaitReady(namespace, name string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.awaitCondition(apply, namespace, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	return apply
}

// awaitRefused waits until the controller reports that it does not create the Workspace, and checks that there is none.
func (env *environment) awaitRefused(name, conditionType, reason string) (message string) {
	env.Helper()
	message = env.awaitCondition(&infrav1.WorkspaceTemplateApply{}, env.a, name, conditionType, metav1.ConditionFalse, reason)
	require.Empty(env, env.workspacesOf(name), "a Workspace was made all the same")
	return message
}

func (env *environment) awaitGone(object client.Object, namespace, name string) {
	env.Helper()
	there := *env.Environment
	there.Namespace = namespace
	there.AwaitGone(object, name)
}

// workspacesOf lists the Workspaces that were made for a WorkspaceTemplateApply of the tenant.
func (env *environment) workspacesOf(name string) []string {
	env.Helper()
	var names []string
	for _, workspace := range fixture.Workspaces(env, env, "") {
		if workspace.GetAnnotations()[naming.ClaimAnnotation] == env.a+"/"+name {
			names = append(names, workspace.GetName())
		}
	}
	return names
}

// times are as in JSON and in messages; start times are not secret.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// view is what a tenant sees in the status of an object, without times and without the names it wrote itself.
// These become the same word, so that two views are equal when they have the same content.
func (env *environment) view(of client.Object, names ...string) string {
	env.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	require.NoError(env, err)
	status, err := json.MarshalIndent(content["status"], "", " ")
	require.NoError(env, err)
	view := times.ReplaceAllString(string(status), "TIME")
	for _, name := range names {
		view = strings.ReplaceAll(view, name, "NAME")
	}
	return view
}
