// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/webhooks/conversion"
)

// kind is a kind that the hostile user tries to write.
type kind struct {
	schema.GroupKind
	resource string
	// versions that are served, the stored one last.
	versions []string
	// permitted is set if the aggregated role edit has the kind.
	permitted bool
	// weight is how often it is chosen.
	weight int
	// schemas are those of the versions; core kinds have none.
	schemas map[string]*apiextensionsv1.JSONSchemaProps
	// names of its objects. They are few, so that requests meet, and those of the other namespace are among them.
	names []string
	// manifests are valid objects of the stored version.
	manifests []string
}

func (k *kind) hub() string { return k.versions[len(k.versions)-1] }

func (k *kind) resourceIn(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.resource}
}

func (k *kind) kindIn(version string) schema.GroupVersionKind { return k.WithVersion(version) }

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

// kinds lists what a user with the role edit can write, and what such a user could gain from.
func kinds(f *fleet) []*kind {
	both, hub := []string{"v1beta1", "v1beta2"}, []string{"v1beta2"}
	applies := append(early(), "demo-vpc", "demo-eks-controlplane-apply", "older", "older-2", "waiting", "user", "leaving", "h0-vpc", "h1", "h2", "h3", "h4", "h5")
	clusters := []string{"demo", "h0", "h1", "h2", "protected", "leaving"}
	return []*kind{
		{GroupKind: schema.GroupKind{Group: infrastructure, Kind: "WorkspaceTemplateApply"}, resource: "workspacetemplateapplies", versions: both, permitted: true, weight: 40, names: applies, manifests: f.applies()},
		{GroupKind: schema.GroupKind{Group: infrastructure, Kind: "CAPTCluster"}, resource: "captclusters", versions: both, permitted: true, weight: 14, names: clusters, manifests: f.captClusters()},
		{GroupKind: schema.GroupKind{Group: controlPlane, Kind: "CAPTControlPlane"}, resource: "captcontrolplanes", versions: both, permitted: true, weight: 14, names: clusters, manifests: f.controlPlanes()},
		{GroupKind: schema.GroupKind{Group: infrastructure, Kind: "CAPTClusterTemplate"}, resource: "captclustertemplates", versions: hub, permitted: true, weight: 4, names: clusters, manifests: templates(f.captClusters())},
		{GroupKind: schema.GroupKind{Group: controlPlane, Kind: "CAPTControlPlaneTemplate"}, resource: "captcontrolplanetemplates", versions: both, permitted: true, weight: 4, names: clusters, manifests: templates(f.controlPlanes())},
		{GroupKind: schema.GroupKind{Kind: "Secret"}, resource: "secrets", versions: []string{"v1"}, permitted: true, weight: 8,
			names:     []string{"canary", "demo-kubeconfig", "demo-user-kubeconfig", "h0-kubeconfig", "demo-vpc-connection", "demo-control-plane-connection"},
			manifests: []string{"{apiVersion: v1, kind: Secret, stringData: {value: harmless, kubeconfig: '{}', vpc_config: '{}'}}", "{apiVersion: v1, kind: Secret, type: cluster.x-k8s.io/secret, stringData: {value: '{}'}}"}},
		{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, resource: "configmaps", versions: []string{"v1"}, permitted: true, weight: 4,
			names: []string{"canary", "capt-migrate"}, manifests: []string{"{apiVersion: v1, kind: ConfigMap, data: {value: harmless}}"}},
		{GroupKind: schema.GroupKind{Group: infrastructure, Kind: "WorkspaceTemplate"}, resource: "workspacetemplates", versions: both, weight: 2, names: []string{"vpc", "eks", "shared"}, manifests: f.Templates()},
		{GroupKind: schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}, resource: "clusters", versions: hub, weight: 2, names: clusters, manifests: f.clusters()},
		{GroupKind: schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}, resource: "controllerrevisions", versions: []string{"v1"}, weight: 1, names: []string{"shared-1"},
			manifests: []string{"{apiVersion: apps/v1, kind: ControllerRevision, revision: 1, data: {}}"}},
		{GroupKind: schema.GroupKind{Group: "tf.m.upbound.io", Kind: "Workspace"}, resource: "workspaces", versions: []string{"v1beta1"}, weight: 1, names: applies,
			manifests: []string{"{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, spec: {forProvider: {source: Inline, module: 'output \"x\" { value = 1 }'}}}"}},
	}
}

// templates are CAPTClusterTemplates or CAPTControlPlaneTemplates with the specs of objects.
func templates(manifests []string) (wrapped []string) {
	for _, manifest := range manifests {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
			panic(err) // It is written in this package.
		}
		object["kind"] = fmt.Sprint(object["kind"]) + "Template"
		spec := object["spec"].(map[string]any)
		delete(spec, "version")
		delete(spec, "controlPlaneEndpoint")
		object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
		text, err := yaml.Marshal(object)
		if err != nil {
			panic(err)
		}
		wrapped = append(wrapped, string(text))
	}
	return wrapped
}

// readSchemas reads the schemas that the API server has.
func readSchemas(ctx context.Context, c client.Client, all []*kind) error {
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, definitions); err != nil {
		return err
	}
	for _, k := range all {
		k.schemas = map[string]*apiextensionsv1.JSONSchemaProps{}
		for _, d := range definitions.Items {
			if d.Spec.Group != k.Group || d.Spec.Names.Kind != k.Kind {
				continue
			}
			for _, v := range d.Spec.Versions {
				k.schemas[v.Name] = v.Schema.OpenAPIV3Schema
			}
		}
		if k.permitted && k.Group != "" && len(k.schemas) != len(k.versions) {
			return fmt.Errorf("%s has versions %v, and this test knows %v", k.Kind, slices.Sorted(maps.Keys(k.schemas)), k.versions)
		}
	}
	return nil
}

// manifest is a valid object in a version.
func (g *generator) manifest(k *kind, version, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(pick(g.rand, k.manifests)), &object.Object); err != nil {
		panic(err) // It is written in this package.
	}
	object.SetNamespace(g.fleet.a)
	object.SetName(name)
	if version == k.hub() {
		return object
	}
	converted, err := g.convert(object, version)
	if err != nil {
		panic(err) // Conversion is total.
	}
	if !chance(g.rand, 30) {
		annotations := converted.GetAnnotations()
		delete(annotations, conversionData)
		converted.SetAnnotations(annotations)
	}
	return converted
}

func (g *generator) convert(object *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	return conversion.Convert(context.Background(), g.scheme, g.registry, object, version)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// chance is true in so many of 100 cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// choice is one of several with a weight.
type choice[T any] struct {
	weight int
	value  T
}

func weighted[T any](r *rand.Rand, from []choice[T]) T {
	sum := 0
	for _, c := range from {
		sum += c.weight
	}
	n := r.IntN(sum)
	for _, c := range from {
		if n -= c.weight; n < 0 {
			return c.value
		}
	}
	panic("not reached")
}

// nested is a map with one value at a path.
func nested(path []string, value any) map[string]any {
	for _, name := range slices.Backward(path) {
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

// pointer is a path as a JSON pointer.
func pointer(path []string) string {
	var text strings.Builder
	for _, name := range path {
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return text.String()
}
