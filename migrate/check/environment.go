// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	found, unhealthy, err := l.providerPackages(ctx)
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || err == nil && found == 0 {
		found, unhealthy, err = l.providerDeployments(ctx)
	}
	const consequence = ". The conditions of Workspaces may be old"
	switch {
	case err != nil:
		return Check{}, err
	case found == 0:
		return Check{Status: Warning, Message: providerName + " was not found" + consequence}, nil
	case len(unhealthy) > 0:
		return Check{Status: Warning, Objects: unhealthy, Message: providerName + " is not healthy" + consequence + ". Repair it first"}, nil
	}
	return Check{Status: OK, Message: providerName + " is healthy"}, nil
}

// providerPackages reads what Crossplane reports.
func (l *look) providerPackages(ctx context.Context) (found int, unhealthy []string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "ProviderList"})
	if err := l.client.List(ctx, list); err != nil {
		return 0, nil, fmt.Errorf("listing Providers of Crossplane: %w", err)
	}
	for i := range list.Items {
		image, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "package")
		repository, tag := splitImage(image)
		if !strings.HasPrefix(repository[strings.LastIndex(repository, "/")+1:], providerName) {
			continue
		}
		found++
		if healthy := condition(&list.Items[i], "Healthy"); healthy.Status != metav1.ConditionTrue {
			unhealthy = append(unhealthy, fmt.Sprintf("Provider %s (%s): %s", list.Items[i].GetName(), tag, cmp.Or(healthy.Reason, "unknown")))
		}
	}
	return found, unhealthy, nil
}

// providerDeployments looks for what runs, where Crossplane cannot be read.
func (l *look) providerDeployments(ctx context.Context) (found int, unhealthy []string, err error) {
	var deployments appsv1.DeploymentList
	if err := l.client.List(ctx, &deployments); err != nil {
		return 0, nil, fmt.Errorf("listing Deployments: %w", err)
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if !strings.HasPrefix(deployment.Name, providerName) {
			continue
		}
		found++
		if deployment.Status.AvailableReplicas == 0 {
			unhealthy = append(unhealthy, fmt.Sprintf("Deployment %s: no replica is available", client.ObjectKeyFromObject(deployment)))
		}
	}
	return found, unhealthy, nil
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
	for _, kind := range []string{"Synced", "Ready"} {
		c := condition(workspace, kind)
		switch {
		case c.Status != metav1.ConditionTrue:
			return kind + " is " + cmp.Or(string(c.Status), "unknown") + " (" + cmp.Or(c.Reason, "unknown") + ")"
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration(): // Before v1 the provider reports no generation.
			return "its last change is not applied yet"
		}
	}
	return ""
}

// condition of an object of Crossplane; the zero value if it has none of the type.
func condition(object *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		var c metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c); err == nil {
			return c
		}
	}
	return metav1.Condition{}
}
