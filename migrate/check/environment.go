// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// clusterAPI reports whether Cluster API serves the version that this version of CAPT reads.
func (l *look) clusterAPI(context.Context) (Check, error) {
	version := clusterv1.GroupVersion.String()
	if served, err := l.serves(clusterv1.GroupVersion.WithKind("Cluster")); served || err != nil {
		return Check{Status: OK, Message: "Cluster API serves " + version}, err
	}
	return Check{Status: Failed, Commands: []string{"clusterctl upgrade plan"}, Message: fmt.Sprintf("Cluster API does not serve %s. Upgrade it to v1.11 or later", version)}, nil
}

// certManager reports whether cert-manager is installed: without a certificate, objects cannot be read once the definitions are installed.
func (l *look) certManager(context.Context) (Check, error) {
	served, err := l.serves(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	if served || err != nil {
		return Check{Status: OK, Message: "cert-manager is installed"}, err
	}
	return Check{Status: Warning, Message: "cert-manager is not installed. Without a certificate for the webhooks of this version, no object of CAPT can be read. " +
		"Install cert-manager, or provide a certificate as docs/install.md says"}, nil
}

const providerName = "provider-terraform"

// provider reports whether provider-terraform is healthy, so that the state of Workspaces can be relied on. The migration requests nothing
// of it.
func (l *look) provider(ctx context.Context) (Check, error) {
	kind := terraform.ScopeCluster.GroupVersionKind()
	if served, err := l.serves(kind); err != nil || !served {
		return Check{Status: Failed, Message: fmt.Sprintf("%s does not exist: Workspaces of CAPT v0.3 cannot be read. Install %s", kind.GroupVersion(), providerName)}, err
	}
	deployments, err := l.deployments(ctx, func(deployment *appsv1.Deployment) bool {
		return strings.Contains(client.ObjectKeyFromObject(deployment).String(), providerName)
	})
	found := Check{Status: Warning, Message: providerName + " was not found. The conditions of Workspaces may be old"}
	for i := range deployments {
		name := "Deployment " + client.ObjectKeyFromObject(&deployments[i]).String()
		if deployments[i].Status.AvailableReplicas > 0 {
			return Check{Status: OK, Objects: []string{name}, Message: providerName + " runs"}, nil
		}
		found.Message = providerName + " does not run. The conditions of Workspaces may be old. Repair it first"
		found.Objects = append(found.Objects, name+": no replica is available")
	}
	return found, err
}

// workspaces reports Workspaces of WorkspaceTemplateApplies for which Terraform runs, has failed, or did not run yet.
func (l *look) workspaces(ctx context.Context) (Check, error) {
	found := Check{Status: Warning}
	names, err := l.workspaceNames(ctx)
	if err != nil {
		return found, err
	}
	total := 0
	err = migrate.Each(ctx, l.client, terraform.ScopeCluster.GroupVersionKind(), "", func(workspace *unstructured.Unstructured) error {
		if !names.Has(workspace.GetName()) {
			return nil
		}
		total++
		if why := unsettledBecause(workspace); why != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Workspace %s: %s", workspace.GetName(), why))
		}
		return nil
	})
	if meta.IsNoMatchError(err) {
		return Check{Status: OK, Message: "there are no Workspaces"}, nil
	}
	slices.Sort(found.Objects)
	found.Message = fmt.Sprintf("%d of %d Workspaces are not up to date, so that Terraform may run for them during "+
		"the migration, and not because of it. Wait until it has ended, or repair them first", len(found.Objects), total)
	return found.orOK("all %d Workspaces of WorkspaceTemplateApplies are up to date", total), err
}

// workspaceNames are those that a WorkspaceTemplateApply may refer to.
func (l *look) workspaceNames(ctx context.Context) (sets.Set[string], error) {
	names := sets.New[string]()
	kind := infrav1.GroupVersion.WithKind("WorkspaceTemplateApply").GroupKind().WithVersion(l.version)
	err := migrate.Each(ctx, l.client, kind, "", func(apply *unstructured.Unstructured) error {
		bySpec, _, _ := unstructured.NestedString(apply.Object, "spec", "workspaceName")
		byStatus, _, _ := unstructured.NestedString(apply.Object, "status", "workspaceName")
		names.Insert(naming.LegacyWorkspace(apply.GetName()), bySpec, byStatus)
		return nil
	})
	if meta.IsNoMatchError(err) && l.options.Before == Untouched { // The definitions are reported.
		return names, nil
	}
	return names, err
}

// unsettledBecause is why a Workspace is not up to date; empty if it is. It has reasons only: messages of Terraform may hold secrets.
func unsettledBecause(workspace *unstructured.Unstructured) string {
	if workspace.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	var typed terraform.WorkspaceStatus
	status, _ := workspace.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed); err != nil {
		return "its status cannot be read"
	}
	for _, kind := range []string{"Synced", "Ready"} {
		switch c := meta.FindStatusCondition(typed.Conditions, kind); {
		case c == nil:
			return kind + " is unknown"
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s is %s (%s)", kind, c.Status, c.Reason)
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration(): // Before v1 the provider reports no generation.
			return "its last change is not applied yet"
		}
	}
	return ""
}
