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

	"github.com/capt-provider/capt/test/fixture"
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
	both, hub, core := []string{"v1beta1", "v1beta2"}, []string{"v1beta2"}, []string{"v1"}
	secrets := []string{"canary", "demo-kubeconfig", "demo-user-kubeconfig", "h0-kubeconfig", "demo-vpc-connection", "demo-control-plane-connection"}
	applies := append(early(), "demo-vpc", "demo-eks-controlplane-apply", "older", "older-2", "waiting", "user", "leaving", "h0-vpc", "h1", "h2", "h3", "h4", "h5")
	clusters := []string{"demo", "h0", "h1", "h2", "protected", "leaving"}
	permitted := []*kind{
		newKind(40, infrastructure, "WorkspaceTemplateApply", "workspacetemplateapplies", both, applies, f.applies()),
		newKind(14, infrastructure, "CAPTCluster", "captclusters", both, clusters, f.captClusters()),
		newKind(14, controlPlane, "CAPTControlPlane", "captcontrolplanes", both, clusters, f.controlPlanes()),
		newKind(4, infrastructure, "CAPTClusterTemplate", "captclustertemplates", hub, clusters, templates(f.captClusters())),
		newKind(4, controlPlane, "CAPTControlPlaneTemplate", "captcontrolplanetemplates", both, clusters, templates(f.controlPlanes())),
		newKind(8, infrastructure, "CAPTMachinePool", "captmachinepools", hub, clusters, machinePools()),
		newKind(2, infrastructure, "CAPTMachinePoolTemplate", "captmachinepooltemplates", hub, clusters, templates(machinePools()[:1])),
		newKind(8, "", "Secret", "secrets", core, secrets, []string{
			"{apiVersion: v1, kind: Secret, stringData: {value: harmless, kubeconfig: '{}', vpc_config: '{}'}}",
			"{apiVersion: v1, kind: Secret, type: cluster.x-k8s.io/secret, stringData: {value: '{}'}}",
		}),
		newKind(4, "", "ConfigMap", "configmaps", core, []string{"canary", "capt-migrate"}, []string{"{apiVersion: v1, kind: ConfigMap, data: {value: harmless}}"}),
	}
	for _, k := range permitted {
		k.permitted = true
	}
	return append(permitted,
		newKind(2, infrastructure, "WorkspaceTemplate", "workspacetemplates", both, []string{"vpc", "eks", "shared"}, f.in(f.a).Templates()),
		newKind(2, infrastructure, "PlanRequest", "planrequests", hub, []string{"h0"}, []string{
			"{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: PlanRequest, spec: {scope: Namespace}}",
			"{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: PlanRequest, spec: {template: {name: shared, spec: {template: {spec: {forProvider: {source: Inline, module: x}}}}}}}",
		}),
		newKind(2, "cluster.x-k8s.io", "Cluster", "clusters", hub, clusters, []string{fixture.ClusterNamed("demo"), fixture.ClusterNamed("h0")}),
		newKind(1, "apps", "ControllerRevision", "controllerrevisions", core, []string{"shared-1"}, []string{"{apiVersion: apps/v1, kind: ControllerRevision, revision: 1, data: {}}"}),
		newKind(1, "tf.m.upbound.io", "Workspace", "workspaces", []string{"v1beta1"}, applies, []string{
			"{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, spec: {forProvider: {source: Inline, module: 'output \"x\" { value = 1 }'}}}",
		}))
}

func newKind(weight int, group, name, resource string, versions, names, manifests []string) *kind {
	return &kind{GroupKind: schema.GroupKind{Group: group, Kind: name}, resource: resource, versions: versions, weight: weight, names: names, manifests: manifests}
}

// machinePools are CAPTMachinePools: a new one, and one that names what another object has.
func machinePools() []string {
	return []string{
		"{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTMachinePool, metadata: {labels: {cluster.x-k8s.io/cluster-name: demo}}, spec: {workspaceTemplateRef: {name: eks}, scaling: {minSize: 1, maxSize: 2}}}",
		"{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTMachinePool, metadata: {labels: {cluster.x-k8s.io/cluster-name: demo}}, " +
			"spec: {workspaceTemplateRef: {name: eks}, nodeGroupName: demo, workspaceTemplateApplyRef: {name: demo-eks-controlplane-apply}, providerIDList: [a]}}",
	}
}

// templates are the templates of ClusterClasses with the specs of objects.
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
