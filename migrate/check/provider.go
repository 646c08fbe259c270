/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

const providerName = "provider-terraform"

// provider looks for provider-terraform with the kind of Workspaces that the older CAPT made. Whether it runs does not matter
// to the migration, which asks nothing of it; but what it is about to do would look like the work of the migration.
func (l *look) provider(ctx context.Context) (Check, error) {
	kind := terraform.ScopeCluster.GroupVersionKind()
	name := "workspaces." + kind.Group
	var definition apiextensionsv1.CustomResourceDefinition
	err := l.client.Get(ctx, client.ObjectKey{Name: name}, &definition)
	switch {
	case apierrors.IsNotFound(err):
		return Check{Status: Failed, Message: fmt.Sprintf("%s is not installed: there can be no Workspaces of the older CAPT; install provider-terraform", name)}, nil
	case err != nil:
		return Check{}, err
	}
	if served := version(&definition, kind.Version); served == nil || !served.Served || definition.DeletionTimestamp != nil {
		return Check{Status: Failed, Message: fmt.Sprintf("%s does not serve %s, or is being deleted", name, kind.Version)}, nil
	}
	found, unhealthy, err := l.providers(ctx)
	switch {
	case err != nil:
		return Check{}, err
	case found == 0:
		return Check{Status: Warning, Message: providerName + " was not found; what its Workspaces show may be old"}, nil
	case len(unhealthy) > 0:
		return Check{Status: Warning, Objects: unhealthy, Message: providerName + " is not healthy; what its Workspaces show may be old"}, nil
	}
	return Check{Status: OK, Message: providerName + " is healthy"}, nil
}

// providers asks Crossplane and, where it knows nothing or is not to be asked, looks for a Deployment.
func (l *look) providers(ctx context.Context) (found int, unhealthy []string, err error) {
	found, unhealthy, err = l.providerPackages(ctx)
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) || err == nil && found == 0 {
		return l.providerDeployments(ctx)
	}
	return found, unhealthy, err
}

// providerPackages asks Crossplane.
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
			unhealthy = append(unhealthy, fmt.Sprintf("Provider %s (%s): %s", list.Items[i].GetName(), tag, orUnknown(healthy.Reason)))
		}
	}
	return found, unhealthy, nil
}

// providerDeployments looks for what runs, where Crossplane can not be asked.
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

// workspaces lists those that are meant by a WorkspaceTemplateApply and at which Terraform works, has failed, or has yet to look.
func (l *look) workspaces(ctx context.Context) (Check, error) {
	meant := map[string]bool{}
	err := l.pages(ctx, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), func(apply *unstructured.Unstructured) {
		meant[naming.LegacyWorkspace(apply.GetName())] = true
		for _, path := range [][]string{{"spec", "workspaceName"}, {"status", "workspaceName"}} {
			if name, _, _ := unstructured.NestedString(apply.Object, path...); name != "" {
				meant[name] = true
			}
		}
	})
	if err != nil {
		return Check{}, err
	}
	total := 0
	var unsettled []string
	err = l.pages(ctx, terraform.ScopeCluster.GroupVersionKind(), func(workspace *unstructured.Unstructured) {
		if !meant[workspace.GetName()] {
			return
		}
		total++
		if why := unsettledBecause(workspace); why != "" {
			unsettled = append(unsettled, fmt.Sprintf("Workspace %s: %s", workspace.GetName(), why))
		}
	})
	switch {
	case meta.IsNoMatchError(err):
		return Check{Status: OK, Message: "there are no Workspaces"}, nil
	case err != nil:
		return Check{}, err
	case len(unsettled) > 0:
		slices.Sort(unsettled)
		return Check{Status: Warning, Objects: unsettled, Message: fmt.Sprintf(
			"%d of %d Workspaces are not up to date: Terraform may run for them during the migration, which is not its doing; better wait, or repair them first", len(unsettled), total)}, nil
	}
	return Check{Status: OK, Message: fmt.Sprintf("all %d Workspaces of WorkspaceTemplateApplies are up to date", total)}, nil
}

func (l *look) pages(ctx context.Context, kind schema.GroupVersionKind, take func(*unstructured.Unstructured)) error {
	return migrate.Each(ctx, l.client, kind, "", func(object *unstructured.Unstructured) error {
		take(object)
		return nil
	})
}

// unsettledBecause says why a Workspace is not up to date; empty if it is. It quotes reasons only: messages of Terraform may
// hold secrets.
func unsettledBecause(workspace *unstructured.Unstructured) string {
	if workspace.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	for _, kind := range []string{"Synced", "Ready"} {
		c := condition(workspace, kind)
		switch {
		case c.Status != metav1.ConditionTrue:
			return kind + " is " + orUnknown(string(c.Status)) + " (" + orUnknown(c.Reason) + ")"
		// Before v1 the provider does not say which generation it means.
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration():
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

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
