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
func TestDefect24NothingIsHeldThatIsBeingDeleted(t *testing.T) {
	w := shared.Exclusive(t).NewWorld(t, terraform.ScopeNamespaced)
	template := w.VPCTemplate(fixture.VPCModule)
	documents := map[string]client.Object{
		template:                               &infrav1.WorkspaceTemplate{},
		fixture.CAPTCluster(fixture.Demo):      &infrav1.CAPTCluster{},
		fixture.CAPTControlPlane(fixture.Demo): &controlplanev1.CAPTControlPlane{},
		lonelyApply:                            &infrav1.WorkspaceTemplateApply{},
	}
	for document := range documents {
		if document != template { // The template comes last: once it is being deleted, nothing new may refer to it.
			w.User(document)
		}
	}
	w.User(template)
	names := map[string]string{}
	for document, object := range documents {
		names[document] = fixture.Demo
		if _, template := object.(*infrav1.WorkspaceTemplate); template {
			names[document] = fixture.VPCTemplate
		}
		// In one patch, so that CAPT does not see one without the other: what it has put on is taken off, and theirs is on.
		w.Edit(object, names[document], `{"metadata":{"finalizers":["`+theirs+`"]}}`)
		w.Remove(object, names[document])
	}
	since := time.Now()
	// From now on, a Cluster would have them held.
	w.User(fixture.Cluster())
	for document, object := range documents {
		w.Edit(object, names[document], `{"metadata":{"annotations":{"look":"again"}}}`)
	}
	w.AwaitRest(2 * time.Second)
	for document, object := range documents {
		require.True(w, w.Exists(object, names[document]), document)
		for _, finalizer := range object.GetFinalizers() {
			require.Equal(w, theirs, finalizer, document)
		}
	}
	manager, err := w.InstalledManagerUser()
	require.NoError(w, err)
	written, err := w.AuditEvents(audit.Filter{User: manager, Verbs: audit.Writes, Namespace: w.Namespace, Since: since})
	require.NoError(w, err)
	for _, event := range written {
		require.NotEqual(w, int32(http.StatusUnprocessableEntity), event.ResponseStatus.Code, "%s %s", event.Verb, event.RequestURI)
	}
	for document, object := range documents {
		w.Edit(object, names[document], `{"metadata":{"finalizers":null}}`)
		w.AwaitGone(object, names[document])
	}
	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
}

// lonelyApply has a template that is not there.
const lonelyApply = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: demo}
spec: {templateRef: {name: nowhere}}
`

// A controller that removes its own finalizer must keep the one of another kind's controller.
func TestDefect24EachKindHasItsOwnFinalizer(t *testing.T) {
	t.Parallel()
	w := shared.NewWorld(t, terraform.ScopeNamespaced)
	w.User(w.Everything()...)
	w.AwaitState(controlplanev1.StateReady, "")
	holders := map[string]string{}
	for _, row := range []struct {
		object client.Object
		name   string
	}{
		{&infrav1.CAPTCluster{}, fixture.Demo}, {&controlplanev1.CAPTControlPlane{}, fixture.Demo},
		{&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate}, {&infrav1.WorkspaceTemplateApply{}, fixture.VPC},
	} {
		require.True(w, w.Exists(row.object, row.name))
		require.Len(w, row.object.GetFinalizers(), 1, "%T", row.object)
		finalizer, kind := row.object.GetFinalizers()[0], fmt.Sprintf("%T", row.object)
		require.Empty(w, holders[finalizer], "%s has the finalizer of another kind", kind)
		holders[finalizer] = kind
	}
}
