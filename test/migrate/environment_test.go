// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// tick is how often a test checks what it waits for. Many of these checks list the whole fleet, through the conversion webhook.
const tick = 200 * time.Millisecond

// environment is a management cluster and a host with captctl.
type environment struct {
	*testing.T
	*legacy.Environment
	host *host.Host
	// metrics of the provider; empty without one.
	metrics string
}

func newEnvironment(t *testing.T, options sandbox.Options) *environment {
	t.Helper()
	env := &environment{T: t}
	if options.Provider {
		port, err := process.FreePort()
		require.NoError(t, err)
		options.ProviderArgs = append(options.ProviderArgs, "--metrics-addr="+process.Loopback(port), "--max-reconcile-rate=4")
		env.metrics = "http://" + process.Loopback(port) + "/metrics"
	}
	env.Environment = legacy.New(t, options)
	env.host = host.New(t, env.Sandbox)
	return env
}

// runs counts the Terraform commands that changed or destroyed something, by operation and Workspace. Plans are not counted: the provider
// goes on to observe.
func (env *environment) runs() map[string]string {
	env.Helper()
	text, err := metrics.Text(env.Context(), env.metrics)
	require.NoError(env, err)
	runs := map[string]string{}
	for line := range strings.Lines(text) {
		series, value, found := strings.Cut(line, "} ")
		if found && strings.HasPrefix(series, "capt_test_provider_runs_total{") && (strings.Contains(series, `"apply"`) || strings.Contains(series, `"destroy"`)) {
			runs[series] = value
		}
	}
	return runs
}

// workspaces by name.
func (env *environment) workspaces() map[string]*unstructured.Unstructured {
	env.Helper()
	workspaces := map[string]*unstructured.Unstructured{}
	for _, workspace := range fixture.List(env, env.Admin, terraform.ScopeCluster.GroupVersionKind()) {
		workspaces[workspace.GetName()] = &workspace
	}
	return workspaces
}

// identities of Workspaces are everything but what the provider reports.
func identities(workspaces map[string]*unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	for name, workspace := range workspaces {
		found[name] = []any{
			workspace.GetUID(), workspace.GetGeneration(), workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers(), workspace.Object["spec"],
		}
	}
	return found
}

// applies are the UIDs of the WorkspaceTemplateApplies. They are read in v1beta1, which is served before the upgrade and after it.
func (env *environment) applies() map[types.NamespacedName]types.UID {
	env.Helper()
	applies := map[types.NamespacedName]types.UID{}
	for _, apply := range fixture.List(env, env.Admin, infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply")) {
		applies[client.ObjectKeyFromObject(&apply)] = apply.GetUID()
	}
	return applies
}

// untouched is what a migration must not change, and how to require that it did not.
type untouched struct {
	*environment
	since      time.Time
	workspaces map[string]any
	applies    map[types.NamespacedName]types.UID
	runs       map[string]string
}

func (env *environment) untouched() *untouched {
	env.Helper()
	u := &untouched{environment: env, since: time.Now(), workspaces: identities(env.workspaces()), applies: env.applies()}
	if env.metrics != "" {
		u.runs = env.runs()
	}
	return u
}

func (u *untouched) require(t *testing.T) {
	t.Helper()
	require.Equal(t, u.workspaces, identities(u.environment.workspaces()))
	require.Equal(t, u.applies, u.environment.applies())
	require.Empty(t, u.writesTo("tf.upbound.io", "workspaces", u.since))
	require.Empty(t, u.writesTo("tf.upbound.io", "providerconfigs", u.since))
	if u.runs != nil {
		require.Equal(t, u.runs, u.environment.runs())
	}
}

// questions about users and their permissions are sent like objects, and not stored.
var questions = []string{"selfsubjectaccessreviews", "selfsubjectreviews"}

// requireHarmless requires that captctl created nothing but its Lease, its journal and Events, wrote nothing of Terraform, and deleted nothing.
func (env *environment) requireHarmless() {
	env.Helper()
	for _, user := range []string{sandbox.CaptctlUser, sandbox.ReaderUser} {
		for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: user, Verbs: audit.Writes}) {
			switch event.Verb {
			case "create":
				assert.Contains(env, append([]string{"leases", "configmaps", "events"}, questions...), event.ObjectRef.Resource, event.RequestURI)
			case "update", "patch":
				assert.NotContains(env, []string{"workspaces", "providerconfigs", "secrets"}, event.ObjectRef.Resource, event.RequestURI)
			default:
				assert.Fail(env, "captctl deletes nothing", "%s %s", event.Verb, event.RequestURI)
			}
		}
	}
}

// writesOf a user that the API server was asked for, permitted or not. Dry runs and questions about permissions are left out.
func (env *environment) writesOf(user string, since time.Time) (writes []string) {
	env.Helper()
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: user, Verbs: audit.Writes, Since: since}) {
		if !slices.Contains(questions, event.ObjectRef.Resource) && !strings.Contains(event.RequestURI, "dryRun=All") {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

// writesTo a resource by everything but the provider.
func (env *environment) writesTo(group, resource string, since time.Time) []string {
	env.Helper()
	var writes []string
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{Group: group, Resource: resource, Verbs: audit.Writes, Since: since}) {
		if event.User.Username != sandbox.ProviderUser {
			writes = append(writes, fmt.Sprintf("%s %s %s %s", event.User.Username, event.Verb, event.ObjectRef.Name, event.ObjectRef.Subresource))
		}
	}
	return writes
}

// await waits until missing returns "": what is still missing.
func (env *environment) await(missing func() string) {
	env.Helper()
	fixture.Eventually(env.T, tick, missing)
}

// awaitTrue waits until conditions of an object are True for its current generation.
func (env *environment) awaitTrue(object engine.Object, key types.NamespacedName, conditions ...string) {
	env.Helper()
	env.await(func() string {
		if err := env.Admin.Get(env.Context(), key, object); err != nil {
			return err.Error()
		}
		for _, name := range conditions {
			c := meta.FindStatusCondition(object.GetConditions(), name)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != object.GetGeneration() {
				return fmt.Sprintf("%T %s: %s is %+v", object, key, name, c)
			}
		}
		return ""
	})
}

func (env *environment) awaitGone(object client.Object, key types.NamespacedName) {
	env.Helper()
	fixture.EventuallyGone(env.T, tick, env.Admin, key, object)
}

// names of a map, sorted.
func names[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
