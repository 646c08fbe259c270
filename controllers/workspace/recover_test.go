// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestRemoteState(t *testing.T) {
	for configuration, remote := range map[string]bool{
		"":                                               false,
		`provider "aws" {}`:                              false,
		"terraform {\n  backend \"local\" {}\n}":         false,
		"terraform {\n  backend \"s3\" {}\n}":            true,
		"terraform {\n  cloud {}\n}":                     true,
		"terraform {\n  backend \"s3\" {\n":              false,
		"resource \"a\" \"b\" {\n  backend \"s3\" {}\n}": false,
		"terraform {}\nterraform {\n  backend \"kubernetes\" {\n    secret_suffix = \"x\"\n  }\n}": true,
	} {
		config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": configuration}}}
		assert.Equal(t, remote, notRemote(config) == "", configuration)
	}
}

func TestRecoveryRequests(t *testing.T) {
	object := builder.Workspace("demo", builder.Interrupted)
	live, err := newLive(object)
	require.NoError(t, err)
	request := "ClearInterruptedCreate/" + string(live.GetUID()) + "/1"
	assert.True(t, live.RecoveryRequested(request))
	assert.True(t, ClearsInterruptedCreate(request))
	for _, void := range []string{"", "Reapply", "Reapply/another/1", "RecreateWorkspace/" + string(live.GetUID()) + "/1"} {
		assert.False(t, live.RecoveryRequested(void), void)
	}
	annotations := object.GetAnnotations()
	annotations[naming.RecoveryAnnotation] = request
	object.SetAnnotations(annotations)
	assert.False(t, live.RecoveryRequested(request), "it was carried out")
}

func TestAnInterruptedCreateIsContinuedOnce(t *testing.T) {
	object := builder.Workspace("demo", builder.Interrupted)
	reported := builder.Created.Add(time.Minute)
	for began, continuable := range map[string]bool{
		reported.Add(-time.Second).Format(time.RFC3339): true,
		reported.Add(time.Minute).Format(time.RFC3339):  false,
		"": false,
	} {
		object.SetAnnotations(map[string]string{terraform.CreatePendingAnnotation: began})
		live, err := newLive(object)
		require.NoError(t, err)
		assert.Equal(t, continuable, live.CreateNotContinuable() == "", began)
	}
}

func TestAWorkspaceThatMayHaveBeenAppliedIsNotFailing(t *testing.T) {
	failing := builder.Workspace("demo", builder.FirstApplyFailed)
	apply := builder.WorkspaceTemplateApply("demo", builder.WithRecordedWorkspace(failing))
	apply.Status.LastFailureClass = "Network"
	for want, workspaces := range map[string][]client.Object{
		"":                                     {failing},
		"Workspace demo was applied":           {builder.Workspace("demo", builder.AtRest)},
		"Workspace demo has no error any more": {builder.Workspace("demo", builder.FirstApplyDone)},
		"Workspace demo has outputs":           {builder.Workspace("demo", builder.FirstApplyFailed, builder.WithOutputs(map[string]any{"cluster_endpoint": "https://x"}))},
		"Workspace demo does not exist, or was recreated": nil,
	} {
		found, err := (&Client{Uncached: builder.Clients(workspaces...).Build()}).NotFailing(t.Context(), apply)
		require.NoError(t, err)
		assert.Equal(t, want, found)
	}
	another := builder.Workspace("demo", builder.FirstApplyFailed, builder.WithUID("another"))
	found, err := (&Client{Uncached: builder.Clients(another).Build()}).NotFailing(t.Context(), apply)
	require.NoError(t, err)
	assert.Equal(t, "Workspace demo does not exist, or was recreated", found)
	_, err = (&Client{Uncached: builder.FailingGet[*unstructured.Unstructured](builder.Clients(failing).Build(), assert.AnError)}).NotFailing(t.Context(), apply)
	require.ErrorIs(t, err, assert.AnError)
}

// The provider may have started another create since, which the removal of the annotation would hide: then nothing is written. Another run does no harm.
func TestAnInterruptedCreateIsNotContinuedIfTheWorkspaceChanged(t *testing.T) {
	for action, refused := range map[infrav1.RecoveryActionType]bool{infrav1.RecoveryClearInterruptedCreate: true, infrav1.RecoveryReapply: false} {
		api := builder.Clients(builder.Workspace("demo", builder.Interrupted)).Build()
		stored := builder.Workspace("demo", builder.Interrupted)
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
		live, err := newLive(stored.DeepCopy())
		require.NoError(t, err)
		stored.SetLabels(map[string]string{"changed": "meanwhile"})
		require.NoError(t, api.Update(t.Context(), stored))
		_, err = (&Client{Client: api}).Recover(t.Context(), live, string(action)+"/"+string(live.GetUID())+"/1", nil)
		assert.Equal(t, refused, apierrors.IsConflict(err), action)
		assert.Equal(t, refused, err != nil, action)
	}
}
