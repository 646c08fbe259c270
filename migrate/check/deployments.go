// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
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

// looksLikeCAPT reports whether one of the words of a name is capt.
func looksLikeCAPT(name string) bool {
	return slices.Contains(strings.Split(strings.ToLower(name), "-"), "capt")
}

// imageName is the last part of the repository of an image, without registry, tag and digest.
func imageName(image string) string {
	repository, _, _ := strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return name
}

// deployments lists those for which a function holds.
func (l *look) deployments(ctx context.Context, is func(*appsv1.Deployment) bool) ([]appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	if err := l.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(deployment appsv1.Deployment) bool { return !is(&deployment) }), nil
}

// legacy reports whether CAPT v0.3 runs. While it does, it reverts what is adopted, and may create a second cluster where a reference is
// empty.
func (l *look) legacy(ctx context.Context) (Check, error) {
	found := Check{Status: l.blocks()}
	deployments, err := l.deployments(ctx, isLegacy)
	if err != nil {
		return found, err
	}
	for i := range deployments {
		state, commands, err := l.stop(ctx, &deployments[i])
		if err != nil {
			return found, err
		}
		if state != "" {
			found.Objects = append(found.Objects, fmt.Sprintf("Deployment %s: %s", client.ObjectKeyFromObject(&deployments[i]), state))
			found.Commands = append(found.Commands, commands...)
		}
	}
	if len(found.Objects) > 0 {
		found.Message = "CAPT v0.3 runs. It must not run beside this version: it would revert what is adopted, and can create clusters a second time. Stop it"
		found.Commands = unique(found.Commands)
		return found, nil
	}
	found.Message = fmt.Sprintf("a manager of CAPT v0.3 has written in the last %s, and no Deployment of it runs in this cluster. "+
		"Stop it wherever it runs. If it was stopped just now, wait %[1]s and run the command again", l.options.Quiet)
	found.Objects, err = l.recentWrites(ctx)
	return found.orOK("CAPT v0.3 does not run"), err
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
		if by.name != "" {
			state += "; " + by.name + " can scale it up again"
		}
		return state, append(by.suspend, fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0", deployment.Namespace, deployment.Name), await), nil
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

// recentWrites are those of status in v1beta1, as managedFields record them with the API server's clock. Only CAPT v0.3 writes them, also
// if it runs outside of this cluster, or under a name that is not recognized.
func (l *look) recentWrites(ctx context.Context) (recent []string, err error) {
	for _, kind := range migrate.Kinds() {
		err := migrate.EachMetadata(ctx, l.client, kind.GroupKind().WithVersion(l.version), func(object *metav1.PartialObjectMetadata) error {
			for _, entry := range object.ManagedFields {
				if migrate.IsOlder(entry.APIVersion) && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(l.now.Add(-l.options.Quiet)) {
					recent = append(recent, fmt.Sprintf("%s %s/%s: %s wrote its status in %s at %s", kind.Kind, object.Namespace, object.Name,
						entry.Manager, entry.APIVersion, entry.Time.UTC().Format(time.RFC3339)))
				}
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

// manager reports whether the manager of this version runs. It may run outside of this cluster, so that its absence is a warning.
func (l *look) manager(ctx context.Context) (Check, error) {
	const consequence = "It completes an adoption: until it has reported a cluster, apply waits for it, and fails after --wait"
	running := Check{Status: OK, Message: "the manager of this version runs"}
	unavailable := Check{Status: Warning, Message: "the manager is not available. " + consequence}
	deployments, err := l.deployments(ctx, isOwn)
	if err != nil {
		return running, err
	}
	for _, deployment := range deployments {
		name := "Deployment " + client.ObjectKeyFromObject(&deployment).String()
		if deployment.Status.AvailableReplicas > 0 {
			running.Objects = append(running.Objects, name)
			continue
		}
		unavailable.Objects = append(unavailable.Objects, name+": no replica is available")
		kubectl := "kubectl -n " + deployment.Namespace
		if ptr.Deref(deployment.Spec.Replicas, 1) == 0 {
			unavailable.Commands = append(unavailable.Commands, fmt.Sprintf("%s scale deployment/%s --replicas=2", kubectl, deployment.Name))
		}
		unavailable.Commands = append(unavailable.Commands, fmt.Sprintf("%s rollout status deployment/%s --timeout=5m", kubectl, deployment.Name))
	}
	switch {
	case len(unavailable.Objects) > 0:
		return unavailable, nil
	case len(running.Objects) > 0:
		return running, nil
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: l.options.JournalNamespace, Name: naming.LeaderElectionLease("", "")}
	if err := client.IgnoreNotFound(l.client.Get(ctx, key, lease)); err != nil {
		return running, err
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if renewed := lease.Spec.RenewTime; renewed != nil && renewed.Add(lasts).After(l.now) {
		running.Objects = []string{"Lease " + key.String()}
		return running, nil
	}
	return Check{Status: Warning, Message: "no Deployment and no Lease of the manager was found. " + consequence + ". If it runs elsewhere, check its log; else install it as docs/install.md says"}, nil
}
