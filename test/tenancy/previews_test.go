// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// stagedDatabase applies the template with previews, and a text in its module. It returns the hash of the content.
func (env *environment) stagedDatabase(text string) string {
	env.Helper()
	document := strings.Replace(fmt.Sprintf(database, env.Scope), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, preview: Always}\n", 1)
	env.apply(env.a, strings.Replace(document, "module: |\n", "module: |\n          # "+text+"\n", 1))
	template := &infrav1.WorkspaceTemplate{}
	env.read(template, env.a, "database")
	return rollout.HashOf(template)
}

func (env *environment) previewKey(name string) types.NamespacedName {
	env.Helper()
	return fixture.PreviewKey(env, env, env.Scope, types.NamespacedName{Namespace: env.a, Name: name})
}

// awaitPreviewed waits until status has a result about a revision.
func (env *environment) awaitPreviewed(name, revision string, result infrav1.PreviewResult) infrav1.RevisionPreview {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, env.a, name, func() string {
		p := apply.Status.Preview
		return fixture.Unless(p.TemplateRevision == revision && p.Result == result, "the preview is %+v", p)
	})
	return apply.Status.Preview
}

// A preview has the references to Secrets of its Workspace, and the state with sensitive outputs.
func TestPreviewsReportNoSecrets(t *testing.T) {
	inBothScopes(t, func(t *testing.T, env *environment) {
		in := env.newDatabase()
		env.stagedDatabase("first")
		env.order("db", "hello")
		env.awaitReady(env.a, "db")
		connection := &corev1.Secret{}
		env.read(connection, env.a, "db-connection")
		generated := string(connection.Data["generated"])
		secrets := []string{in.password, in.token, generated, string(connection.Data["nested"]), string(connection.Data["unlisted"])}
		names := slices.Sorted(maps.Keys(env.secrets(env.a)))

		for _, secret := range []string{in.password, in.token, generated} {
			script := scripted.Script{Plan: scripted.Step{Stderr: errorWithSecret(secret+" is not valid", secret)}}
			require.NoError(t, env.Scripts.SetScript(env.previewKey("db"), script))
			preview := env.awaitPreviewed("db", env.stagedDatabase("not valid "+secretText("text")), infrav1.PreviewFailed)
			require.Contains(t, preview.Message, "creating RDS DB Instance", "nothing is left of what Terraform said")
			env.awaitCondition(&infrav1.WorkspaceTemplate{}, env.a, "database", infrav1.RollingOutCondition, metav1.ConditionTrue, infrav1.RolloutStoppedReason)
			env.requireNotReported(secrets...)
		}
		require.NoError(t, env.Scripts.SetScript(env.previewKey("db"), scripted.Script{}))
		revision := env.stagedDatabase("last")
		env.awaitPreviewed("db", revision, infrav1.PreviewChanges)
		template := &infrav1.WorkspaceTemplate{}
		env.await(template, env.a, "database", func() string {
			s := template.Status.Rollout
			return fixture.Unless(s.Revision == revision && s.Stage == infrav1.RolloutComplete, "the rollout is %+v", s)
		})
		env.requireNotReported(secrets...)
		require.Equal(t, names, slices.Sorted(maps.Keys(env.secrets(env.a))), "a preview has no connection Secret")
	})
}

// Without policies, a user can let the provider do more than observe. Its plan of the content takes a while, and CAPT reverts that before the plan
// ends, and before the preview is deleted.
func TestAPreviewThatMayDoMoreThanObserveIsReverted(t *testing.T) {
	inBothScopes(t, func(t *testing.T, env *environment) {
		env.newDatabase()
		env.stagedDatabase("first")
		env.order("db", "hello")
		env.awaitReady(env.a, "db")
		cloud, key := env.Cloud(), env.previewKey("db")
		require.NotEmpty(t, cloud)
		require.NoError(t, env.Scripts.SetScript(key, scripted.Script{Plan: scripted.Step{Hang: true}}))
		revision := env.stagedDatabase("second")
		operations := func(operation scripted.Operation) (count int) {
			journal, err := env.Scripts.Journal()
			require.NoError(t, err)
			for _, entry := range journal {
				if entry.Of(key) && entry.Operation == operation {
					count++
				}
			}
			return count
		}
		env.Eventually(func() string { return fixture.Unless(operations(scripted.Plan) > 0, "no plan of the preview runs") })

		preview := fixture.NewWorkspace(env.Scope, key)
		allow := func(metadata string) {
			policies := `"managementPolicies":["*"]`
			if key.Namespace == "" {
				policies += `,"deletionPolicy":"Delete"`
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{`+metadata+`},"spec":{`+policies+`}}`))
			require.NoError(t, env.Patch(t.Context(), preview, patch, client.FieldOwner("user")))
		}
		reverted := func() {
			env.Eventually(func() string {
				preview = fixture.Workspace(env, env, env.Scope, key)
				require.NotNil(t, preview)
				return fixture.Unless(render.OnlyObserves(preview) && preview.GetDeletionTimestamp() != nil, "%v", preview)
			})
		}
		allow(`"finalizers":["example.com/hold"]`)
		reverted()
		require.Contains(t, env.awaitPreviewed("db", revision, infrav1.PreviewUnavailable).Message, "was changed by another client")
		allow(``)
		reverted()
		require.NoError(t, env.Scripts.SetScript(key, scripted.Script{}))
		require.NoError(t, env.Patch(t.Context(), preview, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		env.Eventually(func() string {
			return fixture.Unless(fixture.Workspace(env, env, env.Scope, key) == nil, "the preview exists")
		})
		require.Zero(t, operations(scripted.Apply))
		require.Zero(t, operations(scripted.Destroy))
		require.Equal(t, cloud, env.Cloud())
		workspace := env.Workspace("db")
		require.NotNil(t, workspace)
		module, _, err := unstructured.NestedString(workspace.Object, "spec", "forProvider", "module")
		require.NoError(t, err)
		require.Contains(t, module, "# first", "the content is not assigned without a result")
	})
}
