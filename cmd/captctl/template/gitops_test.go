// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestToolsThatRevertChangesAreRecognized(t *testing.T) {
	managedBy := func(manager, fields string) metav1.ObjectMeta {
		return metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}}}
	}
	const state = `{"f:spec":{"f:rollout":{"f:state":{}}}}`
	for name, row := range map[string]struct {
		object metav1.ObjectMeta
		tool   string
		inGit  bool
	}{
		"none": {metav1.ObjectMeta{}, "", false},
		"Flux": {metav1.ObjectMeta{Labels: map[string]string{"helm.toolkit.fluxcd.io/name": "a", "helm.toolkit.fluxcd.io/namespace": "b"}}, "Flux (HelmRelease b/a)", false},
		"Argo CD, by annotation": {metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "fleet:group/Kind:ns/name"}},
			"Argo CD (Application fleet)", false},
		"Argo CD, by label":   {metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "fleet"}}, "Argo CD (Application fleet)", false},
		"by field manager":    {managedBy("kustomize-controller", state), "Flux", true},
		"another field":       {managedBy("argocd-controller", `{"f:spec":{"f:rollout":{}}}`), "Argo CD", false},
		"a user with kubectl": {managedBy("kubectl-edit", state), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.tool, gitOpsTool(&row.object))
			assert.Equal(t, row.inGit, isInGit(&row.object, "spec", "rollout", "state"))
		})
	}
}
