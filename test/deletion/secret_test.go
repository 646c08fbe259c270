// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// An administrator deletes the Secrets with the outputs of Terraform. The cluster stays available, and the provider writes them again when it next
// observes the Workspaces: after its poll interval, or when they change.
func TestDeletedConnectionSecretsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	untouched := untouchedSince(env, fixture.VPC, fixture.ControlPlane)
	applied := map[string]int{}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		applied[name] = len(env.Operations(name, scripted.Apply))
	}
	before := map[string]types.UID{}
	secrets := []string{"demo-vpc-connection", "demo-eks-connection"}
	for _, name := range secrets {
		secret := &corev1.Secret{}
		require.True(t, env.Exists(secret, name), name)
		before[name] = secret.UID
		env.Remove(secret, name)
	}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} { // The provider would write them at its next poll, too.
		env.Eventually(func() string {
			return fixture.Unless(env.Workspace(name).GetAnnotations()[naming.ResumedAnnotation] != "", "the provider was not asked for a run of %s", name)
		})
	}
	for _, name := range secrets {
		secret := &corev1.Secret{}
		env.Eventually(func() string {
			return fixture.Unless(env.Exists(secret, name) && secret.UID != before[name] && len(secret.Data) > 0, "Secret %s was not written again", name)
		})
	}
	secret := &corev1.Secret{}
	env.Edit(secret, secrets[0], `{"data":{"vpc_id":null}}`) // A key that is removed is written again, too.
	env.Eventually(func() string {
		requested := strings.HasPrefix(env.Workspace(fixture.VPC).GetAnnotations()[naming.ResumedAnnotation], "Secret-")
		return fixture.Unless(requested && env.Exists(secret, secrets[0]) && len(secret.Data["vpc_id"]) > 0, "Secret %s has no vpc_id again (requested: %t)", secrets[0], requested)
	})
	env.AwaitState(infrav1.StateReady, "")
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.AvailableCondition, metav1.ConditionTrue, "")
	untouched(fixture.VPC, fixture.ControlPlane)
	for name, count := range applied {
		require.Len(t, env.Operations(name, scripted.Apply), count, name)
	}
}
