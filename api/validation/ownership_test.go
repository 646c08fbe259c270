/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package validation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

var errDeaf = errors.New("no route to host")

// deafTo is a world of which one question gets no answer.
type deafTo struct {
	*fakeWorld
	question string
}

func answer[T any](d deafTo, question string, found T, err error) (T, error) {
	if d.question == question {
		return found, errDeaf
	}
	return found, err
}

func (d deafTo) WorkspaceTemplateApply(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplateApply, error) {
	found, err := d.fakeWorld.WorkspaceTemplateApply(ctx, key)
	return answer(d, "WorkspaceTemplateApply", found, err)
}

func (d deafTo) ReferrersTo(ctx context.Context, key types.NamespacedName) ([]validation.Owner, error) {
	found, err := d.fakeWorld.ReferrersTo(ctx, key)
	return answer(d, "ReferrersTo", found, err)
}

func (d deafTo) ClusterOf(ctx context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	found, err := d.fakeWorld.ClusterOf(ctx, owner)
	return answer(d, "ClusterOf", found, err)
}

func (d deafTo) Cluster(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error) {
	found, err := d.fakeWorld.Cluster(ctx, key)
	return answer(d, "Cluster", found, err)
}

func (d deafTo) CAPTCluster(ctx context.Context, key types.NamespacedName) (*infrav1.CAPTCluster, error) {
	found, err := d.fakeWorld.CAPTCluster(ctx, key)
	return answer(d, "CAPTCluster", found, err)
}

func (d deafTo) CAPTControlPlane(ctx context.Context, key types.NamespacedName) (*controlplanev1.CAPTControlPlane, error) {
	found, err := d.fakeWorld.CAPTControlPlane(ctx, key)
	return answer(d, "CAPTControlPlane", found, err)
}

// An object is never admitted, or found good, because of a question that got no answer.
func TestEveryQuestionMustGetAnAnswer(t *testing.T) {
	network := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"))
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks-controlplane-apply"), fargate(selecting("a")))
	controlPlane.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = &infrav1.WorkspaceTemplateApplyReference{Name: "demo-fp-fargate-apply"}
	world := newWorld(network, controlPlane, builder.Cluster("demo"))

	_, err := validation.CAPTCluster(t.Context(), world, network)
	require.NoError(t, err)
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo", "ClusterOf", "CAPTControlPlane"} {
		_, err := validation.CAPTCluster(t.Context(), deafTo{world, question}, network)
		require.ErrorIs(t, err, errDeaf, question)
	}
	_, err = validation.CAPTControlPlane(t.Context(), world, controlPlane)
	require.NoError(t, err)
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo", "ClusterOf", "Cluster", "CAPTCluster"} {
		_, err := validation.CAPTControlPlane(t.Context(), deafTo{world, question}, controlPlane)
		require.ErrorIs(t, err, errDeaf, question)
	}
	only := controlPlane.DeepCopy()
	only.Spec.WorkspaceTemplateApplyRef = nil
	for _, question := range []string{"WorkspaceTemplateApply", "ReferrersTo"} {
		_, err := validation.CAPTControlPlane(t.Context(), deafTo{world, question}, only)
		require.ErrorIs(t, err, errDeaf, "%s about a Fargate profile", question)
	}
}
