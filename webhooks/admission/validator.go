// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/schema"
)

// validator is the validating webhook of a kind.
type validator[T client.Object] struct {
	reader validation.Reader
	// schema is the schema of the hub version.
	schema     *schema.Schema
	mayMigrate reviewer
}

func (r validator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	findings, err := validation.ValidateNew(ctx, r.reader, object)
	if err != nil {
		return nil, lookupError(object, err)
	}
	changed, err := r.changedNodeGroup(ctx, object)
	if err != nil {
		return nil, lookupError(object, err)
	}
	findings.Refuse(changed...)
	if r.needsSchemaValidation(ctx) {
		findings.Refuse(r.schema.Validate(ctx, object)...)
	}
	return r.response(ctx, newObject(object), object, findings)
}

// ValidateUpdate implements admission.Validator. An update that does not change what is checked is always admitted, so that labels and finalizers of objects
// that were stored before a rule existed can be changed.
func (r validator[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	if !object.GetDeletionTimestamp().IsZero() || equality.Semantic.DeepEqual(checked(old), checked(object)) {
		return nil, nil
	}
	findings, err := r.findings(ctx, old, object)
	if err != nil {
		return nil, lookupError(object, err)
	}
	if r.needsSchemaValidation(ctx) {
		findings.Refuse(r.schema.ValidateUpdate(ctx, object, old)...)
	}
	return r.response(ctx, old, object, findings)
}

func checked(object any) any {
	if template, ok := object.(*infrav1.WorkspaceTemplate); ok {
		return []any{template.Spec, template.Annotations[naming.ApproveAnnotation], template.Annotations[naming.ApproveDestroyAnnotation], template.Annotations[naming.ResumeAnnotation]}
	}
	return reflect.ValueOf(object).Elem().FieldByName("Spec").Interface()
}

// findings checks an updated object, and the difference to the old one.
func (r validator[T]) findings(ctx context.Context, old, object T) (findings validation.Findings, err error) {
	if findings, err = validation.Validate(ctx, r.reader, object); err != nil {
		return findings, err
	}
	if findings.Errors, err = r.ratchet(ctx, old, findings.Errors); err != nil {
		return findings, err
	}
	change, err := validation.ValidateChange(ctx, r.reader, old, object)
	if err != nil {
		return findings, err
	}
	findings.Add(change)
	if findings.Errors, err = r.allowedForMigration(ctx, findings.Errors); err != nil {
		return findings, err
	}
	changed, err := r.changedNodeGroup(ctx, object)
	if len(changed) > 0 && err == nil {
		var before field.ErrorList
		before, err = r.changedNodeGroup(ctx, old)
		findings.Refuse(without(changed, before)...)
	}
	if err != nil {
		return findings, err
	}
	warnings, err := unpinningWarnings(ctx, r.reader, old, object)
	findings.Warnings = append(findings.Warnings, warnings...)
	return findings, err
}

// changedNodeGroup checks that a CAPTMachinePool does not change the node group of a user to which it refers. Others have none.
func (r validator[T]) changedNodeGroup(ctx context.Context, object T) (field.ErrorList, error) {
	pool, ok := any(object).(*infrav1.CAPTMachinePool)
	if !ok {
		return nil, nil
	}
	return desired.ValidateTakeover(ctx, r.reader, pool)
}

// unpinningWarnings warns when an update removes the reference to the template that captctl migrate created to reproduce the Workspace (the pinned
// template), for example when a manifest from before the migration is applied. It does not warn of a rollback, which removes the reference on purpose.
func unpinningWarnings(ctx context.Context, reader validation.Reader, old, object client.Object) ([]string, error) {
	_, before, _ := references(old)
	kind, after, name := references(object)
	if request, err := admission.RequestFromContext(ctx); before == after || err == nil && namesMigration(request) {
		return nil, nil
	}
	pinned, err := validation.PermittedTemplate(ctx, reader, before, object.GetNamespace())
	if err != nil || pinned == nil || pinned.Labels[naming.PinnedLabel] != "true" {
		return nil, err
	}
	used, err := validation.Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: object.GetNamespace(), Name: name})
	if err != nil || used == nil || used.Spec.WorkspaceName == "" {
		return nil, err
	}
	return []string{fmt.Sprintf("%s %s no longer refers to its pinned template: Terraform will run for Workspace %s unless WorkspaceTemplate %s renders the same Workspace. To keep the Workspace unchanged, refer to WorkspaceTemplate %s; captctl convert --from-cluster writes this reference into the manifest",
		kind, object.GetName(), used.Spec.WorkspaceName, after, before)}, nil
}

// references returns the template of an object, and the name of its WorkspaceTemplateApply; empty for kinds that have none.
func references(object client.Object) (kind string, template types.NamespacedName, apply string) {
	switch o := object.(type) {
	case *infrav1.CAPTCluster:
		return "CAPTCluster", o.Spec.VPC.Template.Ref.Key(o.Namespace), o.Spec.WorkspaceTemplateApplyRef.Name
	case *controlplanev1.CAPTControlPlane:
		return "CAPTControlPlane", o.Spec.WorkspaceTemplateRef.Key(o.Namespace), o.Spec.WorkspaceTemplateApplyRef.Name
	case *infrav1.WorkspaceTemplateApply:
		return "WorkspaceTemplateApply", o.TemplateKey(), o.Name
	}
	return "", types.NamespacedName{}, ""
}

// response rejects the object because of the findings, or because it assigns what only CAPT assigns.
func (r validator[T]) response(ctx context.Context, old, object T, findings validation.Findings) (admission.Warnings, error) {
	assigned, err := r.assignments(ctx, old, object)
	findings.Refuse(assigned...)
	return findings.Warnings, cmp.Or(err, invalidError(ctx, object, findings.Errors))
}

// allowedForMigration drops the errors despite which captctl migrate may make a change.
func (r validator[T]) allowedForMigration(ctx context.Context, errs field.ErrorList) (field.ErrorList, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil || !slices.ContainsFunc(errs, isAllowedForMigration) {
		return errs, err
	}
	if migrating, err := isFromMigration(ctx, request, r.mayMigrate); err != nil || !migrating {
		return errs, err
	}
	return slices.DeleteFunc(errs, isAllowedForMigration), nil
}

// assignments rejects values of fields that only CAPT assigns, unless the user may migrate: clusterctl move and restores from a backup create objects
// with them. The webhooks are not called for the writes of CAPT.
func (r validator[T]) assignments(ctx context.Context, old, object T) (field.ErrorList, error) {
	assigned := validation.AssignedFields(old, object)
	if len(assigned) == 0 {
		return nil, nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	if request.Operation == admissionv1.Create {
		if may, err := r.mayMigrate(ctx, request); err != nil || may {
			return nil, err
		}
	}
	var errs field.ErrorList
	for _, f := range assigned {
		if f.AtCreation {
			errs = append(errs, validation.Forbidden(f.Path, "names a Terraform state, which may be that of another cluster: only a user with the verb migrate on the resource guards "+
				"(ClusterRole capt-adopter) can set it, and only at creation. Remove it, or ask an administrator to run captctl adopt"))
			continue
		}
		errs = append(errs, validation.Forbidden(f.Path, "is assigned by CAPT, in stages as spec.rollout of the WorkspaceTemplate requires. Remove it; "+
			"to change the revision, edit the template, or approve or resume its rollout"))
	}
	return errs, nil
}

// ValidateDelete implements admission.Validator. It is never called: the webhooks are not registered for delete, because an outage of the
// webhooks must not block deletion.
func (r validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// needsSchemaValidation reports whether the object of a request has an older version. The API server validates it only against the schema
// of that version, but stores it in the hub version.
func (r validator[T]) needsSchemaValidation(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && isInOlderVersion(request)
}

// ratchet drops the errors that the old object also has, so that other fields of an object that was stored before a rule existed can be
// changed.
func (r validator[T]) ratchet(ctx context.Context, old T, errs field.ErrorList) (field.ErrorList, error) {
	if len(errs) == 0 {
		return nil, nil
	}
	before, err := validation.Validate(ctx, r.reader, old)
	if err != nil {
		return nil, err
	}
	return without(errs, before.Errors), nil
}

// without drops the errors that are among others.
func without(errs, others field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return slices.ContainsFunc(others, func(other *field.Error) bool { return other.Error() == e.Error() })
	})
}

// isAllowedForMigration reports whether captctl migrate may make a change despite an error. A rollback restores references to templates
// that are being deleted. To pin a template, it changes the template of the owner before the
// template of the WorkspaceTemplateApply: in the other order, the manager could write the old template. captctl evacuate refers to a template of the other
// scope. In all cases the manager does not write Workspaces.
func isAllowedForMigration(err *field.Error) bool {
	return err.Type == field.ErrorTypeForbidden && (slices.Contains([]string{"spec.templateRef", "spec.workspaceTemplateRef", "spec.vpc.template.ref"}, err.Field) ||
		strings.HasSuffix(err.Field, "workspaceTemplateApplyRef.name") && strings.Contains(err.Detail, claim.TemplateDiffers))
}

// invalidError returns the errors of an object as a StatusError of reason Invalid, as the API server returns them.
func invalidError(ctx context.Context, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(apischema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}, object.GetName(), errs)
}

// lookupError returns the error for a failed lookup. The request is rejected and can be retried, because the object that could not be read
// may be a reason to reject it.
func lookupError(object client.Object, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("checking %s: %w", object.GetName(), err))
}

type reviewer func(ctx context.Context, request admission.Request) (bool, error)

// rights asks the API server for the rights of users.
type rights struct{ client.Client }

// mayMigrate reports whether the user of a request has the verb migrate on guards.capt.cluster.x-k8s.io at cluster scope, as the policies check it.
func (r rights) mayMigrate(ctx context.Context, request admission.Request) (bool, error) {
	user := request.UserInfo
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: naming.GuardGroup, Resource: naming.GuardResource, Verb: naming.GuardMigrateVerb},
	}}
	for key, value := range user.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	if err := r.Create(ctx, review); err != nil {
		return false, fmt.Errorf("checking the rights of %s: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}

// isFromMigration reports whether a request is from captctl migrate. Every client can use the name of its field manager, so the user must also have
// the right.
func isFromMigration(ctx context.Context, request admission.Request, mayMigrate reviewer) (bool, error) {
	if !namesMigration(request) {
		return false, nil
	}
	return mayMigrate(ctx, request)
}

// namesMigration reports whether a request has the field manager of captctl migrate, which writes only in the hub version. Patch requests have
// UpdateOptions as well.
func namesMigration(request admission.Request) bool {
	return fieldManagerOf(request) == naming.MigrationFieldManager && !isInOlderVersion(request)
}

// fieldManagerOf returns the field manager that a request names; the options of each verb have it.
func fieldManagerOf(request admission.Request) string {
	var options metav1.UpdateOptions
	_ = json.Unmarshal(request.Options.Raw, &options) // Without options, it names none.
	return options.FieldManager
}

// machinePoolPath is the path of the webhook for MachinePools.
const machinePoolPath = "/validate-cluster-x-k8s-io-v1beta2-machinepool"

// machinePools is the validating webhook for MachinePools of Cluster API whose infrastructure is a CAPTMachinePool, and for their subresource scale, which
// kubectl scale uses.
type machinePools struct {
	decoder admission.Decoder
	reader  validation.Reader
}

func (m machinePools) Handle(ctx context.Context, request admission.Request) admission.Response {
	old, machinePool, err := m.objects(ctx, request)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	var errs, before field.ErrorList
	if machinePool != nil {
		errs, err = desired.ValidateMachinePool(ctx, m.reader, machinePool)
	}
	if err == nil && len(errs) > 0 && old != nil {
		before, err = desired.ValidateMachinePool(ctx, m.reader, old)
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, lookupError(machinePool, err))
	}
	errs, warnings := correctable(request, without(errs, before))
	if len(errs) == 0 {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	refused := apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("MachinePool").GroupKind(), request.Name, errs).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refused}}
}

// correctable makes warnings of errors that another object of the same commit may correct: a GitOps tool checks each object before it applies the first one,
// and would hold back all. The controller reports what is left. kubectl scale changes nothing else.
func correctable(request admission.Request, errs field.ErrorList) (refused field.ErrorList, warnings []string) {
	var findings validation.Findings
	for _, err := range errs {
		if request.SubResource == "" && (err.Field == "spec.replicas" || err.Field == "spec.template.spec.version") {
			findings.AddWarnings(field.ErrorList{err})
		} else {
			findings.Refuse(err)
		}
	}
	return findings.Errors, findings.Warnings
}

// objects returns the MachinePool before and after a request; nil if it did not, or does not exist.
func (m machinePools) objects(ctx context.Context, request admission.Request) (old, machinePool *clusterv1.MachinePool, err error) {
	if request.SubResource == "scale" {
		var scale autoscalingv1.Scale
		if err := json.Unmarshal(request.Object.Raw, &scale); err != nil {
			return nil, nil, err
		}
		if old, err = validation.Get[*clusterv1.MachinePool](ctx, m.reader, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}); err != nil || old == nil {
			return nil, nil, err
		}
		machinePool = old.DeepCopy()
		machinePool.Spec.Replicas = &scale.Spec.Replicas
		return old, machinePool, nil
	}
	machinePool = &clusterv1.MachinePool{}
	if err := m.decoder.DecodeRaw(request.Object, machinePool); err != nil {
		return nil, nil, err
	}
	if request.Operation == admissionv1.Update {
		old = &clusterv1.MachinePool{}
		err = m.decoder.DecodeRaw(request.OldObject, old)
	}
	return old, machinePool, err
}
