// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// The garbage collector deletes what has only owners that do not exist, such as those of a backup of another management cluster.
func TestNewObjectsLoseOwnersThatDoNotExist(t *testing.T) {
	const capi, infra = "cluster.x-k8s.io/v1beta2", "infrastructure.cluster.x-k8s.io/v1beta2"
	owner := func(apiVersion, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
	}
	live := builder.Cluster("demo")
	live.UID = "lives"
	references := []metav1.OwnerReference{
		owner(capi, "Cluster", "demo", "lives"), owner(capi, "Cluster", "demo", "of-before"), owner(capi, "MachinePool", "workers", "of-before"),
		owner(infra, "CAPTMachinePool", "workers", "of-before"), owner("v1", "ConfigMap", "unknown", "of-before"),
	}
	want := []metav1.OwnerReference{references[0], references[4]}
	reader := newEnvironment(t, live)

	pool := builder.CAPTMachinePool("workers", builder.With(func(p *infrav1.CAPTMachinePool) { p.OwnerReferences = references }))
	assert.Equal(t, want, defaulted(t, &defaulter[*infrav1.CAPTMachinePool]{reader: reader}, nil, pool).OwnerReferences)
	assert.Equal(t, references, defaulted(t, &defaulter[*infrav1.CAPTMachinePool]{reader: reader}, pool, pool).OwnerReferences, "an existing object is not changed")
	ofController := func(r *admission.Request) {
		r.Options.Raw = []byte(`{"fieldManager":"` + naming.CAPTMachinePoolFieldManager + `"}`)
	}
	assert.Equal(t, references, replaced(t, &defaulter[*infrav1.CAPTMachinePool]{reader: reader}, nil, pool, "v1beta2", ofController).OwnerReferences, "what a controller creates for a deleted owner is collected")
	stale := liveReader{Reader: newEnvironment(t), Live: reader}
	assert.Equal(t, want, defaulted(t, &defaulter[*infrav1.CAPTMachinePool]{reader: stale}, nil, pool).OwnerReferences, "a new owner may not be in the cache yet")

	patched := func(references []metav1.OwnerReference, object client.Object, objects ...client.Object) (changes []string) {
		object.SetOwnerReferences(references)
		for _, patch := range (owners{newEnvironment(t, objects...)}).Handle(t.Context(), request(t, nil, object)).Patches {
			changes = append(changes, patch.Operation+" "+patch.Path)
		}
		return changes
	}
	removed := []string{"remove /metadata/ownerReferences/0"}
	assert.Equal(t, removed, patched(references[:1], builder.MachinePool("workers")))
	assert.Empty(t, patched(references[:1], builder.MachinePool("workers"), live))
	object := func(apiVersion, kind string) client.Object {
		found := &unstructured.Unstructured{}
		found.SetAPIVersion(apiVersion)
		found.SetKind(kind)
		found.SetNamespace(builder.Namespace)
		return found
	}
	template := builder.WorkspaceTemplate("vpc", builder.With(func(w *infrav1.WorkspaceTemplate) { w.UID = "lives" }))
	assert.Equal(t, removed, patched([]metav1.OwnerReference{owner(infra, "WorkspaceTemplate", "vpc", "of-before")}, object("apps/v1", "ControllerRevision"), template))
	assert.Empty(t, patched([]metav1.OwnerReference{owner(infra, "WorkspaceTemplate", "vpc", "lives")}, object("apps/v1", "ControllerRevision"), template))
	assert.Equal(t, removed, patched([]metav1.OwnerReference{owner(capi, "ClusterClass", "eks", "of-before")}, object(infra, "CAPTClusterTemplate")))
}
