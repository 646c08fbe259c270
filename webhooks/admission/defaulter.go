// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// defaulter is the defaulting webhook of a kind. It implements admission.Handler and not admission.Defaulter. The patch of the latter is
// the difference to the serialized Go type, which has an empty value for each missing required field, so that the API server would not
// report missing fields.
type defaulter[T client.Object] struct {
	decoder    admission.Decoder
	reader     validation.Reader
	mayMigrate reviewer
}

func (d defaulter[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
	var kind T
	object := newObject(kind)
	if err := d.decoder.DecodeRaw(request.Object, object); err != nil {
		// A field has the wrong type. The API server checks the schema next, and its error is more precise.
		return admission.Allowed("")
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := d.complete(ctx, request, object); err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(object, err))
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after)
}

// complete sets the defaults of a new object, or restores fields that an update must not remove.
func (d defaulter[T]) complete(ctx context.Context, request admission.Request, object T) error {
	var kind T
	old := newObject(kind)
	if request.Operation == admissionv1.Create {
		signApproval(request.UserInfo.Username, old, object)
		return d.completeNew(ctx, request, object)
	}
	if err := d.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return fmt.Errorf("reading the old object: %w", err)
	}
	signApproval(request.UserInfo.Username, old, object)
	migrating, err := isFromMigration(ctx, request, d.mayMigrate)
	if err != nil || migrating {
		return err // A rollback omits fields on purpose.
	}
	validation.RestoreFields(old, object)
	if isInOlderVersion(request) {
		return validation.RestoreHubFields(ctx, d.reader, old, object)
	}
	return nil
}

// completeNew sets the defaults of a new object.
func (d defaulter[T]) completeNew(ctx context.Context, request admission.Request, object client.Object) error {
	if !isFromManager(request) {
		if err := removeDeadOwners(ctx, d.reader, object); err != nil {
			return err
		}
	}
	switch object := object.(type) {
	case *infrav1.WorkspaceTemplate:
		if isInOlderVersion(request) {
			break
		}
		migrating, err := isFromMigration(ctx, request, d.mayMigrate)
		if err != nil || migrating { // A plan of an earlier version has no substitution, and was made for that.
			return err
		}
		validation.SetTemplateDefaults(object)
	case *infrav1.WorkspaceTemplateApply:
		if err := d.takeRecordedState(ctx, request, object); err != nil {
			return err
		}
	}
	return setDefaults(ctx, d.reader, object)
}

// takeRecordedState lets an object that is restored take over the Terraform state that CAPT has recorded, if the user may name states: its plan must be empty.
func (d defaulter[T]) takeRecordedState(ctx context.Context, request admission.Request, apply *infrav1.WorkspaceTemplateApply) error {
	config, name, recorded := strings.Cut(apply.Annotations[naming.TerraformStateAnnotation], " ")
	if !recorded || apply.Spec.TerraformState.Name != "" {
		return nil
	}
	may, err := d.mayMigrate(ctx, request)
	if may {
		apply.Spec.TerraformState = infrav1.TerraformState{Name: name, ProviderConfig: config}
		delete(apply.Annotations, naming.TerraformStateAnnotation)
	}
	return err
}

// signApproval records the user that changed the approved content of a WorkspaceTemplate or a WorkspaceTemplateApply, and when. Other users cannot change
// the record. The old object of a new one is empty.
func signApproval(user string, old, object client.Object) {
	switch object.(type) {
	case *infrav1.WorkspaceTemplate, *infrav1.WorkspaceTemplateApply:
	default:
		return
	}
	annotations, before := object.GetAnnotations(), old.GetAnnotations()
	approved := annotations[naming.ApproveAnnotation]
	record := map[string]string{
		naming.ApprovedByAnnotation: before[naming.ApprovedByAnnotation], naming.ApprovedAtAnnotation: before[naming.ApprovedAtAnnotation],
	}
	if approved != before[naming.ApproveAnnotation] {
		record[naming.ApprovedByAnnotation], record[naming.ApprovedAtAnnotation] = user, time.Now().UTC().Format(time.RFC3339)
	}
	for annotation, value := range record {
		if approved == "" || value == "" {
			delete(annotations, annotation)
			continue
		}
		annotations[annotation] = value // It has the approved content, so it is not nil.
	}
	object.SetAnnotations(annotations)
}

func isInOlderVersion(request admission.Request) bool {
	return request.RequestKind != nil && request.RequestKind.Version != request.Kind.Version
}

// setDefaults sets the defaults of a new object: the WorkspaceTemplateApply of a VPC that has a template and of a control plane, the Workspace of a
// WorkspaceTemplateApply, and the whole version of a control plane. A control plane without a template gets no reference: validation rejects it.
func setDefaults(ctx context.Context, reader validation.Reader, object any) error {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		if object.Spec.VPC.Template.IsDefined() {
			return defaultReference(ctx, reader, object, &object.Spec.WorkspaceTemplateApplyRef, legacy.ExpectationOfCAPTCluster(object, ""))
		}
	case *controlplanev1.CAPTControlPlane:
		validation.CompleteVersion(object)
		if object.Spec.WorkspaceTemplateRef.Name != "" {
			return defaultReference(ctx, reader, object, &object.Spec.WorkspaceTemplateApplyRef, legacy.ExpectationOfControlPlane(object, ""))
		}
	case *infrav1.WorkspaceTemplateApply:
		return defaultWorkspaceName(ctx, reader, object)
	}
	return nil
}

// defaultReference sets the reference to the WorkspaceTemplateApply that the controller will create, with the name of the naming scheme, except in these
// cases, in which the controller sets it later:
//
//   - A WorkspaceTemplateApply with that name exists: the user must decide whether it belongs to the owner (AdoptionRequired).
//   - The namespace has a WorkspaceTemplateApply of CAPT v0.3 without a controller: it may belong to the owner. Only the controller can
//     determine that, because it knows the Cluster (claim.Expectation.Candidates).
//   - The status of the owner records cloud resources: the owner was restored from a backup, and its WorkspaceTemplateApply may be
//     restored next, with any name.
//   - The owner has only generateName.
func defaultReference(ctx context.Context, reader validation.Reader, owner validation.Owner, ref *infrav1.WorkspaceTemplateApplyReference, want claim.Expectation) error {
	if ref.IsDefined() || owner.GetName() == "" || want.ProvisionedField != "" {
		return nil
	}
	apply, err := validation.Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: owner.GetNamespace(), Name: want.SchemeName})
	if err != nil || apply != nil {
		return err
	}
	if found, err := reader.HasUnownedLegacy(ctx, owner.GetNamespace()); err != nil || found {
		return err
	}
	ref.Name = want.SchemeName
	return nil
}

// defaultWorkspaceName sets spec.workspaceName of a new object, except in these cases:
//
//   - There is no template that the object may use: the scope of the Workspace is unknown, and the controller sets the name later.
//   - Validation will reject the object: with a name, the rule would treat it as restored from a backup, and allow it.
//   - The object is restored from CAPT v0.3: with a name it would count as adopted, and get a second Workspace.
func defaultWorkspaceName(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) error {
	if apply.Spec.WorkspaceName != "" || apply.Name == "" || legacy.UnadoptedWorkspace(apply) != "" {
		return nil
	}
	reserved, err := validation.ValidateNewWorkspaceTemplateApply(ctx, reader, apply)
	if err != nil || len(reserved.Errors) > 0 {
		return err
	}
	template, _, err := validation.TemplateReference(ctx, reader, apply.Spec.TemplateRef, apply.Namespace, field.NewPath("spec", "templateRef"))
	if err != nil {
		return err
	}
	if template != nil && template.Spec.WorkspaceScope.OrDefault() == terraform.ScopeCluster {
		found, err := reader.HasUnclaimedWorkspace(ctx, naming.LegacyWorkspace(apply.Name))
		if err != nil || found { // The controller determines whether the Workspace belongs to another object.
			return err
		}
	}
	apply.Spec.WorkspaceName = validation.WorkspaceName(apply, template)
	return nil
}

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

// Handle implements admission.Handler.
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
