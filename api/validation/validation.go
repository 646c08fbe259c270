// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation has the rules for objects of all kinds, which webhooks, controllers and captctl call. Findings are the result of a rule, and Reader has
// the objects that it may read besides the one that it checks. A rule about one kind is in the file of that kind.
package validation

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
)

// Reader reads the objects that a rule needs in addition to the object that it checks. In webhooks it reads from the manager's cache, and
// in some cases from the API server. A nil object means that the object does not exist. An error means that the lookup failed; a rule must
// return the error and must not decide.
type Reader interface {
	Getter
	// ClaimantsOf lists the WorkspaceTemplateApplies of all namespaces whose spec.workspaceName is a given name.
	ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error)
	// UsersOf counts the WorkspaceTemplateApplies of all namespaces that refer to a template.
	UsersOf(ctx context.Context, template types.NamespacedName) (Users, error)
	// MachinePoolOf returns the MachinePool that refers to the CAPTMachinePool with a key, or nil.
	MachinePoolOf(ctx context.Context, pool types.NamespacedName) (*clusterv1.MachinePool, error)
	// NodeGroups lists the node groups of a Cluster: its MachinePools that refer to a CAPTMachinePool.
	NodeGroups(ctx context.Context, cluster types.NamespacedName) ([]NodeGroup, error)
	// ReferrersTo lists the CAPTClusters, CAPTControlPlanes and CAPTMachinePools whose spec refers to a WorkspaceTemplateApply.
	ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]Owner, error)
	// ControlPlanesOfTemplate lists the CAPTControlPlanes of all namespaces whose spec.workspaceTemplateRef refers to a template.
	ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error)
	// EKSClaims lists the CAPTControlPlanes of all namespaces whose EKS cluster gets a given name. Those that were created with another name than they would get may be missing.
	EKSClaims(ctx context.Context, name string) ([]EKSClaim, error)
	// HasUnownedLegacy reports whether a namespace has a WorkspaceTemplateApply for which adoption.IsUnownedLegacy is true.
	HasUnownedLegacy(ctx context.Context, namespace string) (bool, error)
	// HasUnclaimedWorkspace reports whether a cluster-scoped Workspace with a given name exists that has no naming.ClaimAnnotation, so that
	// CAPT v0.3 may have created it.
	HasUnclaimedWorkspace(ctx context.Context, workspaceName string) (bool, error)
	// ClusterOf returns the Cluster whose spec refers to an object as its infrastructure or control plane, or nil.
	ClusterOf(ctx context.Context, owner Owner) (*clusterv1.Cluster, error)
	// NamespaceLabels returns the labels of a namespace; nil when it does not exist.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
}

// Getter reads objects of any kind by their keys.
type Getter interface {
	// Object returns the object with a key that has the type of kind, or nil.
	Object(ctx context.Context, key types.NamespacedName, kind Owner) (Owner, error)
}

// Get returns the object of a kind with a key, or nil.
func Get[T Owner](ctx context.Context, reader Getter, key types.NamespacedName) (found T, err error) {
	object, err := reader.Object(ctx, key, found)
	found, _ = object.(T)
	return found, err
}

// Users are the users of a template.
type Users struct {
	// Applies is the number of WorkspaceTemplateApplies, Clusters that of the Clusters that they belong to.
	Applies, Clusters int
}

// String is how many users a template has.
func (u Users) String() string {
	applies, clusters := "WorkspaceTemplateApplies", "Clusters"
	if u.Applies == 1 {
		applies = "WorkspaceTemplateApply"
	}
	if u.Clusters == 1 {
		clusters = "Cluster"
	}
	return fmt.Sprintf("the template is used by %d %s in %d %s", u.Applies, applies, u.Clusters, clusters)
}

// CountUsers counts WorkspaceTemplateApplies.
func CountUsers(applies []infrav1.WorkspaceTemplateApply) Users {
	clusters := map[types.NamespacedName]bool{}
	for i := range applies {
		if name := applies[i].Labels[clusterv1.ClusterNameLabel]; name != "" {
			clusters[types.NamespacedName{Namespace: applies[i].Namespace, Name: name}] = true
		}
	}
	return Users{Applies: len(applies), Clusters: len(clusters)}
}

// Owner is an object that owns WorkspaceTemplateApplies: a CAPTCluster, a CAPTControlPlane or a CAPTMachinePool.
type Owner interface {
	metav1.Object
	runtime.Object
}

// Findings are the results of the rules for an object.
type Findings struct {
	// Errors reject the object: only a change of the object can resolve them.
	Errors field.ErrorList
	// Warnings do not reject the object: a change of another object may resolve them, for example the creation of a referenced one.
	Warnings []string
}

// Refuse adds errors, which reject the object.
func (f *Findings) Refuse(errs ...*field.Error) { f.Errors = append(f.Errors, errs...) }

// Warn adds a warning about the field at a path.
func (f *Findings) Warn(path *field.Path, format string, args ...any) {
	f.Warnings = append(f.Warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

// Add adds the errors and warnings of other findings.
func (f *Findings) Add(other Findings) {
	f.Errors = append(f.Errors, other.Errors...)
	f.Warnings = append(f.Warnings, other.Warnings...)
}

// include adds the findings of a rule, and returns its error.
func (f *Findings) include(other Findings, err error) error {
	f.Add(other)
	return err
}

// AddWarnings adds errors as warnings.
func (f *Findings) AddWarnings(errs field.ErrorList) {
	for _, e := range errs {
		f.Warnings = append(f.Warnings, e.Field+": "+e.Detail)
	}
}

// DowngradeToWarnings makes errors of these types warnings; without types all errors.
func (f *Findings) DowngradeToWarnings(types ...field.ErrorType) {
	errs := f.Errors
	f.Errors = nil
	for _, e := range errs {
		if len(types) == 0 || slices.Contains(types, e.Type) {
			f.AddWarnings(field.ErrorList{e})
		} else {
			f.Refuse(e)
		}
	}
}

// ValidateNew checks a new object of one of CAPT's kinds, as Validate and for its names. An object with a finalizer is not new: clusterctl move or a backup
// creates it again. A placeholder or another module that its template got meanwhile must not end the move halfway; the controller reports it.
func ValidateNew(ctx context.Context, reader Reader, object any) (findings Findings, err error) {
	err = findings.include(Validate(ctx, reader, object))
	switch object.(type) {
	case *infrav1.CAPTCluster, *controlplanev1.CAPTControlPlane, *infrav1.CAPTMachinePool, *infrav1.WorkspaceTemplateApply:
		if len(object.(Owner).GetFinalizers()) > 0 {
			findings.DowngradeToWarnings(field.ErrorTypeRequired, field.ErrorTypeTypeInvalid) // What the template and its module say about variables.
		}
	}
	if apply, ok := object.(*infrav1.WorkspaceTemplateApply); ok && err == nil {
		err = cmp.Or(findings.include(ValidateNewWorkspaceTemplateApply(ctx, reader, apply)), findings.include(ValidateNewWorkspaceName(ctx, reader, apply)))
	}
	return findings, err
}

// Validate checks an object of one of CAPT's kinds. It returns an error if a lookup failed, or if the object is of another kind.
func Validate(ctx context.Context, reader Reader, object any) (Findings, error) {
	switch object := object.(type) {
	case *infrav1.CAPTCluster:
		return ValidateCAPTCluster(ctx, reader, object)
	case *infrav1.CAPTClusterTemplate:
		return ValidateCAPTClusterTemplate(ctx, reader, object)
	case *controlplanev1.CAPTControlPlane:
		return ValidateCAPTControlPlane(ctx, reader, object)
	case *controlplanev1.CAPTControlPlaneTemplate:
		return ValidateCAPTControlPlaneTemplate(ctx, reader, object)
	case *infrav1.CAPTMachinePool:
		return ValidateCAPTMachinePool(ctx, reader, object)
	case *infrav1.CAPTMachinePoolTemplate:
		return ValidateCAPTMachinePoolTemplate(ctx, reader, object)
	case *infrav1.PlanRequest:
		return ValidatePlanRequest(ctx, reader, object)
	case *infrav1.WorkspaceTemplate:
		return ValidateWorkspaceTemplate(object), nil
	case *infrav1.WorkspaceTemplateApply:
		return ValidateWorkspaceTemplateApply(ctx, reader, object)
	case *bootstrapv1.CAPTBootstrapConfig, *bootstrapv1.CAPTBootstrapConfigTemplate: // They have no fields.
		return Findings{}, nil
	}
	return Findings{}, fmt.Errorf("unsupported type %T", object)
}

// ValidateChange checks the difference between an old and a new object of one of CAPT's kinds.
func ValidateChange(ctx context.Context, reader Reader, old, object any) (findings Findings, err error) {
	switch object := object.(type) {
	case *infrav1.CAPTClusterTemplate:
		findings.Refuse(validateImmutable(old.(*infrav1.CAPTClusterTemplate).Spec.Template.Spec, object.Spec.Template.Spec)...)
	case *infrav1.CAPTMachinePoolTemplate:
		findings.Refuse(validateImmutable(old.(*infrav1.CAPTMachinePoolTemplate).Spec.Template.Spec, object.Spec.Template.Spec)...)
	case *controlplanev1.CAPTControlPlaneTemplate:
		findings.Refuse(validateImmutable(old.(*controlplanev1.CAPTControlPlaneTemplate).Spec.Template.Spec, object.Spec.Template.Spec)...)
	case *controlplanev1.CAPTControlPlane:
		findings.Errors, err = validateCAPTControlPlaneUpdate(ctx, reader, old.(*controlplanev1.CAPTControlPlane), object)
	case *infrav1.WorkspaceTemplate:
		findings.Errors = validateWorkspaceTemplateUpdate(old.(*infrav1.WorkspaceTemplate), object)
		findings.Warnings, err = workspaceTemplateUpdateWarnings(ctx, reader, old.(*infrav1.WorkspaceTemplate), object)
	case *infrav1.WorkspaceTemplateApply:
		findings.Errors, err = validateWorkspaceTemplateApplyUpdate(ctx, reader, old.(*infrav1.WorkspaceTemplateApply), object)
	}
	return findings, err
}

// Invalid returns an error about a value without the value, which may be a secret or the text of a whole module.
func Invalid(path *field.Path, format string, args ...any) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...))
}

// Forbidden returns an error about a field that must not be set, or must not have this value.
func Forbidden(path *field.Path, format string, args ...any) *field.Error {
	return field.Forbidden(path, fmt.Sprintf(format, args...))
}

// PermitsNamespace reports whether a template may be used from a namespace: its own, one in spec.allowedNamespaces.names, or one that
// spec.allowedNamespaces.selector selects. namespaceLabels is called only if the labels matter; its error is returned.
func PermitsNamespace(template *infrav1.WorkspaceTemplate, namespace string, namespaceLabels func() (labels.Set, error)) (bool, error) {
	allowed := template.Spec.AllowedNamespaces
	switch {
	case template.Namespace == namespace:
		return true, nil
	case !allowed.IsDefined():
		return false, nil
	case slices.Contains(allowed.Names, namespace), slices.Contains(allowed.Names, "*"):
		return true, nil
	case allowed.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
	if err != nil {
		return false, nil //nolint:nilerr // An invalid selector permits no namespace; the status of the template reports the error.
	}
	set, err := namespaceLabels()
	if err != nil || set == nil {
		return false, err
	}
	return selector.Matches(set), nil
}

// TemplateReference looks up the template that an object in a namespace refers to. The returned template is nil if it does not exist or
// does not allow that namespace. Both are warnings with the same text for a template in another namespace, so that the answer reveals nothing
// about that namespace: the template may be created, or allow the namespace, later. A template that is being deleted is an error.
func TemplateReference(ctx context.Context, reader Reader, ref infrav1.WorkspaceTemplateReference, namespace string, path *field.Path) (*infrav1.WorkspaceTemplate, Findings, error) {
	var findings Findings
	key := ref.Key(namespace)
	template, err := PermittedTemplate(ctx, reader, key, namespace)
	switch {
	case err != nil:
		return nil, findings, err
	case template != nil:
		if !template.DeletionTimestamp.IsZero() {
			findings.Refuse(Forbidden(path, "%s", TemplateDeletingMessage(key)))
		}
		return template, findings, nil
	case key.Namespace == namespace:
		absence := "does not exist yet"
		if _, ok := reader.(Files); ok {
			absence = "is not among the files"
		}
		findings.Warn(path, "WorkspaceTemplate %s %s. Nothing is created until it exists", key.Name, absence)
		return nil, findings, nil
	}
	findings.Warn(path, "WorkspaceTemplate %s does not exist, or does not allow namespace %s. Nothing is created until it does. Correct the reference, or ask the owner of the template to add the namespace to spec.allowedNamespaces", key, namespace)
	return nil, findings, nil
}

// TemplateDeletingMessage returns the message that a template is being deleted and cannot be used by new objects. Objects that use it
// already keep it.
func TemplateDeletingMessage(key types.NamespacedName) string {
	return fmt.Sprintf("WorkspaceTemplate %s is being deleted and cannot be used by new objects. Refer to another template, or recreate it after the deletion", key)
}

// PermittedTemplate returns a template; nil if it does not exist, or may not be used from a namespace.
func PermittedTemplate(ctx context.Context, reader Reader, key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, error) {
	template, err := Get[*infrav1.WorkspaceTemplate](ctx, reader, key)
	if err != nil || template == nil {
		return nil, err
	}
	permitted, err := PermitsNamespace(template, namespace, func() (labels.Set, error) {
		return reader.NamespaceLabels(ctx, namespace)
	})
	if err != nil || !permitted {
		return nil, err
	}
	return template, nil
}

// ApplyInUse returns the WorkspaceTemplateApply that a control plane refers to; nil when there is none.
func ApplyInUse(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.WorkspaceTemplateApply, error) {
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	if !ref.IsDefined() {
		return nil, nil
	}
	return Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}

// Objects are typed objects of CAPT's kinds, Clusters, MachinePools and Namespaces. They are all that exists, except for Namespaces: any may exist without
// being among them, and then has only the label that every Namespace has.
type Objects []Owner

var _ Reader = Objects{}

// Files are the objects of files. A cluster may have others.
type Files struct{ Objects }

func find[T Owner](o Objects, is func(T) bool) (found T) {
	for _, object := range o {
		if object, ok := object.(T); ok && is(object) {
			return object
		}
	}
	return found
}

func list[E any, T interface {
	*E
	Owner
}](o Objects, is func(T) bool) (found []E) {
	for _, object := range o {
		if object, ok := object.(T); ok && is(object) {
			found = append(found, *object)
		}
	}
	return found
}

// Object implements Reader.
func (o Objects) Object(_ context.Context, key types.NamespacedName, kind Owner) (Owner, error) {
	return find(o, func(object Owner) bool {
		return naming.KeyOf(object) == key && reflect.TypeOf(object) == reflect.TypeOf(kind)
	}), nil
}

// ClaimantsOf implements Reader.
func (o Objects) ClaimantsOf(_ context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	return list(o, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return workspaceName != "" && apply.Spec.WorkspaceName == workspaceName
	}), nil
}

// UsersOf implements Reader.
func (o Objects) UsersOf(_ context.Context, template types.NamespacedName) (Users, error) {
	return CountUsers(list(o, func(apply *infrav1.WorkspaceTemplateApply) bool { return apply.TemplateKey() == template })), nil
}

// MachinePoolOf implements Reader.
func (o Objects) MachinePoolOf(_ context.Context, pool types.NamespacedName) (*clusterv1.MachinePool, error) {
	return find(o, func(machinePool *clusterv1.MachinePool) bool {
		return machinePool.Namespace == pool.Namespace && claim.PoolOf(machinePool) == pool.Name
	}), nil
}

// NodeGroups implements Reader.
func (o Objects) NodeGroups(ctx context.Context, cluster types.NamespacedName) ([]NodeGroup, error) {
	return NodeGroupsOf(ctx, o, list(o, func(machinePool *clusterv1.MachinePool) bool {
		return machinePool.Namespace == cluster.Namespace && machinePool.Spec.ClusterName == cluster.Name
	}))
}

// ReferrersTo implements Reader.
func (o Objects) ReferrersTo(_ context.Context, apply types.NamespacedName) (owners []Owner, err error) {
	for _, owner := range o {
		var refs []infrav1.WorkspaceTemplateApplyReference
		switch owner := owner.(type) {
		case *infrav1.CAPTCluster:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
		case *controlplanev1.CAPTControlPlane:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
			for i := range owner.Spec.FargateProfiles {
				refs = append(refs, owner.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)
			}
		case *infrav1.CAPTMachinePool:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
		}
		if owner.GetNamespace() == apply.Namespace && slices.Contains(refs, infrav1.WorkspaceTemplateApplyReference{Name: apply.Name}) {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

// ControlPlanesOfTemplate implements Reader.
func (o Objects) ControlPlanesOfTemplate(_ context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	return list(o, func(controlPlane *controlplanev1.CAPTControlPlane) bool {
		return controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace) == template
	}), nil
}

// EKSClaims implements Reader.
func (o Objects) EKSClaims(ctx context.Context, name string) ([]EKSClaim, error) {
	return EKSClaimsOf(ctx, o, list(o, func(controlPlane *controlplanev1.CAPTControlPlane) bool {
		cluster := claim.ClusterName(controlPlane)
		if referring, _ := o.ClusterOf(ctx, controlPlane); referring != nil {
			cluster = referring.Name
		}
		return claim.EKSClusterName(controlPlane, cluster) == name
	}))
}

// HasUnownedLegacy implements Reader.
func (o Objects) HasUnownedLegacy(_ context.Context, namespace string) (bool, error) {
	return find(o, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return apply.Namespace == namespace && legacy.IsUnownedLegacy(apply)
	}) != nil, nil
}

// HasUnclaimedWorkspace implements Reader. Workspaces are not written by hand.
func (o Objects) HasUnclaimedWorkspace(context.Context, string) (bool, error) { return false, nil }

// ClusterOf implements Reader.
func (o Objects) ClusterOf(_ context.Context, owner Owner) (*clusterv1.Cluster, error) {
	return find(o, func(cluster *clusterv1.Cluster) bool { return claim.RefersTo(cluster, owner) }), nil
}

// NamespaceLabels implements Reader.
func (o Objects) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	found := labels.Set{corev1.LabelMetadataName: name}
	if namespace := find(o, func(namespace *corev1.Namespace) bool { return namespace.Name == name }); namespace != nil {
		found = labels.Merge(namespace.Labels, found)
	}
	return found, nil
}
