// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const (
	// definitions are the files of provider-terraform's kinds.
	definitions = "../provider/config/crd"
	// claimPatience is how long CAPT waits before it reports that no provider works on a Workspace.
	claimPatience = 2 * time.Minute
)

// removeProvider stops the provider and removes its Workspaces before the manager restarts.
func (c *control) removeProvider(ctx context.Context) error {
	if err := c.StopComponent(ctx, sandbox.Provider); err != nil {
		return err
	}
	cl, err := client.New(c.Config(), client.Options{})
	if err != nil {
		return err
	}
	kinds, err := workspaceDefinitions()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		allowed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`))
		if err := errors.Join(cl.Patch(ctx, kind.DeepCopy(), allowed), cl.Delete(ctx, kind)); err != nil {
			return err
		}
		err := wait.PollUntilContextTimeout(ctx, tick, fixture.Timeout, true, func(ctx context.Context) (bool, error) {
			err := cl.Get(ctx, client.ObjectKeyFromObject(kind), kind.DeepCopy())
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("waiting until %s is gone: %w", kind.GetName(), err)
		}
	}
	return errors.Join(c.Restart(ctx, sandbox.Manager), c.watch(infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")))
}

// workspaceDefinitions are those of the Workspaces of both scopes.
func workspaceDefinitions() ([]*unstructured.Unstructured, error) {
	all, err := manifests.Load(definitions)
	var kinds []*unstructured.Unstructured
	for _, definition := range all {
		if kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind"); kind == terraform.WorkspaceKind {
			kinds = append(kinds, definition)
		}
	}
	return kinds, err
}

// One after the other, everything that a Workspace needs comes: its kind, the provider, and the provider's only worker.
func TestAMissingDependencyIsReportedUntilItExists(t *testing.T) {
	var environments []*environment
	for _, scope := range terraform.Scopes() {
		env := newEnvironment(t, limited, scope)
		env.user(env.template(), workspaceTemplateApply("one", before), workspaceTemplateApply("two", before))
		for _, name := range []string{"one", "two"} {
			env.setScript(name, scripted.Script{Apply: scripted.Step{Hang: true}})
			env.awaitNotReady(name, infrav1.WorkspaceKindMissingReason, "CustomResourceDefinition workspaces.tf.", "is not installed. Install provider-terraform")
		}
		env.user(workspaceTemplateApply("unmade", before))
		env.awaitNotReady("unmade", infrav1.WorkspaceKindMissingReason)
		env.removeApply("unmade")
		env.awaitGone("unmade")
		env.user(workspaceTemplateApply("unclaimed", before))
		environments = append(environments, env)
	}
	installed := installWorkspaces(environments[0])
	t.Parallel() // The rest takes two minutes, in which the other tests run.

	for _, env := range environments {
		for _, name := range []string{"one", "two", "unclaimed"} {
			env.awaitNotReady(name, infrav1.ProvisioningReason, "waiting for provider-terraform to run terraform init and plan")
		}
		env.removeApply("unclaimed")
		env.awaitGone("unclaimed")
		require.Nil(t, env.Workspace("unclaimed"))
	}
	for _, env := range environments {
		for _, name := range []string{"one", "two"} {
			env.awaitNotReady(name, infrav1.WorkspaceNotReconciledReason, "provider-terraform has not reconciled it yet", "Check that provider-terraform runs", "--max-reconcile-rate")
			require.Len(t, env.writes(name), 1)
		}
		require.GreaterOrEqual(t, time.Since(installed), claimPatience-time.Second, "a Workspace was made in a whole second")
	}
	require.NoError(t, limited.StartComponent(t.Context(), sandbox.Provider))
	for _, env := range environments {
		t.Run(string(env.Scope), func(t *testing.T) {
			t.Parallel()
			env.T = t
			env.oneStarvesTheOther()
			env.end("one", "two", "unclaimed")
		})
	}
}

// installWorkspaces installs the kinds of both scopes, and returns when that was.
func installWorkspaces(env *environment) time.Time {
	env.Helper()
	kinds, err := workspaceDefinitions()
	require.NoError(env, err)
	began := time.Now()
	require.NoError(env, manifests.Apply(env.Context(), env.Client, kinds...))
	require.NoError(env, manifests.WaitEstablished(env.Context(), env.Client, kinds))
	for _, scope := range terraform.Scopes() {
		require.NoError(env, limited.watch(scope.GroupVersionKind()))
	}
	return began
}

// oneStarvesTheOther returns what is observed of two Workspaces when the provider works on one at a time.
func (env *environment) oneStarvesTheOther() {
	env.Helper()
	first, second := "one", "two"
	env.eventually(slowTick, func() string {
		switch {
		case env.count("one", scripted.Apply) == 1:
			return ""
		case env.count("two", scripted.Apply) == 1:
			first, second = "two", "one"
			return ""
		}
		return "no apply has begun"
	})
	env.awaitNotReady(first, infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
	env.awaitNotReady(second, infrav1.WorkspaceNotReconciledReason, "It may be busy with other Workspaces")

	env.clearScript(first)
	env.awaitNotReady(second, infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
	require.Zero(env, env.count(first, scripted.Destroy))
	env.clearScript(second)
	env.awaitAllReady(before, first, second)
	require.Len(env, env.writes(first), 1)
	require.Len(env, env.writes(second), 1)
}
