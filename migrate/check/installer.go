// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// legacyDefinitionNames are those of kinds that only CAPT v0.3 has. Their objects own WorkspaceTemplateApplies, too.
var legacyDefinitionNames = []string{
	"captmachines.infrastructure.cluster.x-k8s.io", "captmachinesets.infrastructure.cluster.x-k8s.io",
	"captmachinedeployments.infrastructure.cluster.x-k8s.io", "captmachinetemplates.infrastructure.cluster.x-k8s.io",
}

// installer is the tool that installed an object: it restores what is changed, and deletes the object when it is uninstalled.
type installer struct {
	// tool and kind of its object; kind is empty if the object is not known.
	tool, kind      string
	namespace, name string
}

func (i installer) String() string {
	return strings.Join(strings.Fields(i.tool+" "+i.kind+" "+path.Join(i.namespace, i.name)), " ")
}

const (
	flux   = "Flux"
	argoCD = "Argo CD"
	helm   = "Helm"
)

// installerOf returns what installed an object; the zero value if that is not known.
func installerOf(object metav1.Object) installer {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, f := range []struct{ kind, group string }{{"Kustomization", "kustomize.toolkit.fluxcd.io"}, {"HelmRelease", "helm.toolkit.fluxcd.io"}} {
		if name := labels[f.group+"/name"]; name != "" {
			return installer{flux, f.kind, labels[f.group+"/namespace"], name}
		}
	}
	// The tracking ID is application:group/kind:namespace/name.
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	for _, name := range []string{application, labels["argocd.argoproj.io/instance"], annotations["argocd.argoproj.io/instance"]} {
		if name != "" {
			return installer{tool: argoCD, kind: "Application", name: name}
		}
	}
	if name := annotations["meta.helm.sh/release-name"]; name != "" {
		return installer{helm, "release", annotations["meta.helm.sh/release-namespace"], name}
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		return installer{tool: owner.Kind, name: owner.Name, namespace: object.GetNamespace()}
	}
	if instance := labels["app.kubernetes.io/instance"]; instance != "" {
		return installer{tool: argoCD + " or Helm, as " + instance}
	}
	if labels["app.kubernetes.io/managed-by"] == helm {
		return installer{tool: helm}
	}
	return installer{}
}

// suspend are commands that keep the tool from restoring what it installed. Helm does nothing by itself.
func (i installer) suspend() []string {
	switch {
	case i.tool == flux && i.kind != "":
		return []string{fmt.Sprintf("flux suspend %s %s -n %s", strings.ToLower(i.kind), i.name, i.namespace)}
	case i.tool == argoCD && i.kind != "":
		return []string{fmt.Sprintf("argocd app set %s --sync-policy none", i.name)}
	}
	return nil
}

// keep returns the annotation with which the tool does not delete an object. Helm reads it in its own copy of the manifest only.
func (i installer) keep() (key, value string) {
	switch {
	case i.tool == flux && i.kind == "Kustomization":
		return "kustomize.toolkit.fluxcd.io/prune", "disabled"
	case strings.HasPrefix(i.tool, argoCD):
		return "argocd.argoproj.io/sync-options", "Prune=false,Delete=false"
	}
	return "", ""
}

// installers reports tools that would delete the definitions, and with them every object and all that Terraform created, when CAPT v0.3 is
// uninstalled.
func (l *look) installers(ctx context.Context) (Check, error) {
	names := slices.Clone(legacyDefinitionNames)
	for _, kind := range migrate.Kinds() {
		names = append(names, kind.Definition())
	}
	found := Check{Status: Warning, Message: "a tool installed these. Uninstalling what it installed can delete the definitions, every object of CAPT, and what " +
		"Terraform created. Remove CAPT v0.3 as docs/migration.md says, never with helm uninstall or by pruning"}
	var keep []string
	for _, name := range names {
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		err := l.client.Get(ctx, client.ObjectKey{Name: name}, definition)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Check{}, err
		}
		by := installerOf(definition)
		key, value := by.keep()
		if by.tool == "" || key != "" && definition.Annotations[key] == value {
			continue
		}
		found.Objects = append(found.Objects, fmt.Sprintf("CustomResourceDefinition %s: %s", name, by))
		found.Commands = append(found.Commands, by.suspend()...) // A tool that is not suspended removes the annotation.
		if key != "" {
			keep = append(keep, fmt.Sprintf("kubectl annotate --overwrite crd %s %s=%s", name, key, value))
		}
	}
	err := l.deployments(ctx, isLegacy, func(deployment *appsv1.Deployment) error {
		if by := installerOf(deployment); by.tool != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(deployment), by))
			found.Commands = append(found.Commands, by.suspend()...)
		}
		return nil
	})
	if err != nil {
		return Check{}, err
	}
	if len(found.Objects) == 0 {
		return Check{Status: OK, Message: "no definition of CAPT and no Deployment of CAPT v0.3 is known to be installed by Helm, Flux or Argo CD"}, nil
	}
	found.Commands = append(unique(found.Commands), keep...)
	return found, nil
}
