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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// program is what a Deployment runs, as far as a migration is concerned.
type program int

const (
	// foreign: it has nothing to do with CAPT.
	foreign program = iota
	// olderCAPT is the one that the fleet was built with, or something that looks like it.
	olderCAPT
	// ownControllers is this CAPT.
	ownControllers
	// ownWebhooks is this CAPT while a migration is under way: it converts and admits.
	ownWebhooks
)

// programOf recognises a Deployment. When in doubt it is the older CAPT: to take it for something harmless could cost an EKS
// cluster, and the other way around costs a look.
func programOf(deployment *appsv1.Deployment) program {
	pod := deployment.Spec.Template.Spec
	for _, container := range pod.Containers {
		// The older CAPT does not know this flag, and would not start with it.
		if slices.ContainsFunc(slices.Concat(container.Command, container.Args), func(arg string) bool {
			return arg == "--webhooks-only" || arg == "--webhooks-only=true"
		}) {
			return ownWebhooks
		}
	}
	switch {
	case isOwn(deployment):
		return ownControllers
	case looksLikeCAPT(deployment.Name), looksLikeCAPT(providerLabel(deployment)), slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool {
		repository, _ := splitImage(container.Image)
		return looksLikeCAPT(repository[strings.LastIndex(repository, "/")+1:])
	}):
		return olderCAPT
	}
	return foreign
}

// isOwn recognises the Deployment of config/manager by all that it has of its own. An installation under other names has a prefix.
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

// looksLikeCAPT tells whether a name is CAPT's; captain's is not.
func looksLikeCAPT(name string) bool {
	name = strings.ToLower(name)
	return name == "capt" || strings.HasPrefix(name, "capt-") || strings.HasSuffix(name, "-capt") || strings.Contains(name, "-capt-")
}

// splitImage cuts an image into repository and tag, without the digest.
func splitImage(image string) (repository, tag string) {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon], image[colon+1:]
	}
	return image, ""
}

// running are Deployments of one program, each with what runs of it.
type running map[program][]string

// managers lists what runs of CAPT. Deployments that were named count as the older one.
func managers(ctx context.Context, reader client.Reader, older []types.NamespacedName) (running, error) {
	for _, name := range older {
		var deployment appsv1.Deployment
		if err := reader.Get(ctx, name, &deployment); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no Deployment %s, which was named as the older manager: %w", name, err)
		} else if err != nil {
			return nil, fmt.Errorf("reading Deployment %s: %w", name, err)
		}
	}
	var deployments appsv1.DeploymentList
	if err := reader.List(ctx, &deployments); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	found := running{}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		name := client.ObjectKeyFromObject(deployment)
		what := programOf(deployment)
		if slices.Contains(older, name) {
			what = olderCAPT
		}
		if what == foreign {
			continue
		}
		state, err := state(ctx, reader, deployment)
		if err != nil {
			return nil, err
		}
		if state != "" {
			found[what] = append(found[what], fmt.Sprintf("Deployment %s: %s", name, state))
		}
	}
	return found, nil
}

// state is what runs of a Deployment; empty when nothing does. One that is scaled down has Pods for as long as these end, and
// on a node that does not answer they may run for ever.
func state(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (string, error) {
	if wanted := deployment.Spec.Replicas; wanted == nil || *wanted > 0 {
		return "it is not scaled to 0", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("listing Pods of Deployment %s: %w", client.ObjectKeyFromObject(deployment), err)
	}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Sprintf("it is scaled to 0, but Pod %s is still there", pods.Items[i].Name), nil
		}
	}
	return "", nil
}

func (l *look) olderManager(ctx context.Context) (Check, error) {
	found, err := managers(ctx, l.client, l.options.OlderManagers)
	if err != nil {
		return Check{}, err
	}
	adopting := slices.Contains(l.options.Phases, Adopt)
	switch {
	case len(found[olderCAPT]) > 0:
		return Check{Status: Failed, Objects: found[olderCAPT],
			Message: "the older CAPT, or what looks like it, runs: it would undo what is written, and may build a second cluster; scale it to 0"}, nil
	case len(found[ownControllers]) > 0 && adopting:
		return Check{Status: Failed, Objects: found[ownControllers],
			Message: "this CAPT runs with its controllers, which change Workspaces without asking whether that is the same; give it --webhooks-only until captctl migrate finalize is done"}, nil
	case len(found[ownControllers]) > 0:
		return Check{Status: Warning, Objects: found[ownControllers], Message: "this CAPT runs with its controllers, and writes at the same time"}, nil
	case len(found[ownWebhooks]) > 0:
		return Check{Status: OK, Message: "the older CAPT does not run, and this one runs with --webhooks-only"}, nil
	}
	return Check{Status: OK, Message: "no Deployment is known to run the older CAPT; if one does under a name of its own, give that with --older-manager"}, nil
}

// OlderManagerRuns says in words what shows that the older CAPT runs, or has just run; empty when nothing does. A reference
// must not be taken away from it: it would build a second cluster.
func OlderManagerRuns(ctx context.Context, options Options) (string, error) {
	options.complete()
	l, err := newLook(ctx, options)
	if err != nil {
		return "", err
	}
	found, err := managers(ctx, l.client, options.OlderManagers)
	if err != nil {
		return "", err
	}
	if older := found[olderCAPT]; len(older) > 0 {
		return strings.Join(older, "; "), nil
	}
	recent, err := l.recentWrites(ctx)
	if err != nil {
		return "", err
	}
	if len(recent) > 0 {
		return strings.Join(recent, "; "), nil
	}
	return "", nil
}
