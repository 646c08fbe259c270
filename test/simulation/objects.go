// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// modules are the modules of the templates: variables and outputs are all that the simulation needs. Users set variable team.
var modules = map[string]struct{ variables, outputs string }{
	"vpc":       {"cluster_name vpc_name region", "vpc_id vpc_config"},
	"eks":       {"cluster_name kubernetes_version region vpc_id team", "cluster_name cluster_endpoint cluster_certificate_authority_data kubernetes_version"},
	"fargate":   {"cluster_name region profile_name", "fargate_profile_arn"},
	"nodegroup": {"cluster_name region nodegroup_name kubernetes_version min_size max_size", "node_group_arn"},
}

func moduleOf(name, comment string) string {
	text := &strings.Builder{}
	text.WriteString(comment + "\n")
	for _, variable := range strings.Fields(modules[name].variables) {
		content := "{}"
		if variable == "team" || variable == "vpc_id" { // A module that requires the VPC would not be used without it, whatever CAPT awaits.
			content = "{ default = \"\" }"
		}
		text.WriteString("variable \"" + variable + "\" " + content + "\nlocals { use_" + variable + " = var." + variable + " }\n")
	}
	for _, output := range strings.Fields(modules[name].outputs) {
		text.WriteString("output \"" + output + "\" { value = \"\" }\n")
	}
	return text.String()
}

// template returns a template without rollout policy.
func template(namespace, name string) *infrav1.WorkspaceTemplate {
	t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	t.Spec.WorkspaceScope = terraform.ScopeNamespaced
	t.Spec.Template.Spec = terraform.WorkspaceSpec{
		ProviderConfigRef: &terraform.ProviderConfigReference{Kind: "ClusterProviderConfig", Name: "aws"},
		ForProvider:       terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: moduleOf(name, "# first"), InlineFormat: terraform.FormatHCL},
	}
	return t
}

// namespaces of two tenants.
var namespaces = []string{"team-a", "team-b"}

// fresh removes what the API server sets.
func fresh[O client.Object](object O) O {
	object.SetUID("")
	object.SetGeneration(0)
	object.SetCreationTimestamp(metav1.Time{})
	return object
}

// installation creates what an administrator installs: definitions, ProviderConfig, namespaces with their templates.
func (w *World) installation() {
	admin := w.user("admin")
	for _, scope := range terraform.Scopes() {
		w.create(admin, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: builder.WorkspaceDefinition(scope).ObjectMeta})
	}
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("tf.m.upbound.io/v1beta1")
	config.SetKind("ClusterProviderConfig")
	config.SetName("aws")
	config.Object["spec"] = map[string]any{"configuration": "terraform {\n  backend \"s3\" {}\n}\n"}
	w.create(admin, config)
	for _, name := range namespaces {
		w.create(admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes"}}})
	}
}

func (w *World) create(c client.Client, object client.Object) {
	must(c.Create(context.Background(), object))
}

func (w *World) templates(namespace string) {
	for _, name := range []string{"eks", "fargate", "nodegroup", "vpc"} {
		_ = w.user(namespace).Create(context.Background(), template(namespace, name))
	}
}
