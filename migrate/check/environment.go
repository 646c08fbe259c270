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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// clusterAPI reports whether Cluster API serves the version that this version of CAPT reads.
func (l *look) clusterAPI(context.Context) (Check, error) {
	kind := clusterv1.GroupVersion.WithKind("Cluster")
	for _, version := range []string{kind.Version, migrate.LegacyVersion} {
		served, err := l.serves(kind.GroupKind().WithVersion(version))
		switch {
		case err != nil:
			return Check{}, err
		case served && version == kind.Version:
			return Check{Status: OK, Message: "Cluster API serves " + clusterv1.GroupVersion.String()}, nil
		case served:
			return Check{Status: Failed, Commands: []string{"clusterctl upgrade plan"}, Message: fmt.Sprintf(
				"Cluster API does not serve %s. Upgrade it to v1.11 or later", clusterv1.GroupVersion)}, nil
		}
	}
	return Check{Status: Failed, Message: "Cluster API is not installed. CAPT requires v1.11 or later"}, nil
}

// certManager reports whether cert-manager is installed: without a certificate, objects cannot be read once the definitions are installed.
func (l *look) certManager(context.Context) (Check, error) {
	served, err := l.serves(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	switch {
	case err != nil:
		return Check{}, err
	case !served:
		return Check{Status: Warning, Message: "cert-manager is not installed. The webhooks of this version need a certificate, or its objects cannot be read. Install cert-manager, or configure a certificate as docs/install.md says"}, nil
	}
	return Check{Status: OK, Message: "cert-manager is installed"}, nil
}

const providerName = "provider-terraform"

// provider reports whether provider-terraform is healthy, so that the state of Workspaces can be relied on. The migration requests nothing
// of it.
func (l *look) provider(ctx context.Context) (Check, error) {
	kind := terraform.ScopeCluster.GroupVersionKind()
	if served, err := l.serves(kind); err != nil || !served {
		return Check{Status: Failed, Message: fmt.Sprintf("%s does not exist: Workspaces of CAPT v0.3 cannot be read. Install %s", kind.GroupVersion(), providerName)}, err
	}
	var deployments appsv1.DeploymentList
	if err := l.client.List(ctx, &deployments); err != nil {
		return Check{}, err
	}
	found := Check{Status: Warning, Message: providerName + " was not found. The conditions of Workspaces may be old"}
	for i := range deployments.Items {
		switch name := client.ObjectKeyFromObject(&deployments.Items[i]).String(); {
		case !strings.Contains(name, providerName):
		case deployments.Items[i].Status.AvailableReplicas > 0:
			return Check{Status: OK, Objects: []string{"Deployment " + name}, Message: providerName + " runs"}, nil
		default:
			found.Message = providerName + " does not run. The conditions of Workspaces may be old. Repair it first"
			found.Objects = append(found.Objects, "Deployment "+name+": no replica is available")
		}
	}
	return found, nil
}

// workspaces reports Workspaces of WorkspaceTemplateApplies for which Terraform runs, has failed, or did not run yet.
func (l *look) workspaces(ctx context.Context) (Check, error) {
	names, err := l.workspaceNames(ctx)
	if err != nil {
		return Check{}, err
	}
	total := 0
	var unsettled []string
	err = migrate.Each(ctx, l.client, terraform.ScopeCluster.GroupVersionKind(), "", func(workspace *unstructured.Unstructured) error {
		if !names[workspace.GetName()] {
			return nil
		}
		total++
		if why := unsettledBecause(workspace); why != "" {
			unsettled = append(unsettled, fmt.Sprintf("Workspace %s: %s", workspace.GetName(), why))
		}
		return nil
	})
	switch {
	case meta.IsNoMatchError(err):
		return Check{Status: OK, Message: "there are no Workspaces"}, nil
	case err != nil:
		return Check{}, err
	case len(unsettled) > 0:
		slices.Sort(unsettled)
		return Check{Status: Warning, Objects: unsettled, Message: fmt.Sprintf("%d of %d Workspaces are not up to date, so that Terraform may run for them during "+
			"the migration, and not because of it. Wait until it has ended, or repair them first", len(unsettled), total)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("all %d Workspaces of WorkspaceTemplateApplies are up to date", total)}, nil
}

// workspaceNames are those that a WorkspaceTemplateApply may refer to.
func (l *look) workspaceNames(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	kind := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: l.version, Kind: "WorkspaceTemplateApply"}
	err := migrate.Each(ctx, l.client, kind, "", func(apply *unstructured.Unstructured) error {
		names[naming.LegacyWorkspace(apply.GetName())] = true
		for _, path := range [][]string{{"spec", "workspaceName"}, {"status", "workspaceName"}} {
			if name, _, _ := unstructured.NestedString(apply.Object, path...); name != "" {
				names[name] = true
			}
		}
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
