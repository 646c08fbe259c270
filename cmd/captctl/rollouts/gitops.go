// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gitOpsManagers are the field managers of GitOps tools.
var gitOpsManagers = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
}

// gitOpsTool names the GitOps tool that applies an object, for a warning; empty if none is known.
func gitOpsTool(object metav1.Object) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, kind := range [][2]string{{"kustomize", "Kustomization"}, {"helm", "HelmRelease"}} {
		prefix := kind[0] + ".toolkit.fluxcd.io/"
		if name := labels[prefix+"name"]; name != "" {
			return "Flux (" + kind[1] + " " + labels[prefix+"namespace"] + "/" + name + ")"
		}
	}
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if application = cmp.Or(application, labels["argocd.argoproj.io/instance"]); application != "" {
		return "Argo CD (Application " + application + ")"
	}
	for _, entry := range object.GetManagedFields() {
		if tool := gitOpsManagers[entry.Manager]; tool != "" {
			return tool
		}
	}
	return ""
}

// isInGit reports whether a GitOps tool applies a field of an object, so that it reverts other values.
func isInGit(object metav1.Object, path ...string) bool {
	for _, entry := range object.GetManagedFields() {
		if gitOpsManagers[entry.Manager] == "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for _, name := range path {
			fields, _ = fields["f:"+name].(map[string]any)
		}
		if fields != nil {
			return true
		}
	}
	return false
}
