// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// olderDefinitions are those of kinds that only CAPT v0.3 has. Their objects own Workspaces too.
var olderDefinitions = []string{
	"captmachines.infrastructure.cluster.x-k8s.io", "captmachinesets.infrastructure.cluster.x-k8s.io",
	"captmachinedeployments.infrastructure.cluster.x-k8s.io", "captmachinetemplates.infrastructure.cluster.x-k8s.io",
}

// installer returns what removes an object when it removes the installation that the object belongs to; "" when nothing is known.
func installer(object *metav1.PartialObjectMetadata) string {
	if by := applier(object); by != "" {
		return by
	}
	if name := object.Labels["app.kubernetes.io/instance"]; name != "" {
		return "Argo CD or Helm, as " + name
	}
	return ""
}

// kept reports whether the object says to the tool that it must not be removed. Helm does not ask the object: it reads the
// annotation helm.sh/resource-policy in its own copy of the manifest.
func kept(object *metav1.PartialObjectMetadata, by string) bool {
	const fluxPrune = "kustomize.toolkit.fluxcd.io/prune"
	annotations := object.Annotations
	switch {
	case strings.HasPrefix(by, "Flux Kustomization"):
		return annotations[fluxPrune] == "disabled" || object.Labels[fluxPrune] == "disabled"
	case strings.HasPrefix(by, "Argo CD"):
		options := annotations["argocd.argoproj.io/sync-options"]
		return strings.Contains(options, "Prune=false") && strings.Contains(options, "Delete=false")
	}
	return false
}

// installers finds what would delete the definitions, and with them every object and cloud resource, when it is removed, and what
// would start the older manager again.
func (l *look) installers(ctx context.Context) (Check, error) {
	names := slices.Clone(olderDefinitions)
	for _, kind := range migrate.Kinds() {
		names = append(names, kind.Definition())
	}
	var owned []string
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
		if by := installer(definition); by != "" && !kept(definition, by) {
			owned = append(owned, fmt.Sprintf("CustomResourceDefinition %s: %s", name, by))
		}
	}
	var deployments appsv1.DeploymentList
	if err := l.client.List(ctx, &deployments); err != nil {
		return Check{}, err
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		by := installer(&metav1.PartialObjectMetadata{ObjectMeta: deployment.ObjectMeta})
		if by != "" && programOf(deployment) == olderCAPT {
			owned = append(owned, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(deployment), by))
		}
	}
	if len(owned) == 0 {
		return Check{Status: OK, Message: "no definition and no older manager is known to be installed by Helm, Flux or Argo CD"}, nil
	}
	return Check{Status: Warning, Objects: owned, Message: "a tool installed these: removing what it installed can delete the definitions, every object of CAPT, " +
		"and what Terraform created. Remove CAPT v0.3 as docs/migration.md says, never with helm uninstall or by pruning"}, nil
}
