// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/installation"
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
		deployment  *appsv1.Deployment
		own, legacy bool
	}{
		"ours, under another name":               {renamed, true, false},
		"ours, with controllers":                 {own("--leader-elect"), true, false},
		"ours, packaged by another project":      {named("platform", "", "example.com/capt-manager:v1"), false, true},
		"almost ours":                            {scaffolded, false, true},
		"the older one by its name":              {named("capt-controller-manager", "", "example.com/controller:latest"), false, true},
		"the older one by its label":             {named("manager", "infrastructure-capt", "example.com/controller"), false, true},
		"the older one by its other label":       {named("manager", "control-plane-capt", "example.com/controller"), false, true},
		"the older one by its image":             {named("manager", "", "registry:5000/team/capt@sha256:00ff"), false, true},
		"the older one by a part of its name":    {named("team-capt-controller", "", "example.com/controller"), false, true},
		"CAPT v0.3.0, as a control plane":        {named("appthrust-capt-controller-manager-control-plane", "control-plane-capt", "ghcr.io/appthrust/capt:v0.3.0"), false, true},
		"CAPT v0.3.0, as an infrastructure":      {named("appthrust-capt-controller-manager-infrastructure", "infrastructure-capt", "ghcr.io/appthrust/capt:v0.3.0"), false, true},
		"Cluster API":                            {named("capi-controller-manager", "cluster-api", "registry.k8s.io/cluster-api-controller:v1.14.2"), false, false},
		"another provider":                       {named("capa-controller-manager", "infrastructure-aws", "example.com/capa:v2"), false, false},
		"something whose name begins with it":    {named("captain", "", "example.com/captain/server:1"), false, false},
		"something in a folder of the same name": {named("other", "", "example.com/capt/other:1"), false, false},
	} {
		assert.Equal(t, row.own, installation.IsManager(row.deployment), name)
		assert.Equal(t, row.legacy, isLegacy(row.deployment), name)
	}
}

func TestImageName(t *testing.T) {
	for _, image := range []string{"capt", "capt:v1", "registry:5000/capt", "registry:5000/team/capt:v1@sha256:00ff00ff"} {
		assert.Equal(t, "capt", imageName(image), image)
	}
}

func TestInstallers(t *testing.T) {
	controlled := []metav1.OwnerReference{{Kind: "InfrastructureProvider", Name: "capt", Controller: new(true)}}
	for name, row := range map[string]struct {
		object  metav1.ObjectMeta
		want    string
		suspend []string
	}{
		"Flux": {
			metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": "flux"}},
			"Flux Kustomization flux/fleet", []string{"flux suspend kustomization fleet -n flux"},
		},
		"Flux through Helm": {
			metav1.ObjectMeta{Labels: map[string]string{"helm.toolkit.fluxcd.io/name": "fleet", "helm.toolkit.fluxcd.io/namespace": "flux", "app.kubernetes.io/managed-by": "Helm"}},
			"Flux HelmRelease flux/fleet", []string{"flux suspend helmrelease fleet -n flux"},
		},
		"Argo CD by annotation": {
			metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "fleet:infrastructure.cluster.x-k8s.io/CAPTCluster:a/b"}},
			"Argo CD Application fleet", []string{"argocd app set fleet --sync-policy none"},
		},
		"Argo CD by label": {
			metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "fleet"}},
			"Argo CD Application fleet", []string{"argocd app set fleet --sync-policy none"},
		},
		"Argo CD or Helm":   {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/instance": "fleet"}}, "Argo CD or Helm, as fleet", nil},
		"a release of Helm": {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "fleet", "meta.helm.sh/release-namespace": "a"}}, "Helm release a/fleet", nil},
		"Helm by label":     {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}, "Helm", nil},
		"an operator":       {metav1.ObjectMeta{Namespace: "a", OwnerReferences: controlled}, "InfrastructureProvider a/capt", nil},
		"the user":          {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "kustomize"}}, "", nil},
	} {
		by := installerOf(&row.object)
		assert.Equal(t, row.want, by.name, name)
		assert.Equal(t, row.suspend, by.suspend, name)
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
		"not looked at":        {conditions(), "Synced is unknown"},
		"failed":               {conditions(is("Synced", "False", "ReconcileError", 0), is("Ready", "True", "Available", 0)), "Synced is False (ReconcileError)"},
		"being made":           {conditions(is("Synced", "True", "ReconcileSuccess", 0), is("Ready", "False", "Creating", 0)), "Ready is False (Creating)"},
		"changed, not applied": {conditions(is("Synced", "True", "ReconcileSuccess", 1), is("Ready", "True", "Available", 1)), "its last change is not applied yet"},
		"being deleted":        {leaving, "it is being deleted"},
	} {
		assert.Equal(t, row.want, migrate.WhyNotUpToDate(row.workspace), name)
	}
}

func TestWorkspacesThatAreNotUpToDate(t *testing.T) {
	workspace := func(name, synced string) unstructured.Unstructured {
		is := func(kind, status string) any { return map[string]any{"type": kind, "status": status, "reason": "R"} }
		return unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "tf.upbound.io/v1beta1", "kind": "Workspace", "metadata": map[string]any{"name": name}, "status": map[string]any{"conditions": []any{is("Synced", synced), is("Ready", "True")}},
		}}
	}
	apply := func(name, bySpec, byStatus string) infrav1.WorkspaceTemplateApply {
		a := infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.WorkspaceTemplateApplySpec{WorkspaceName: bySpec}}
		if byStatus != "" {
			a.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Name: byStatus}
		}
		return a
	}
	fleet := &migrate.Snapshot{
		Applies:    []infrav1.WorkspaceTemplateApply{apply("by-name-apply", "", ""), apply("a", "by-spec", ""), apply("b", "", "by-status"), apply("c", "good", "good")},
		Workspaces: []unstructured.Unstructured{workspace("by-status", "False"), workspace("by-spec", "False"), workspace("by-name", "False"), workspace("good", "True"), workspace("other", "False")},
	}
	namesake := workspace("by-spec", "False")
	namesake.SetAPIVersion("tf.m.upbound.io/v1beta1")
	namesake.SetNamespace("another")
	fleet.Workspaces = append(fleet.Workspaces, namesake)
	found := Workspaces(fleet)
	assert.Equal(t, Warning, found.Status)
	assert.Equal(t, []string{
		"Workspace by-name: Synced is False (R)", "Workspace by-spec: Synced is False (R)", "Workspace by-status: Synced is False (R)",
	}, found.Objects, "another Workspace has nothing to do with CAPT")
	assert.Contains(t, found.Message, "3 of 4 Workspaces")
	fleet.Workspaces = fleet.Workspaces[3:]
	assert.Equal(t, Check{Name: CheckWorkspaces, Status: OK, Message: "all 1 Workspaces of WorkspaceTemplateApplies are up to date"}, Workspaces(fleet))
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
	wanted, err := installation.Definitions()
	require.NoError(t, err)
	assert.Empty(t, installation.DefinitionProblems(wanted[kind.Definition()], good()))
	for name, row := range map[string]struct {
		spoil func(*apiextensionsv1.CustomResourceDefinition)
		want  string
	}{
		"the older spelling":  {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Names.Kind = migrate.OlderTemplateKind }, "cannot be changed"},
		"being deleted":       {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = &metav1.Time{} }, "it is being deleted"},
		"the older is stored": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Storage = false }, "v1beta2 is not served and stored"},
		"one version only":    {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions = d.Spec.Versions[1:] }, "v1beta1 is not served"},
		"no conversion": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		}, "no webhook converts"},
		"no authority": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
		}, "has no caBundle"},
	} {
		definition := good()
		row.spoil(definition)
		found := installation.DefinitionProblems(wanted[kind.Definition()], definition)
		if assert.Len(t, found, 1, name) {
			assert.Contains(t, found[0], row.want, name)
		}
	}
}
