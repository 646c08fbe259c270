// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// owningKinds are the kinds that own objects of CAPT and MachinePools, except for ClusterClasses, which CAPT does not read.
func owningKinds() map[string]validation.Owner {
	return map[string]validation.Owner{
		clusterv1.GroupVersion.Group + "/" + clusterv1.ClusterKind: &clusterv1.Cluster{},
		clusterv1.GroupVersion.Group + "/MachinePool":              &clusterv1.MachinePool{},
		infrav1.GroupVersion.Group + "/WorkspaceTemplate":          &infrav1.WorkspaceTemplate{},
		infrav1.GroupVersion.Group + "/CAPTCluster":                &infrav1.CAPTCluster{},
		infrav1.GroupVersion.Group + "/CAPTMachinePool":            &infrav1.CAPTMachinePool{},
		controlplanev1.GroupVersion.Group + "/CAPTControlPlane":    &controlplanev1.CAPTControlPlane{},
	}
}

// removeDeadOwners removes owner references to objects that do not exist: those of an object that is restored from a backup have UIDs of the management
// cluster that was lost, and the garbage collector would delete the object. The owners set them again.
func removeDeadOwners(ctx context.Context, reader validation.Getter, object client.Object) (err error) {
	if live, ok := reader.(liveReader); ok { // The cache may not have an owner yet.
		reader = live.Live
	}
	kinds := owningKinds()
	owners := slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		kind := kinds[group+"/"+ref.Kind]
		if kind == nil || err != nil {
			return ref.Kind == "ClusterClass" && group == clusterv1.GroupVersion.Group // Cluster API sets it again.
		}
		owner, failed := reader.Object(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: ref.Name}, kind)
		err = failed
		return err == nil && (owner == nil || owner.GetUID() != ref.UID)
	})
	if err == nil && len(owners) < len(object.GetOwnerReferences()) {
		object.SetOwnerReferences(owners)
	}
	return err
}

// isFromManager reports whether a request names a field manager of CAPT's controllers. What they create for an owner that was deleted meanwhile must be collected:
// a WorkspaceTemplateApply without an owner would create a cluster. The name grants nothing: another client that uses it keeps its references.
func isFromManager(request admission.Request) bool {
	return strings.HasPrefix(fieldManagerOf(request), naming.FieldManagerPrefix)
}

// ownersPath is the path of the webhook for new objects of the kinds without defaults.
const ownersPath = "/mutate-owners"

// owners removes dead owners of new MachinePools (with one, Cluster API would delete the CAPTMachinePool), templates of ClusterClasses and stored revisions.
type owners struct{ reader validation.Getter }

func (o owners) Handle(ctx context.Context, request admission.Request) admission.Response {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(request.Object.Raw); err != nil || isFromManager(request) {
		return admission.Allowed("") // As in defaulter.
	}
	err := removeDeadOwners(ctx, o.reader, object)
	after, notEncoded := object.MarshalJSON()
	if err = cmp.Or(err, notEncoded); err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(object, err))
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, after)
}
