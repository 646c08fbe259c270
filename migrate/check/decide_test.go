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
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/migrate"
)

// own is the Deployment of config/manager.
func own(args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "capt-manager", Labels: map[string]string{"app.kubernetes.io/name": "capt", "app.kubernetes.io/component": "manager"}},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "capt-manager",
			Containers: []corev1.Container{{
				Name: "manager", Image: "example.com/capt-manager:v1.0.0", Args: args, Ports: []corev1.ContainerPort{{Name: "webhooks"}},
			}},
		}}},
	}
}

func TestWhatADeploymentRuns(t *testing.T) {
	named := func(name, provider, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"cluster.x-k8s.io/provider": provider}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return d
	}
	scaffolded := own()
	scaffolded.Labels["control-plane"] = "controller-manager"
	renamed := own()
	renamed.Name, renamed.Spec.Template.Spec.ServiceAccountName = "my-capt-manager", "my-capt-manager"
	for name, row := range map[string]struct {
		deployment *appsv1.Deployment
		want       program
	}{
		"ours, under another name":               {renamed, ownControllers},
		"ours, with controllers":                 {own("--leader-elect"), ownControllers},
		"ours, while a migration is under way":   {own("--leader-elect", "--webhooks-only"), ownWebhooks},
		"ours, with the flag written out":        {own("--webhooks-only=true"), ownWebhooks},
		"ours, with the flag turned off":         {own("--webhooks-only=false"), ownControllers},
		"ours, as somebody else packages it":     {named("platform", "", "example.com/capt-manager:v1"), olderCAPT},
		"almost ours":                            {scaffolded, olderCAPT},
		"the older one by its name":              {named("capt-controller-manager", "", "example.com/controller:latest"), olderCAPT},
		"the older one by its label":             {named("manager", "infrastructure-capt", "example.com/controller"), olderCAPT},
		"the older one by its other label":       {named("manager", "control-plane-capt", "example.com/controller"), olderCAPT},
		"the older one by its image":             {named("manager", "", "registry:5000/team/capt@sha256:00ff"), olderCAPT},
		"the older one by a part of its name":    {named("team-capt-controller", "", "example.com/controller"), olderCAPT},
		"CAPT v0.3.0, as a control plane":        {named("appthrust-capt-controller-manager-control-plane", "control-plane-capt", "ghcr.io/appthrust/capt:v0.3.0"), olderCAPT},
		"CAPT v0.3.0, as an infrastructure":      {named("appthrust-capt-controller-manager-infrastructure", "infrastructure-capt", "ghcr.io/appthrust/capt:v0.3.0"), olderCAPT},
		"Cluster API":                            {named("capi-controller-manager", "cluster-api", "registry.k8s.io/cluster-api-controller:v1.14.2"), foreign},
		"another provider":                       {named("capa-controller-manager", "infrastructure-aws", "example.com/capa:v2"), foreign},
		"something whose name begins with it":    {named("captain", "", "example.com/captain/server:1"), foreign},
		"something in a folder of the same name": {named("other", "", "example.com/capt/other:1"), foreign},
	} {
		assert.Equal(t, row.want, programOf(row.deployment), name)
	}
}

func TestAnImageHasARepositoryAndATag(t *testing.T) {
	for image, want := range map[string][2]string{
		"capt":                                  {"capt", ""},
		"capt:v1":                               {"capt", "v1"},
		"registry:5000/capt":                    {"registry:5000/capt", ""},
		"registry:5000/capt:v1@sha256:00ff00ff": {"registry:5000/capt", "v1"},
	} {
		repository, tag := splitImage(image)
		assert.Equal(t, want, [2]string{repository, tag}, image)
	}
}

func TestWhoAppliesAnObject(t *testing.T) {
	labelled := func(pairs map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: pairs}}
	}
	annotated := func(pairs map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: pairs}}
	}
	managed := func(by string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: by}}}}
	}
	for name, row := range map[string]struct {
		object *metav1.PartialObjectMetadata
		want   string
	}{
		"Flux":                     {labelled(map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": "flux"}), "Flux Kustomization flux/fleet"},
		"Flux through Helm":        {labelled(map[string]string{"helm.toolkit.fluxcd.io/name": "fleet", "helm.toolkit.fluxcd.io/namespace": "flux", "app.kubernetes.io/managed-by": "Helm"}), "Flux HelmRelease flux/fleet"},
		"Argo CD by annotation":    {annotated(map[string]string{"argocd.argoproj.io/tracking-id": "fleet:infrastructure.cluster.x-k8s.io/CAPTCluster:a/b"}), "Argo CD Application fleet"},
		"Argo CD by label":         {labelled(map[string]string{"argocd.argoproj.io/instance": "fleet"}), "Argo CD Application fleet"},
		"Argo CD by field manager": {managed("argocd-controller"), "Argo CD"},
		"Flux by field manager":    {managed("kustomize-controller"), "Flux"},
		"a release of Helm":        {annotated(map[string]string{"meta.helm.sh/release-name": "fleet", "meta.helm.sh/release-namespace": "a"}), "Helm release a/fleet"},
		"Helm by label":            {labelled(map[string]string{"app.kubernetes.io/managed-by": "Helm"}), "Helm"},
		"Helm by field manager":    {managed("helm"), "Helm"},
		"a person":                 {managed("kubectl-client-side-apply"), ""},
	} {
		assert.Equal(t, row.want, applier(row.object), name)
	}
}

func TestWhyAWorkspaceIsNotUpToDate(t *testing.T) {
	conditions := func(list ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2)}, "status": map[string]any{"conditions": list},
		}}
	}
	is := func(kind, status, reason string, generation int64) map[string]any {
		c := map[string]any{"type": kind, "status": status, "reason": reason, "message": "a message can hold a secret"}
		if generation > 0 {
			c["observedGeneration"] = generation
		}
		return c
	}
	leaving := conditions(is("Synced", "True", "", 0), is("Ready", "True", "", 0))
	leaving.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
	for name, row := range map[string]struct {
		workspace *unstructured.Unstructured
		want      string
	}{
		"up to date before v1": {conditions(is("Synced", "True", "ReconcileSuccess", 0), is("Ready", "True", "Available", 0)), ""},
		"up to date since v1":  {conditions(is("Synced", "True", "ReconcileSuccess", 2), is("Ready", "True", "Available", 2)), ""},
		"not looked at":        {conditions(), "Synced is unknown (unknown)"},
		"failed":               {conditions(is("Synced", "False", "ReconcileError", 0), is("Ready", "True", "Available", 0)), "Synced is False (ReconcileError)"},
		"being made":           {conditions(is("Synced", "True", "ReconcileSuccess", 0), is("Ready", "False", "Creating", 0)), "Ready is False (Creating)"},
		"changed, not applied": {conditions(is("Synced", "True", "ReconcileSuccess", 1), is("Ready", "True", "Available", 1)), "its last change is not applied yet"},
		"being deleted":        {leaving, "it is being deleted"},
	} {
		assert.Equal(t, row.want, unsettledBecause(row.workspace), name)
	}
}

func TestWhatIsWrongWithADefinition(t *testing.T) {
	kind := migrate.Kinds()[2]
	good := func() *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: migrate.LegacyVersion, Served: true}, {Name: migrate.Version, Served: true, Storage: true},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("authority")}},
			},
		}}
	}
	assert.Empty(t, problems(kind, good()))
	for name, row := range map[string]struct {
		spoil func(*apiextensionsv1.CustomResourceDefinition)
		want  string
	}{
		"the older spelling":  {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Names.Kind = OlderTemplateKind }, "run captctl migrate crds"},
		"being deleted":       {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = &metav1.Time{} }, "it is being deleted"},
		"the older is stored": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Storage = false }, "v1beta2 is not served and stored"},
		"one version only":    {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions = d.Spec.Versions[1:] }, "v1beta1 is not served"},
		"no conversion": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Conversion.Strategy = apiextensionsv1.NoneConverter
		}, "no webhook converts"},
		"no authority": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
		}, "has no caBundle"},
	} {
		definition := good()
		row.spoil(definition)
		found := problems(kind, definition)
		if assert.Len(t, found, 1, name) {
			assert.Contains(t, found[0], row.want, name)
		}
	}
}
