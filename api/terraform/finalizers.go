// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalizerOwners are the owners of finalizers whose domain, or whole name, ends like this; the first match counts.
var finalizerOwners = [][2]string{
	{"infrastructure.cluster.x-k8s.io", ofCAPT}, {"controlplane.cluster.x-k8s.io", ofCAPT}, {"cluster.x-k8s.io", "Cluster API"}, {"crossplane.io", ofProvider},
	{"argoproj.io", "Argo CD"}, {"fluxcd.io", "Flux"}, {"foregroundDeletion", garbageCollector}, {"orphan", garbageCollector},
}

const (
	ofCAPT           = "CAPT"
	ofProvider       = "provider-terraform"
	garbageCollector = "Kubernetes' garbage collector, which waits for what the object owns"
)

func finalizerOwner(finalizer string) string {
	domain, _, _ := strings.Cut(finalizer, "/")
	for _, known := range finalizerOwners {
		if strings.HasSuffix(domain, known[0]) {
			return known[1]
		}
	}
	return "probably a controller of " + domain
}

// WaitingForFinalizers is why an object that is being deleted still exists although CAPT is done, or why provider-terraform does not destroy a Workspace yet: it
// waits until its finalizer is the last one. It is empty if there are no finalizers of others. The text ends with the command that edits the object, whose resource is an argument of kubectl.
func WaitingForFinalizers(object metav1.Object, resource string) string {
	var others []string
	for _, finalizer := range object.GetFinalizers() {
		owner := finalizerOwner(finalizer)
		switch owner {
		case ofCAPT:
			return ""
		case ofProvider:
			continue
		}
		others = append(others, fmt.Sprintf("%s (%s)", finalizer, owner))
	}
	if object.GetDeletionTimestamp().IsZero() || len(others) == 0 {
		return ""
	}
	slices.Sort(others)
	if namespace := object.GetNamespace(); namespace != "" {
		resource += " -n " + namespace
	}
	return fmt.Sprintf(
		"waiting for finalizers of other controllers: %s. Find out what each controller waits for; if it does not run any more, remove its finalizer: %s %s",
		strings.Join(others, ", "), EditCommand+resource, object.GetName())
}

// EditCommand begins the command at the end of the text of WaitingForFinalizers.
const EditCommand = "kubectl edit "
