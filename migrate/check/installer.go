// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installer is the tool that installed an object: it restores what is changed, and deletes the object when it is uninstalled.
type installer struct {
	// name of the tool and of its object, as far as they are known.
	name string
	// suspend are commands that keep the tool from restoring what it installed. Helm does nothing by itself.
	suspend []string
	// keepKey and keepValue are the annotation with which the tool does not delete an object. Helm reads it in its own copy of the manifest
	// only.
	keepKey, keepValue string
}

// installerOf returns what installed an object; the zero value if that is not known.
func installerOf(object metav1.Object) installer {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, flux := range []struct{ kind, group, keepKey, keepValue string }{
		{"Kustomization", "kustomize.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io/prune", "disabled"},
		{"HelmRelease", "helm.toolkit.fluxcd.io", "", ""},
	} {
		if name, namespace := labels[flux.group+"/name"], labels[flux.group+"/namespace"]; name != "" {
			suspend := fmt.Sprintf("flux suspend %s %s -n %s", strings.ToLower(flux.kind), name, namespace)
			return installer{"Flux " + flux.kind + " " + path.Join(namespace, name), []string{suspend}, flux.keepKey, flux.keepValue}
		}
	}
	argoCD := installer{keepKey: "argocd.argoproj.io/sync-options", keepValue: "Prune=false,Delete=false"}
	// The tracking ID is application:group/kind:namespace/name.
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if name := cmp.Or(application, labels["argocd.argoproj.io/instance"], annotations["argocd.argoproj.io/instance"]); name != "" {
		argoCD.name, argoCD.suspend = "Argo CD Application "+name, []string{"argocd app set " + name + " --sync-policy none"}
		return argoCD
	}
	if name := annotations["meta.helm.sh/release-name"]; name != "" {
		return installer{name: "Helm release " + path.Join(annotations["meta.helm.sh/release-namespace"], name)}
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		return installer{name: owner.Kind + " " + path.Join(object.GetNamespace(), owner.Name)}
	}
	if instance := labels["app.kubernetes.io/instance"]; instance != "" {
		argoCD.name = "Argo CD or Helm, as " + instance
		return argoCD
	}
	if labels["app.kubernetes.io/managed-by"] == "Helm" {
		return installer{name: "Helm"}
	}
	return installer{}
}

// installers reports tools that would delete the definitions, and with them every object and all that Terraform created, when CAPT v0.3 is
// uninstalled.
func (l *look) installers(ctx context.Context) (Check, error) {
	found := Check{Status: Warning, Message: "a tool installed these. Uninstalling what it installed can delete the definitions, every object of CAPT, and what " +
		"Terraform created. Remove CAPT v0.3 as docs/migration.md says, never with helm uninstall or by pruning"}
	installed, err := l.installed(ctx)
	if err != nil {
		return found, err
	}
	var keep []string
	for _, name := range slices.Sorted(maps.Keys(installed)) {
		by := installerOf(installed[name])
		if by.name == "" || by.keepKey != "" && installed[name].Annotations[by.keepKey] == by.keepValue {
			continue
		}
		found.Objects = append(found.Objects, fmt.Sprintf("CustomResourceDefinition %s: %s", name, by.name))
		found.Commands = append(found.Commands, by.suspend...) // A tool that is not suspended removes the annotation.
		if by.keepKey != "" {
			keep = append(keep, fmt.Sprintf("kubectl annotate --overwrite crd %s %s=%s", name, by.keepKey, by.keepValue))
		}
	}
	deployments, err := l.deployments(ctx, isLegacy)
	for i := range deployments {
		if by := installerOf(&deployments[i]); by.name != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(&deployments[i]), by.name))
			found.Commands = append(found.Commands, by.suspend...)
		}
	}
	found.Commands = append(unique(found.Commands), keep...)
	return found.orOK("no definition of CAPT and no Deployment of CAPT v0.3 is known to be installed by Helm, Flux or Argo CD"), err
}
