// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// isLegacy recognizes a Deployment of CAPT v0.3. In doubt it is one: to miss it can cost a cluster, and a false alarm costs a look.
func isLegacy(deployment *appsv1.Deployment) bool {
	return !isOwn(deployment) && (looksLikeCAPT(deployment.Name) || looksLikeCAPT(providerLabel(deployment)) ||
		slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
			return looksLikeCAPT(imageName(container.Image))
		}))
}

// isOwn recognizes the Deployment of this version, that of config/manager, by all that CAPT v0.3's does not have. Names may have a prefix.
func isOwn(deployment *appsv1.Deployment) bool {
	pod := deployment.Spec.Template.Spec
	return deployment.Labels["app.kubernetes.io/name"] == "capt" && deployment.Labels["app.kubernetes.io/component"] == "manager" &&
		deployment.Labels["control-plane"] == "" && strings.HasSuffix(pod.ServiceAccountName, "capt-manager") &&
		slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool {
			return container.Name == "manager" && slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return port.Name == "webhooks" })
		})
}

func providerLabel(deployment *appsv1.Deployment) string {
	_, name, _ := strings.Cut(deployment.Labels["cluster.x-k8s.io/provider"], "-") // infrastructure-capt
	return strings.TrimPrefix(name, "plane-")                                      // control-plane-capt
}

func looksLikeCAPT(name string) bool {
	name = strings.ToLower(name)
	return name == "capt" || strings.HasPrefix(name, "capt-") || strings.HasSuffix(name, "-capt") || strings.Contains(name, "-capt-")
}

// imageName is the last part of the repository of an image, without registry, tag and digest.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name, _, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return name
}

// deployments calls take for each Deployment of a version of CAPT.
func (l *look) deployments(ctx context.Context, is func(*appsv1.Deployment) bool, take func(*appsv1.Deployment) error) error {
	var list appsv1.DeploymentList
	if err := l.client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	for i := range list.Items {
		if is(&list.Items[i]) {
			if err := take(&list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// legacy reports whether CAPT v0.3 runs. While it does, it reverts what is adopted, and may create a second cluster where a reference is
// empty.
func (l *look) legacy(ctx context.Context) (Check, error) {
	found := Check{Status: l.blocks()}
	err := l.deployments(ctx, isLegacy, func(deployment *appsv1.Deployment) error {
		state, commands, err := l.stop(ctx, deployment)
		if state != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(deployment), state))
			found.Commands = append(found.Commands, commands...)
		}
		return err
	})
	if err != nil {
		return Check{}, err
	}
	if len(found.Objects) > 0 {
		found.Message = "CAPT v0.3 runs. It must not run beside this version: it would revert what is adopted, and can create clusters a second time. Stop it"
		found.Commands = unique(found.Commands)
		return found, nil
	}
	if found.Objects, err = l.recentWrites(ctx); err != nil {
		return Check{}, err
	}
	if len(found.Objects) > 0 {
		found.Message = fmt.Sprintf("a manager of CAPT v0.3 has written in the last %s, and no Deployment of it runs in this cluster. "+
			"Stop it wherever it runs. If it was stopped just now, wait %[1]s and run the command again", l.options.Quiet)
		return found, nil
	}
	return Check{Status: OK, Message: "CAPT v0.3 does not run"}, nil
}

// stop is what runs of a Deployment, and the commands that stop it; empty if nothing runs.
func (l *look) stop(ctx context.Context, deployment *appsv1.Deployment) (state string, commands []string, err error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return "", nil, fmt.Errorf("reading the selector of Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	await := fmt.Sprintf("kubectl -n %s wait pod -l '%s' --for=delete --timeout=2m", deployment.Namespace, selector)
	if wanted := deployment.Spec.Replicas; wanted == nil || *wanted > 0 {
		state = "it is not scaled to 0"
		by := installerOf(deployment)
		if by.tool != "" {
			state += "; " + by.String() + " can scale it up again"
			commands = by.suspend()
		}
		return state, append(commands, fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0", deployment.Namespace, deployment.Name), await), nil
	}
	// On a node that does not respond, a Pod runs on after its Deployment was scaled down.
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", nil, fmt.Errorf("listing Pods of Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Sprintf("it is scaled to 0, but Pod %s still exists", pods.Items[i].Name), []string{await}, nil
		}
	}
	return "", nil, nil
}

// recentWrites are those of CAPT v0.3, also if it runs outside of this cluster, or under a name that is not recognized.
func (l *look) recentWrites(ctx context.Context) (recent []string, err error) {
	for _, kind := range migrate.Kinds() {
		err := migrate.EachMetadata(ctx, l.client, kind.GroupKind().WithVersion(l.version), func(object *metav1.PartialObjectMetadata) error {
			for _, write := range migrate.LegacyWrites(object, l.now.Add(-l.options.Quiet)) {
				recent = append(recent, fmt.Sprintf("%s %s/%s: %s", kind.Kind, object.Namespace, object.Name, write))
			}
			return nil
		})
		if err != nil && !meta.IsNoMatchError(err) { // The definitions are reported.
			return nil, err
		}
	}
	return recent, nil
}

// unique drops what is repeated.
func unique(list []string) (once []string) {
	for _, item := range list {
		if !slices.Contains(once, item) {
			once = append(once, item)
		}
	}
	return once
}
