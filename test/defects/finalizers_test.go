// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// theirs is a finalizer of another controller.
const theirs = "example.com/theirs"

// A finalizer was added to what was being deleted already, which the API server refuses; and all kinds had the same. Whether
// the controllers are done can be seen only while no other test keeps them busy, so this test runs alone.
func TestNothingIsHeldThatIsBeingDeleted(t *testing.T) {
	env := shared.Exclusive(t).NewEnvironment(t, terraform.ScopeNamespaced)
	template := env.VPCTemplate(fixture.VPCModule)
	documents := map[string]client.Object{
		template:                               &infrav1.WorkspaceTemplate{},
		fixture.CAPTCluster(fixture.Demo):      &infrav1.CAPTCluster{},
		fixture.CAPTControlPlane(fixture.Demo): &controlplanev1.CAPTControlPlane{},
		fixture.WorkspaceTemplateApply("nowhere", fixture.Demo): &infrav1.WorkspaceTemplateApply{},
	}
	for document := range documents {
		if document != template { // The template comes last: once it is being deleted, nothing new may refer to it.
			env.User(document)
		}
	}
	env.User(template)
	names := map[string]string{}
	for document, object := range documents {
		names[document] = fixture.Demo
		if _, template := object.(*infrav1.WorkspaceTemplate); template {
			names[document] = fixture.VPCTemplate
		}
		// In one patch, so that CAPT does not see one without the other: what it has put on is taken off, and theirs is on.
		env.Edit(object, names[document], `{"metadata":{"finalizers":["`+theirs+`"]}}`)
		env.Remove(object, names[document])
	}
	since := time.Now()
	// From now on, a Cluster would have them held.
	env.User(fixture.Cluster())
	for document, object := range documents {
		env.Edit(object, names[document], `{"metadata":{"annotations":{"look":"again"}}}`)
	}
	env.AwaitRest()
	for document, object := range documents {
		require.True(env, env.Exists(object, names[document]), document)
		for _, finalizer := range object.GetFinalizers() {
			require.Equal(env, theirs, finalizer, document)
		}
	}
	manager, err := env.InstalledManagerUser()
	require.NoError(env, err)
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: manager, Verbs: audit.Writes, Namespace: env.Namespace, Since: since}) {
		require.NotEqual(env, int32(http.StatusUnprocessableEntity), event.ResponseStatus.Code, "%s %s", event.Verb, event.RequestURI)
	}
	for document, object := range documents {
		env.Edit(object, names[document], `{"metadata":{"finalizers":null}}`)
		env.AwaitGone(object, names[document])
	}
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
}

// A controller that removes its own finalizer must keep the one of another kind's controller.
func TestEachKindHasItsOwnFinalizer(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	holders := map[string]string{}
	for _, row := range []struct {
		object client.Object
		name   string
	}{
		{&infrav1.CAPTCluster{}, fixture.Demo}, {&controlplanev1.CAPTControlPlane{}, fixture.Demo},
		{&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate}, {&infrav1.WorkspaceTemplateApply{}, fixture.VPC},
	} {
		require.True(env, env.Exists(row.object, row.name))
		require.Len(env, row.object.GetFinalizers(), 1, "%T", row.object)
		finalizer, kind := row.object.GetFinalizers()[0], fmt.Sprintf("%T", row.object)
		require.Empty(env, holders[finalizer], "%s has the finalizer of another kind", kind)
		holders[finalizer] = kind
	}
}
