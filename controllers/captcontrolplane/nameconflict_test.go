// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/test/builder"
)

// rivalPlane is a control plane of another namespace whose EKS cluster has the same name; created is the age of the cluster.
func rivalPlane(created time.Time, region string) []client.Object {
	const namespace = "a-secret-project"
	other := builder.CAPTControlPlane("theirs", builder.WithNamespace(namespace), builder.WithCreation(builder.Created.Add(-time.Hour)),
		builder.WithApplyRef("theirs-apply"))
	return []client.Object{other, builder.WorkspaceTemplateApply("theirs-apply", builder.WithNamespace(namespace), builder.OwnedBy(other),
		builder.WithCreation(created), builder.UpToDate(nil), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": region}))}
}

// claim is a WorkspaceTemplateApply with which a user of another namespace claims the name of the EKS cluster.
func claim(name, namespace string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithNamespace(namespace), builder.WithCreation(builder.Created.Add(-time.Hour)),
		builder.UpToDate(nil), builder.WithVariables(map[string]string{"cluster_name": "demo", "region": builder.Region})}, options...)...)
}

// What a user of another namespace can do does not end the tokens of a control plane that had the name first.
func TestSafety26OnlyTheReferredWorkspaceTemplateApplyTakesAClusterName(t *testing.T) {
	const namespace = "attacker"
	old := []builder.Option{builder.WithNamespace(namespace), builder.WithCreation(builder.Created.Add(-time.Hour))}
	other := builder.CAPTControlPlane("old", append(old, builder.WithApplyRef("own"))...)
	for name, row := range map[string]struct {
		apply *infrav1.WorkspaceTemplateApply
		taken bool
	}{
		"it refers to another one":             {claim("extra", namespace, builder.OwnedBy(other)), false},
		"it refers to one created later":       {claim("own", namespace, builder.OwnedBy(other), builder.WithCreation(builder.Created.Add(time.Second))), false},
		"the name can still be changed":        {claim("own", namespace, builder.OwnedBy(other), builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceName = "" })), false},
		"it refers to one of no control plane": {claim("own", namespace), false},
		"of a CAPTCluster":                     {claim("own", namespace, builder.OwnedBy(builder.CAPTCluster("old", builder.WithNamespace(namespace)))), false},
		"its owner no longer exists":           {claim("own", namespace, builder.OwnedBy(builder.CAPTControlPlane("old", append(old, builder.WithUID("before"))...))), false},
		"it had the name first":                {claim("own", namespace, builder.OwnedBy(other)), true},
	} {
		t.Run(name, func(t *testing.T) {
			w, identity := withToken(t, "Token")
			require.NoError(t, w.Client.Create(t.Context(), other.DeepCopy()))
			require.NoError(t, w.Client.Create(t.Context(), row.apply))
			w.clock.Pass(10 * time.Minute)
			w.reconcile()
			if row.taken {
				assert.Equal(t, 1, identity.Made)
				assert.Equal(t, 5*time.Minute, w.again, "no watch reports that the other one lost its owner")
				return
			}
			assert.Equal(t, 2, identity.Made)
			assert.Equal(t, "True KubeconfigReady", w.kubeconfigReady())
		})
	}
}

func TestOnlyTheOlderOfTwoClustersOfTheSameNameGetsTokens(t *testing.T) {
	for name, row := range map[string]struct {
		created time.Time
		region  string
		taken   bool
	}{
		"an older one":                     {builder.Created.Add(-time.Second), builder.Region, true},
		"one of the same second":           {builder.Created, builder.Region, true},
		"a younger one":                    {builder.Created.Add(time.Second), builder.Region, false},
		"an older one of another region":   {builder.Created.Add(-time.Second), "eu-west-1", true},
		"an older one of no region so far": {builder.Created.Add(-time.Second), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w, identity := withToken(t, "Token")
			for _, object := range rivalPlane(row.created, row.region) {
				require.NoError(t, w.Client.Create(context.Background(), object))
			}
			w.clock.Pass(10 * time.Minute)
			w.reconcile()
			if !row.taken {
				assert.Equal(t, 2, identity.Made)
				return
			}
			assert.Equal(t, 1, identity.Made)
			assert.Contains(t, w.kubeconfigReady(), "False KubeconfigConflict no token is created for EKS cluster \"demo\": another CAPTControlPlane of this management cluster")
			assert.NotContains(t, w.kubeconfigReady(), "project", "details omitted")

			w.spec(func(c *controlplanev1.CAPTControlPlane) { withSource("Auto")(c) })
			w.reconcile()
			assert.False(t, holdsToken(w.published()), "Auto does without")

			theirs := rivalPlane(row.created, row.region)[1]
			require.NoError(t, w.Delete(t.Context(), theirs))
			assert.Equal(t, demo(), kubeconfigsecret.OfSameCluster(w.Client)(t.Context(), theirs), "its deletion causes a reconcile")
			w.reconcile()
			assert.True(t, holdsToken(w.published()))
		})
	}
}
