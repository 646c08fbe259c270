// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
)

// everything adds cases that take long and show little more: a manager that is killed before a write leaves what one leaves
// that was killed after the write before.
var everything = fixture.AllCombinations()

func TestKillingTheManagerLosesNothing(t *testing.T) {
	for _, scope := range fixture.Sample(1, 1, terraform.Scopes()) {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			t.Cleanup(func() { t.Logf("%d restarts took %v", len(s.restarts), s.restarts) })
			t.Run("a WorkspaceTemplateApply is created, changed and deleted", func(t *testing.T) {
				newEnvironment(t, s, scope).compare(ofWorkspaceTemplateApply, everything, creation, change, deletion)
			})
			t.Run("what was made is destroyed although its owner is deleted meanwhile", func(t *testing.T) {
				newEnvironment(t, s, scope).deletedWhileDown(proxy.After)
				if everything {
					newEnvironment(t, s, scope).deletedWhileDown(proxy.Before)
				}
			})
			t.Run("a WorkspaceTemplate is created and deleted", func(t *testing.T) {
				newEnvironment(t, s, scope).compare(ofWorkspaceTemplate, everything, creation, deletion)
			})
			if scope == terraform.ScopeCluster { // CAPT v0.3 knew no other.
				t.Run("what CAPT v0.3 made is adopted, changed and deleted", func(t *testing.T) {
					newEnvironment(t, s, scope).compare(ofWorkspaceTemplateApply, everything, adoption, change, deletion)
				})
			}
		})
	}
}

// deletedWhileDown deletes everything while the manager is down, after each write of a creation. Webhooks do not block
// deletion, so users can do that at any time.
func (env *environment) deletedWhileDown(moment proxy.Moment) {
	env.Helper()
	for n := 1; n <= maxWrites; n++ {
		env.killed, env.killedAt = env.server.proxy.Arm(proxy.Target{Number: n, Moment: moment, Resources: ofWorkspaceTemplateApply}), nil
		creation.begin(env)
		died := false
		env.await("the manager is killed, or done", func(ctx context.Context) error {
			select {
			case write := <-env.killed:
				died = true
				env.Logf("deleted while the manager was down, %s", write)
				return nil
			default:
			}
			if err := creation.end(ctx, env); err != nil {
				return err
			}
			if !env.server.proxy.Disarm() {
				return errors.New("the last write of all kills the manager")
			}
			return nil
		})
		deletion.begin(env)
		if died {
			env.server.restart(env.T)
		}
		env.await("everything goes", func(ctx context.Context) error { return deletion.end(ctx, env) })
		env.awaitSilence()
		require.LessOrEqual(env, len(env.everSeen()), 1, "Workspaces, killed %s write %d", moment, n)
		if !died {
			return
		}
	}
	env.Fatalf("a creation has more than %d writes", maxWrites)
}

// phase is a part of the life of a WorkspaceTemplateApply.
type phase struct {
	name string
	// skippable says that a life can do without it.
	skippable bool
	// begin is what the user does.
	begin func(env *environment)
	// end is nil when everything is as it should be in the end.
	end func(ctx context.Context, env *environment) error
}

// The phases.
var (
	creation = phase{"create", false, func(env *environment) {
		env.apply(template(env.scope))
		env.apply(workspaceTemplateApply("10.0.0.0/16"))
	}, func(ctx context.Context, env *environment) error { return env.ready(ctx, "10.0.0.0/16") }}

	// adoption is what captctl does, with a Workspace and a WorkspaceTemplateApply that CAPT v0.3 left.
	adoption = phase{"adopt", false, func(env *environment) {
		env.apply(template(env.scope))
		env.apply(adopted("10.0.0.0/16", env.leaveWorkspace("10.0.0.0/16")))
	}, func(ctx context.Context, env *environment) error { return env.ready(ctx, "10.0.0.0/16") }}

	change = phase{"update", true, func(env *environment) {
		env.apply(workspaceTemplateApply("10.1.0.0/16"))
	}, func(ctx context.Context, env *environment) error { return env.ready(ctx, "10.1.0.0/16") }}

	deletion = phase{"delete", false, func(env *environment) {
		env.remove(&infrav1.WorkspaceTemplateApply{}, applyName)
		env.remove(&infrav1.WorkspaceTemplate{}, templateName)
	}, func(ctx context.Context, env *environment) error { return env.gone(ctx) }}
)

// ready is nil when the WorkspaceTemplateApply is, with what Terraform made of its variable, and the template is at rest.
func (env *environment) ready(ctx context.Context, cidr string) error {
	apply, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	if err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: applyName}, apply); err != nil {
		return err
	}
	if err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: templateName}, template); err != nil {
		return err
	}
	readiness := meta.FindStatusCondition(apply.Status.Conditions, infrav1.ReadyCondition)
	switch {
	case apply.Status.ObservedGeneration != apply.Generation:
		return fmt.Errorf("generation %d was not observed yet", apply.Generation)
	case readiness == nil || readiness.Status != metav1.ConditionTrue:
		return fmt.Errorf("not ready: %v", readiness)
	case apply.Status.Outputs["cidr"] != cidr:
		return fmt.Errorf("outputs are %v", apply.Status.Outputs)
	case template.Status.ObservedGeneration != template.Generation || template.Status.Users == nil || *template.Status.Users != 1:
		return fmt.Errorf("the template was not looked at yet: %v", template.Status)
	}
	return nil
}

// gone is nil when nothing is left.
func (env *environment) gone(ctx context.Context) error {
	if err := env.absent(ctx, &infrav1.WorkspaceTemplateApply{}, applyName); err != nil {
		return err
	}
	return env.absent(ctx, &infrav1.WorkspaceTemplate{}, templateName)
}

// leaveWorkspace makes the Workspace that CAPT v0.3 would have made, and waits until Terraform is done with it.
func (env *environment) leaveWorkspace(cidr string) types.UID {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.namespace, Name: templateName}, template))
	apply := &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{Variables: infrav1.TextVariables(map[string]string{"cidr": cidr})}}
	apply.Namespace, apply.Name = env.namespace, applyName
	rendered, errs := render.Workspace(render.Input{Apply: apply, Template: template, Name: legacyWorkspace})
	require.Empty(env, errs)
	object := rendered.Object.DeepCopy()
	object.SetAnnotations(nil)
	require.NoError(env, env.Create(env.Context(), object, client.FieldOwner("manager")))
	env.await("Terraform makes what CAPT v0.3 wanted", func(ctx context.Context) error {
		if err := env.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, condition := range conditions {
			if c := condition.(map[string]any); c["type"] == "Ready" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v: %w", conditions, err)
	})
	return object.GetUID()
}
