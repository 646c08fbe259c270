// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/validation"
)

// takeover blocks the use of a WorkspaceTemplateApply that exists already, and that a user has named, if Terraform would apply something else.
func (m *MachinePool) takeover() *Blocked {
	return blockedBy(infrav1.ReferenceConflictReason, "nothing is written: ", m.changedByTakeover())
}

// changedByTakeover returns what of a WorkspaceTemplateApply that the pool does not have yet its use would change; nil if nothing. Nothing else may block.
func (m *MachinePool) changedByTakeover() error {
	apply := m.Apply
	if apply == nil || metav1.IsControlledBy(apply, m.Pool) || m.Want().Records(apply) {
		return nil
	}
	if m.Template == nil || m.Template.Template == nil {
		return fmt.Errorf("whether the use of WorkspaceTemplateApply %s changes anything is not known before its WorkspaceTemplate exists and allows this namespace. Create it, or correct spec.workspaceTemplateRef", apply.Name)
	}
	is, errs := render.Workspace(render.Input{Apply: apply, Template: m.Template.Template, Name: apply.Spec.WorkspaceName})
	if len(errs) > 0 {
		return fmt.Errorf("WorkspaceTemplateApply %s cannot be used, because its Workspace cannot be rendered: %w. Correct its variables, or the template", apply.Name, errs.ToAggregate())
	}
	after := m.Want().Intent.AppliedTo(apply)
	would, errs := render.Workspace(render.Input{Apply: after, Template: m.Template.Template, Name: apply.Spec.WorkspaceName})
	if len(errs) > 0 {
		return fmt.Errorf("WorkspaceTemplateApply %s cannot be used with the variables of this pool: %w. Correct the variables", apply.Name, errs.ToAggregate())
	}
	if changed := changedFields(render.Differences(is.Object, would), apply, after); len(changed) > 0 {
		return fmt.Errorf("the use of WorkspaceTemplateApply %s would change what Terraform applies: %s. Give this pool, its MachinePool and the WorkspaceTemplateApply the same values; after the node group belongs to this pool, they can be changed",
			apply.Name, strings.Join(changed, ", "))
	}
	return nil
}

// changedFields names the fields that differ, those of variables by the names of the variables, and with values if CAPT sets them: others may be secrets.
func changedFields(differences []render.Difference, before, after *infrav1.WorkspaceTemplateApply) (changed []string) {
	for _, d := range differences {
		name := strings.TrimSuffix(d.Field[strings.LastIndexAny(d.Field, ".[")+1:], "]")
		switch {
		case !strings.HasPrefix(d.Field, "spec.forProvider.var"):
			changed = append(changed, d.Field)
		case slices.Contains(validation.MachinePoolVariables(), name):
			changed = append(changed, fmt.Sprintf("variable %s from %q to %q", name, before.Spec.Variables.Text(name), after.Spec.Variables.Text(name)))
		default:
			changed = append(changed, "variable "+name)
		}
	}
	return changed
}

// machinePoolFrom reads what determines the node group of a MachinePool.
func machinePoolFrom(ctx context.Context, reader validation.Reader, pool *infrav1.CAPTMachinePool, machinePool *clusterv1.MachinePool) (m *MachinePool, err error) {
	m = &MachinePool{Pool: pool, MachinePool: machinePool}
	key := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: machinePool.Namespace, Name: name}
	}
	cluster, err := validation.Get[*clusterv1.Cluster](ctx, reader, key(machinePool.Spec.ClusterName))
	if err != nil || cluster == nil || !HasCAPTControlPlane(cluster) {
		return m, err
	}
	controlPlane, err := validation.Get[*controlplanev1.CAPTControlPlane](ctx, reader, key(cluster.Spec.ControlPlaneRef.Name))
	if err != nil || controlPlane == nil {
		return m, err
	}
	var captCluster *infrav1.CAPTCluster
	if HasCAPTCluster(cluster) {
		if captCluster, err = validation.Get[*infrav1.CAPTCluster](ctx, reader, key(cluster.Spec.InfrastructureRef.Name)); err != nil {
			return m, err
		}
	}
	m.ControlPlane = NewControlPlane(controlPlane, cluster, captCluster)
	if m.ControlPlane.Apply, err = validation.ApplyInUse(ctx, reader, controlPlane); err != nil {
		return m, err
	}
	if ref := pool.Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
		if m.Apply, err = validation.Get[*infrav1.WorkspaceTemplateApply](ctx, reader, key(ref.Name)); err != nil {
			return m, err
		}
	}
	template, err := validation.PermittedTemplate(ctx, reader, pool.Spec.WorkspaceTemplateRef.Key(pool.Namespace), pool.Namespace)
	facts := Template(pool.Spec.WorkspaceTemplateRef.Key(pool.Namespace), template, nil, nil)
	m.Template = &facts
	return m, err
}

// validateTakeover checks that a pool does not change the WorkspaceTemplateApply that it is to have, as far as all that determines this exists.
func (m *MachinePool) validateTakeover(path *field.Path) (errs field.ErrorList) {
	if m.Apply == nil || m.waitingForControlPlane() != nil || m.invalidScaling() != nil || m.versionBlocked() != nil || m.Want().Mismatch(m.Pool, m.Apply) != "" {
		return nil // Reported elsewhere.
	}
	if err := m.changedByTakeover(); err != nil {
		errs = append(errs, validation.Forbidden(path, "%s", err))
	}
	return errs
}

// ValidateTakeover checks that a CAPTMachinePool does not change the WorkspaceTemplateApply that it refers to, if it does not have that yet.
func ValidateTakeover(ctx context.Context, reader validation.Reader, pool *infrav1.CAPTMachinePool) (errs field.ErrorList, err error) {
	if !pool.Spec.WorkspaceTemplateApplyRef.IsDefined() {
		return nil, nil
	}
	machinePool, err := reader.MachinePoolOf(ctx, types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name})
	if err != nil || machinePool == nil {
		return nil, err
	}
	m, err := machinePoolFrom(ctx, reader, pool, machinePool)
	return m.validateTakeover(field.NewPath("spec", "workspaceTemplateApplyRef", "name")), err
}

// ValidateMachinePool checks a MachinePool of Cluster API whose infrastructure is a CAPTMachinePool: what EKS would refuse, and what CAPT would not do.
func ValidateMachinePool(ctx context.Context, reader validation.Reader, machinePool *clusterv1.MachinePool) (errs field.ErrorList, err error) {
	name := claim.PoolOf(machinePool)
	pool, err := validation.Get[*infrav1.CAPTMachinePool](ctx, reader, types.NamespacedName{Namespace: machinePool.Namespace, Name: name})
	if err != nil || name == "" {
		return nil, err
	}
	exists := pool != nil
	if !exists {
		pool = &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: machinePool.Namespace, Name: name}}
	}
	m, err := machinePoolFrom(ctx, reader, pool, machinePool)
	if err != nil {
		return nil, err
	}
	errs = append(m.validateSize(exists), m.validateVersion()...)
	if !exists {
		return errs, nil
	}
	group := validation.NodeGroup{Pool: pool, MachinePool: machinePool, Apply: m.Apply}
	others, err := reader.NodeGroups(ctx, types.NamespacedName{Namespace: machinePool.Namespace, Name: machinePool.Spec.ClusterName})
	for _, invalid := range []error{group.InvalidName(), group.Conflict(others)} {
		if invalid != nil {
			errs = append(errs, validation.Forbidden(field.NewPath("metadata", "name"), "%s", invalid))
		}
	}
	return append(errs, m.validateTakeover(field.NewPath("spec"))...), err
}

// validateSize checks replicas and the annotations for autoscalers. Before the CAPTMachinePool exists, its limits are not known.
func (m *MachinePool) validateSize(exists bool) field.ErrorList {
	size, err := m.Size()
	switch {
	case err != nil && (exists || ManagesReplicas(m.MachinePool)):
		return field.ErrorList{validation.Forbidden(field.NewPath("metadata", "annotations"), "%s", err)}
	case err == nil && exists && size.OutOfBounds != "":
		return field.ErrorList{validation.Forbidden(field.NewPath("spec", "replicas"), "%s", size.OutOfBounds)}
	}
	return nil
}

func (m *MachinePool) validateVersion() field.ErrorList {
	path, text := field.NewPath("spec", "template", "spec", "version"), m.MachinePool.Spec.Template.Spec.Version
	if text == "" {
		return nil
	}
	version, err := validation.ParseKubernetesVersion(text)
	if err != nil {
		return field.ErrorList{validation.Invalid(path, "%s", err)}
	}
	if m.ControlPlane == nil {
		return nil
	}
	if err := validation.ValidateNodeVersion(version.EKS, m.ControlPlane.ControlPlane.Spec.Version); err != nil {
		return field.ErrorList{validation.Forbidden(path, "%s", err)}
	}
	return nil
}
