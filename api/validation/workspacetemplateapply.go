// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// WorkspaceName returns the name of the Workspace of a WorkspaceTemplateApply: spec.workspaceName, or the name of the naming scheme, which
// depends on the scope of the template. It is empty if spec has no name and template is nil.
func WorkspaceName(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) string {
	if apply.Spec.WorkspaceName != "" || template == nil || apply.Name == "" {
		return apply.Spec.WorkspaceName
	}
	return naming.Workspace(template.Spec.WorkspaceScope, naming.KeyOf(apply))
}

// IsStateUnknown reports whether the name of the Terraform state for spec.workspaceName is unknown. This is the case if the naming scheme
// gives another name, so that the field may name an adopted Workspace, whose state can have any name; and if status, which users cannot
// write, records no Workspace.
func IsStateUnknown(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) bool {
	return apply.Spec.WorkspaceName != "" && apply.Spec.TerraformState.Name == "" && apply.Status.WorkspaceRef == nil && template != nil && apply.Name != "" &&
		apply.Spec.WorkspaceName != naming.Workspace(template.Spec.WorkspaceScope, naming.KeyOf(apply))
}

// ValidateNewWorkspaceName warns about a new WorkspaceTemplateApply whose spec.workspaceName cannot be the name of a new Workspace. It is
// only a warning, because the Workspace may exist, or be restored after the object.
func ValidateNewWorkspaceName(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply) (findings Findings, err error) {
	template, err := PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	if IsStateUnknown(apply, template) {
		findings.Warn(field.NewPath("spec", "workspaceName"),
			"no Workspace is created with this name: only an existing Workspace can be adopted. For a new Workspace, remove the field")
	}
	return findings, err
}

// ValidateWorkspaceTemplateApply checks a WorkspaceTemplateApply, on creation and on update.
func ValidateWorkspaceTemplateApply(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply) (findings Findings, err error) {
	spec := field.NewPath("spec")
	variables := spec.Child("variables")
	findings.Refuse(validateAppliedVariableNames(apply.Spec.Variables, variables)...)
	findings.Add(validateNamespaces(apply, spec))
	if name := apply.Spec.WorkspaceName; name != "" && len(utilvalidation.IsDNS1123Subdomain(name)) > 0 {
		findings.Refuse(field.Invalid(spec.Child("workspaceName"), name,
			`is not a valid Workspace name (RFC 1123). Use lower-case letters, digits, "-" and ".", and begin and end with a letter or digit`))
	}
	template, found, err := TemplateReference(ctx, reader, apply.Spec.TemplateRef, apply.Namespace, spec.Child("templateRef"))
	if err != nil {
		return findings, err
	}
	findings.Add(found)
	if template != nil {
		findings.Add(validateVariableValues(template, apply.Spec.Variables.Texts(), variables.Key))
		// Controllers set all their variables for every template, so unused ones are normal.
		if metav1.GetControllerOf(apply) == nil && !claim.AwaitsOwner(apply) {
			findings.Add(checkPlaceholders(template, apply.Spec.Variables.Texts(), variables))
			findings.Add(checkPassed(template, variablesOf{given: apply.Spec.Variables, path: variables}))
			unknown, unused := FieldsWithoutEffect(template, variableFields(apply.Spec.Variables, variables, IsSetByCAPT)) // A new owner gives these to every template.
			findings.Refuse(unknown...)
			findings.AddWarnings(unused)
		}
	}
	err = cmp.Or(
		findings.include(warnOfRetainConflict(ctx, reader, apply, spec)),
		findings.include(validateClaim(ctx, reader, apply, template)),
		findings.include(validateDependencies(ctx, reader, apply, template)))
	return findings, err
}

// validateWorkspaceTemplateApplyUpdate checks what an update of a WorkspaceTemplateApply changes.
func validateWorkspaceTemplateApplyUpdate(ctx context.Context, reader Reader, old, apply *infrav1.WorkspaceTemplateApply) (field.ErrorList, error) {
	errs := validateIdentityUpdate(old, apply)
	moved, err := validateScopeUpdate(ctx, reader, old, apply)
	return append(errs, moved...), err
}

// validateIdentityUpdate rejects changes of identity variables when a Workspace may exist. Before that, users can correct them, and the
// owner keeps the value.
func validateIdentityUpdate(old, apply *infrav1.WorkspaceTemplateApply) field.ErrorList {
	workspace := RecordedWorkspace(old)
	if workspace == "" {
		return nil
	}
	var errs field.ErrorList
	identities := naming.IdentityVariables()
	if owner := metav1.GetControllerOf(old); owner != nil && owner.Kind == "CAPTMachinePool" {
		identities = append(identities, naming.NodeGroupVariable)
	}
	for _, identity := range identities {
		if before := old.Spec.Variables.Text(identity); before != "" && apply.Spec.Variables.Text(identity) != before {
			errs = append(errs, Forbidden(field.NewPath("spec", "variables").Key(identity),
				"cannot be changed or removed: Terraform would destroy the cloud resources of Workspace %s and create others. Restore the value. For another cluster, VPC or node group, create another WorkspaceTemplateApply",
				workspace))
		}
	}
	return errs
}

// validateScopeUpdate rejects a template whose scope is not the scope of the recorded Workspace.
func validateScopeUpdate(ctx context.Context, reader Reader, old, apply *infrav1.WorkspaceTemplateApply) (field.ErrorList, error) {
	scope, recorded := old.Status.WorkspaceRef.Scope()
	if !recorded || old.TemplateKey() == apply.TemplateKey() {
		return nil, nil
	}
	template, err := PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	if err != nil || template == nil || template.Spec.WorkspaceScope.OrDefault() == scope {
		return nil, err
	}
	return field.ErrorList{Forbidden(field.NewPath("spec", "templateRef"),
		"Workspace %s has scope %s, but WorkspaceTemplate %s has scope %s, and a Workspace cannot move to another scope. Refer to a template with scope %s, create another WorkspaceTemplateApply, or move the Cluster with captctl evacuate",
		old.Status.WorkspaceRef.Name, scope, apply.TemplateKey(), template.Spec.WorkspaceScope.OrDefault(), scope)}, nil
}

// validateNamespaces rejects references to Secrets of other namespaces. The connection Secret of a helper of CAPT v0.3 may be in another
// namespace, because it must be possible to restore and to move existing clusters; rendering then permits only the Secret that the
// Workspace already writes.
func validateNamespaces(apply *infrav1.WorkspaceTemplateApply, spec *field.Path) (findings Findings) {
	check := func(namespace string, path *field.Path) {
		if namespace != "" && namespace != apply.Namespace {
			findings.Refuse(Forbidden(path.Child("namespace"), "must be %q, the namespace of the WorkspaceTemplateApply. Remove the field", apply.Namespace))
		}
	}
	switch ref := apply.Spec.WriteConnectionSecretToRef; {
	case ref == nil:
	case ref.Namespace != "" && ref.Namespace != apply.Namespace && legacy.HelperRole(apply) != "":
		findings.Warn(spec.Child("writeConnectionSecretToRef", "namespace"), "is not %q, the namespace of the WorkspaceTemplateApply: works only if its Workspace, which CAPT v0.3 created, already writes this Secret", apply.Namespace)
	default:
		check(ref.Namespace, spec.Child("writeConnectionSecretToRef"))
	}
	for i := range apply.Spec.WaitForSecrets {
		check(apply.Spec.WaitForSecrets[i].Namespace, spec.Child("waitForSecrets").Index(i))
	}
	return findings
}

// RecordedWorkspace returns the name of the Workspace that status records, or that CAPT v0.3 created without recording it; empty when
// there is none.
func RecordedWorkspace(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(claim.RecordedWorkspace(apply).Name, legacy.UnadoptedWorkspace(apply))
}

// validateClaim checks that no other WorkspaceTemplateApply has the same Workspace: in the namespace, and for cluster-scoped Workspaces in
// all namespaces. Errors do not name an object of another namespace, which the user may not be allowed to read.
func validateClaim(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (findings Findings, err error) {
	name := WorkspaceName(apply, template)
	if name == "" {
		return findings, nil
	}
	claimants, err := claimantsOf(ctx, reader, apply, name)
	if err != nil {
		return findings, err
	}
	path := field.NewPath("spec", "workspaceName")
	for i := range claimants {
		if other := &claimants[i]; other.Namespace == apply.Namespace && other.Name != apply.Name {
			findings.Refuse(field.Invalid(path, name, claimConflict(apply, other, name)))
			return findings, nil
		}
	}
	if scope, known := scopeOf(apply, template); !known || scope != terraform.ScopeCluster {
		return findings, nil
	}
	for i := range claimants {
		if claimants[i].Namespace == apply.Namespace {
			continue
		}
		if clusterWide, err := hasClusterScope(ctx, reader, &claimants[i]); err != nil {
			return findings, err
		} else if clusterWide {
			findings.Refuse(field.Invalid(path, name, "a WorkspaceTemplateApply of another namespace owns this cluster-scoped Workspace. Choose another name"))
			return findings, nil
		}
	}
	return findings, nil
}

// claimantsOf lists the WorkspaceTemplateApplies whose Workspace has a given name, sorted by name: webhooks recognize an error that existed
// before an update by its text, so the text must not depend on the order of the list.
func claimantsOf(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	claimants, err := reader.ClaimantsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	implicit, err := implicitClaimant(ctx, reader, apply, name)
	if err != nil {
		return nil, err
	}
	claimants = append(claimants, implicit...)
	slices.SortFunc(claimants, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
	return claimants, nil
}

// claimConflict returns the message that two WorkspaceTemplateApplies of a namespace have the same Workspace, with what to do next.
func claimConflict(apply, other *infrav1.WorkspaceTemplateApply, name string) string {
	byScheme := func(apply *infrav1.WorkspaceTemplateApply) string {
		return naming.Workspace(terraform.ScopeNamespaced, naming.KeyOf(apply))
	}
	if byScheme(apply) == name && byScheme(other) == name {
		return "WorkspaceTemplateApply " + other.Name + ` owns this Workspace: the Workspace name is the name of the WorkspaceTemplateApply without "-apply", which is the same for both. Rename the WorkspaceTemplateApply`
	}
	return "WorkspaceTemplateApply " + other.Name + " owns this Workspace. Remove spec.workspaceName, or rename the WorkspaceTemplateApply"
}

// implicitClaimant finds the WorkspaceTemplateApply whose Workspace gets the same name by the naming scheme, and whose spec.workspaceName
// is still empty because it was created before its template.
func implicitClaimant(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	key := types.NamespacedName{Namespace: apply.Namespace, Name: naming.ApplyWithSameWorkspace(apply.Name)}
	other, err := Get[*infrav1.WorkspaceTemplateApply](ctx, reader, key)
	if err != nil || other == nil || other.Spec.WorkspaceName != "" {
		return nil, err
	}
	template, err := PermittedTemplate(ctx, reader, other.TemplateKey(), other.Namespace)
	if err != nil || template == nil || WorkspaceName(other, template) != name {
		return nil, err
	}
	return []infrav1.WorkspaceTemplateApply{*other}, nil
}

// scopeOf returns the scope of the recorded Workspace, or the scope of the template; false if neither is known.
func scopeOf(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (terraform.Scope, bool) {
	if scope, ok := apply.Status.WorkspaceRef.Scope(); ok {
		return scope, true
	}
	if template == nil {
		return "", false
	}
	return template.Spec.WorkspaceScope.OrDefault(), true
}

// hasClusterScope reports whether the Workspace of a WorkspaceTemplateApply is, or will be, cluster-scoped. It returns false if that is
// unknown.
func hasClusterScope(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	if scope, ok := apply.Status.WorkspaceRef.Scope(); ok {
		return scope == terraform.ScopeCluster, nil
	}
	template, err := PermittedTemplate(ctx, reader, apply.TemplateKey(), apply.Namespace)
	return template != nil && template.Spec.WorkspaceScope == terraform.ScopeCluster, err
}

// maxWaiters is the maximum number of WorkspaceTemplateApplies that the search for a cycle visits. Real chains have two or three. A longer
// cycle is admitted, but causes no damage: its objects report that they wait for each other, and nothing is created.
const maxWaiters = 500

// validateDependencies checks spec.waitForWorkspaces: a WorkspaceTemplateApply must not depend on itself, neither directly nor through
// others.
func validateDependencies(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (findings Findings, err error) {
	path := dependenciesPath()
	name := WorkspaceName(apply, template)
	if name == "" && apply.Name != "" {
		name = naming.Workspace(terraform.ScopeNamespaced, naming.KeyOf(apply)) // The template is unknown: most templates are namespaced.
	}
	if name == "" || len(apply.Spec.WaitForWorkspaces) == 0 {
		return findings, nil
	}
	for i, dependency := range apply.Spec.WaitForWorkspaces {
		if dependency.Name == name && apply.DependencyKey(dependency).Namespace == apply.Namespace {
			findings.Refuse(Invalid(path.Index(i), "Workspace %s cannot depend on itself. Remove it from the list", name))
		}
	}
	cycle, err := cycleThrough(ctx, reader, apply, name)
	if err != nil || cycle == nil {
		return findings, err
	}
	names := graph.Path(cycle, graph.Name(apply.Namespace, func(key graph.Key) string { return key.Name }))
	findings.Refuse(Invalid(cycle[0].Field, "WorkspaceTemplateApplies cannot depend on each other: %s. Remove one of these dependencies", names))
	return findings, nil
}

func dependenciesPath() *field.Path { return field.NewPath("spec", "waitForWorkspaces") }

// cycleThrough returns the shortest cycle through a WorkspaceTemplateApply; nil when there is none. name is the name of its Workspace. The
// object in the request replaces the stored version of that object.
func cycleThrough(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]graph.Edge, error) {
	g, search := graph.New(), claimants{reader: reader, checked: apply, name: name, found: map[string][]infrav1.WorkspaceTemplateApply{}}
	waiters, known := []*infrav1.WorkspaceTemplateApply{apply}, sets.New(naming.KeyOf(apply))
	for i := 0; i < len(waiters); i++ {
		for j, dependency := range waiters[i].Spec.WaitForWorkspaces {
			found, err := search.of(ctx, waiters[i].DependencyKey(dependency))
			if err != nil {
				return nil, err
			}
			for _, claimant := range found {
				if key := naming.KeyOf(claimant); !known.Has(key) {
					if len(waiters) == maxWaiters {
						continue
					}
					known.Insert(key)
					waiters = append(waiters, claimant)
				}
				g.AddEdge(graph.Edge{From: graph.NodeOf(waiters[i]).Key, To: graph.NodeOf(claimant).Key, Field: dependenciesPath().Index(j)})
			}
		}
	}
	return g.CycleThrough(graph.NodeOf(apply).Key), nil
}

// claimants finds WorkspaceTemplateApplies by the names of their Workspaces, each once.
type claimants struct {
	reader  Reader
	checked *infrav1.WorkspaceTemplateApply
	// name is the name of the Workspace of checked.
	name  string
	found map[string][]infrav1.WorkspaceTemplateApply
}

// of finds the WorkspaceTemplateApplies of a namespace whose Workspace has a given name.
func (c *claimants) of(ctx context.Context, workspace types.NamespacedName) (found []*infrav1.WorkspaceTemplateApply, err error) {
	all, known := c.found[workspace.Name]
	if !known {
		if all, err = c.reader.ClaimantsOf(ctx, workspace.Name); err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
		c.found[workspace.Name] = all
	}
	if workspace.Name == c.name && workspace.Namespace == c.checked.Namespace {
		found = append(found, c.checked)
	}
	for i := range all {
		if all[i].Namespace == workspace.Namespace && naming.KeyOf(&all[i]) != naming.KeyOf(c.checked) {
			found = append(found, &all[i])
		}
	}
	return found, nil
}

// RetainConflict returns, as a message for users, why a WorkspaceTemplateApply with deletionPolicy Retain must not be deleted yet; empty
// when there is no conflict. There is one if the retained cloud resources depend on resources that the deletion of another
// WorkspaceTemplateApply destroys. The other one need not be in deletion: after the deletion of this one, its own deletion would no longer
// be delayed.
//
// Helpers of CAPT v0.3 have no conflict: they are retained because they cannot be rendered, or because the whole AWS account uses their
// resources.
func RetainConflict(apply *infrav1.WorkspaceTemplateApply, others []infrav1.WorkspaceTemplateApply) string {
	if apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain || apply.Status.WorkspaceRef == nil || legacy.HelperRole(apply) != "" {
		return ""
	}
	allowed := strings.Split(apply.Annotations[naming.AllowReleaseFromAnnotation], ",")
	var names, remedies []string
	for _, other := range destroyedDependencies(apply, others) {
		if !slices.Contains(allowed, other.Name) {
			names, remedies = append(names, other.Name), append(remedies, deletionPolicyField(other))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.deletionPolicy of WorkspaceTemplateApply %[1]s is Retain, but the deletion of WorkspaceTemplateApply %[2]s destroys resources that it depends on. "+
		"Set %[3]s to Retain, or spec.deletionPolicy of WorkspaceTemplateApply %[1]s to Delete. To release only %[1]s, set its annotation %[4]s to %[5]s",
		apply.Name, strings.Join(names, ", "), strings.Join(remedies, " and "), naming.AllowReleaseFromAnnotation, strings.Join(names, ","))
}

// warnOfRetainConflict warns of a deletion policy that would block the deletion of the object.
func warnOfRetainConflict(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply, spec *field.Path) (findings Findings, err error) {
	if apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
		return findings, nil
	}
	var others []infrav1.WorkspaceTemplateApply
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		claimants, err := reader.ClaimantsOf(ctx, dependency.Name)
		if err != nil {
			return findings, err
		}
		others = append(others, claimants...)
	}
	if conflict := RetainConflict(apply, others); conflict != "" {
		findings.Warn(spec.Child("deletionPolicy"), "the deletion will be blocked: %s", conflict)
	}
	return findings, nil
}

// destroyedDependencies returns the WorkspaceTemplateApplies of the namespace that a given one waits for and whose deletion destroys their
// cloud resources, sorted by name.
func destroyedDependencies(apply *infrav1.WorkspaceTemplateApply, others []infrav1.WorkspaceTemplateApply) (found []*infrav1.WorkspaceTemplateApply) {
	for i := range others {
		other := &others[i]
		if other.Namespace == apply.Namespace && other.Name != apply.Name && other.Status.WorkspaceRef != nil &&
			other.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain && waitsFor(apply, other) {
			found = append(found, other)
		}
	}
	slices.SortFunc(found, func(a, b *infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func waitsFor(apply, other *infrav1.WorkspaceTemplateApply) bool {
	return other.Spec.WorkspaceName != "" && slices.ContainsFunc(apply.Spec.WaitForWorkspaces, func(dependency infrav1.WorkspaceDependency) bool {
		return dependency.Name == other.Spec.WorkspaceName && apply.DependencyKey(dependency).Namespace == other.Namespace
	})
}

// deletionPolicyField returns the field that sets the deletion policy, for messages. For a VPC it is in the CAPTCluster, which writes the
// WorkspaceTemplateApply.
func deletionPolicyField(apply *infrav1.WorkspaceTemplateApply) string {
	if controller := metav1.GetControllerOf(apply); controller != nil && controller.Kind == "CAPTCluster" {
		return "spec.vpc.template.deletionPolicy of CAPTCluster " + controller.Name
	}
	return "spec.deletionPolicy of WorkspaceTemplateApply " + apply.Name
}
