// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capt-provider/capt/api/bootstrap/v1beta2"
	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// sample is one object of a file, as written and as decoded.
type sample struct {
	file   string
	raw    map[string]any
	object client.Object
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1beta1.AddToScheme, corev1.AddToScheme,
	} {
		require.NoError(t, add(s))
	}
	return s
}

// load reads all samples. All files in and below one directory belong together; the name of the directory is the flavor.
func load(t *testing.T) map[string][]sample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	deeper, err := filepath.Glob(filepath.Join("*", "*", "*.yaml"))
	require.NoError(t, err)
	files = append(files, deeper...)
	flavors := map[string][]sample{}
	for _, file := range files {
		flavor, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		flavors[flavor] = append(flavors[flavor], read(t, file, nil)...)
	}
	for flavor, more := range clusterctlTemplates(t) {
		flavors[flavor] = append(more, flavors["aws"]...)
	}
	return flavors
}

// clusterctlTemplates reads the cluster templates for clusterctl, with the variables that have no default. They use the WorkspaceTemplates of
// the sample for AWS.
func clusterctlTemplates(t *testing.T) map[string][]sample {
	t.Helper()
	values := map[string]string{
		"CLUSTER_NAME": "generated", "NAMESPACE": "default", "KUBERNETES_VERSION": "v1.35.0", "AWS_REGION": "eu-central-1", "CAPT_PUBLIC_CIDRS": `["203.0.113.0/24"]`,
	}
	files, err := filepath.Glob(filepath.Join("..", "clusterctl", "cluster*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	flavors := map[string][]sample{}
	for _, file := range files {
		flavor := strings.Replace(filepath.Base(file), "clusterclass-capt", "cluster-template-clusterclass", 1) // They belong together.
		flavors[flavor] = append(flavors[flavor], read(t, file, values)...)
	}
	return flavors
}

// clusterctlVariable is a variable of a template, with or without a default.
var clusterctlVariable = regexp.MustCompile(`\$\{([A-Z_]+)(:=([^}]*))?\}`)

// read reads a file, and replaces the variables of clusterctl if there are values.
func read(t *testing.T, file string, values map[string]string) (samples []sample) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	if values != nil {
		data = clusterctlVariable.ReplaceAllFunc(data, func(found []byte) []byte {
			parts := clusterctlVariable.FindSubmatch(found)
			if value, ok := values[string(parts[1])]; ok {
				return []byte(value)
			}
			require.NotEmpty(t, parts[3], "%s: variable %s has no default", file, parts[1])
			return parts[3]
		})
	}
	for _, document := range strings.Split("\n"+string(data), "\n---\n") {
		s := sample{file: file, raw: map[string]any{}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &s.raw), file)
		s.object = decode(t, s.raw, document)
		samples = append(samples, s)
	}
	return samples
}

// decode decodes an object, with the defaults that admission sets. An unknown field is an error.
func decode(t *testing.T, raw map[string]any, document string) client.Object {
	t.Helper()
	apiVersion, _ := raw["apiVersion"].(string)
	kind, _ := raw["kind"].(string)
	object, err := scheme(t).New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if kind == "ClusterProviderConfig" {
		return &unstructured.Unstructured{Object: raw} // There is no Go type; the schema test covers its fields.
	}
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), object))
	if template, ok := object.(*infrav1.WorkspaceTemplate); ok {
		validation.SetTemplateDefaults(template)
	}
	return object.(client.Object)
}

// kubectl apply -f of a directory applies files in the order of their names. A Cluster that comes before its templates causes
// warnings.
func TestClustersAreAppliedAfterTheirTemplates(t *testing.T) {
	for _, pattern := range []string{filepath.Join("*", "*.yaml"), filepath.Join("*", "*", "*.yaml")} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		last := map[string]string{}
		for _, file := range files {
			last[filepath.Dir(file)] = filepath.Base(file)
		}
		require.NotEmpty(t, last)
		for dir, file := range last {
			require.Equal(t, "workload-cluster.yaml", file, dir)
		}
	}
}

// The spec of a Workspace keeps unknown fields. Everywhere else, decode reports them.
func TestSamplesHaveNoUnknownFields(t *testing.T) {
	for _, samples := range load(t) {
		for _, template := range ofKind[*infrav1.WorkspaceTemplate](samples) {
			require.Empty(t, template.Spec.Template.Spec.Unknown, template.Name)
			require.Empty(t, template.Spec.Template.Spec.ForProvider.Unknown, template.Name)
		}
	}
}

// requireContains reports which field of want is not in have, or has another value there.
func requireContains(t *testing.T, have, want any, path string) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		fields, ok := have.(map[string]any)
		require.True(t, ok, "%s is not an object", path)
		for name, value := range want {
			require.Contains(t, fields, name, "%s.%s is not known", path, name)
			requireContains(t, fields[name], value, path+"."+name)
		}
	case []any:
		list, ok := have.([]any)
		require.True(t, ok, "%s is not a list", path)
		require.Len(t, list, len(want), path)
		for i := range want {
			requireContains(t, list[i], want[i], path)
		}
	default:
		require.EqualValues(t, want, have, path)
	}
}

func TestSampleTemplatesPassExactlyTheVariablesOfTheirModules(t *testing.T) {
	for _, samples := range load(t) {
		for _, template := range ofKind[*infrav1.WorkspaceTemplate](samples) {
			t.Run(template.Name, func(t *testing.T) { requireValid(t, template) })
		}
	}
}

// requireValid requires that a template is valid, and leaves to CAPT what it passes: each variable that the module declares, with its type.
func requireValid(t *testing.T, template *infrav1.WorkspaceTemplate) {
	t.Helper()
	require.Empty(t, validation.ValidateWorkspaceTemplate(template))
	params := template.Spec.Template.Spec.ForProvider
	require.Empty(t, params.Vars)
	require.NotContains(t, params.Module, "jsondecode(var.")
	require.True(t, template.Spec.HasLiteralModule())
	declared := modules.ParseTemplate(&template.Spec).Declarations()
	for _, variable := range declared.Variables {
		require.NotEmpty(t, variable.TypeText, variable.Name)
	}
	require.Equal(t, sets.KeySet(declared.Variables), modules.TemplateInterface(&template.Spec).Names())
}

// TestSampleClustersSetEveryVariableOfTheirTemplates renders each template for its users, as CAPT does.
func TestSampleClustersSetEveryVariableOfTheirTemplates(t *testing.T) {
	for flavor, samples := range load(t) {
		t.Run(flavor, func(t *testing.T) {
			templates := map[string]*infrav1.WorkspaceTemplate{}
			for _, template := range ofKind[*infrav1.WorkspaceTemplate](samples) {
				templates[template.Name] = template
			}
			clusters := ofKind[*infrav1.CAPTCluster](samples)
			for _, c := range ofKind[*infrav1.CAPTClusterTemplate](samples) {
				clusters = append(clusters, &infrav1.CAPTCluster{Spec: infrav1.CAPTClusterSpec{CAPTClusterTemplateResourceSpec: c.Spec.Template.Spec}})
			}
			for _, c := range clusters {
				requireRendered(t, templates[c.Spec.VPC.Template.Ref.Name], desired.VPCIntent(c, "demo").Variables)
			}
			controlPlanes := ofKind[*controlplanev1.CAPTControlPlane](samples)
			for _, c := range ofKind[*controlplanev1.CAPTControlPlaneTemplate](samples) {
				controlPlanes = append(controlPlanes, &controlplanev1.CAPTControlPlane{Spec: controlplanev1.CAPTControlPlaneSpec{
					CAPTControlPlaneTemplateResourceSpec: c.Spec.Template.Spec, Version: "v1.35.0",
				}})
			}
			for _, c := range controlPlanes {
				requireRendered(t, templates[c.Spec.WorkspaceTemplateRef.Name], controlPlaneVariables(t, c, nil, nil))
				for i := range c.Spec.FargateProfiles {
					requireRendered(t, templates[c.Spec.FargateProfiles[i].WorkspaceTemplateRef.Name], fargateVariables(c, i))
				}
			}
			for _, a := range ofKind[*infrav1.WorkspaceTemplateApply](samples) {
				requireRendered(t, templates[a.Spec.TemplateRef.Name], a.Spec.Variables)
			}
		})
	}
}

// controlPlaneVariables are the variables of a new control plane. The Cluster may be nil.
func controlPlaneVariables(t *testing.T, c *controlplanev1.CAPTControlPlane, cluster *clusterv1.Cluster, template *infrav1.WorkspaceTemplate) infrav1.Variables {
	t.Helper()
	of := desired.NewControlPlane(c, cluster, nil)
	if cluster != nil {
		of.Template = &desired.TemplateFacts{Template: template}
	}
	intent, err := of.Intent("demo", "vpc-0123456789abcdef0")
	require.NoError(t, err)
	variables := intent.For(nil).Variables
	variables[naming.RegionVariable] = infrav1.TextValue("eu-central-1")
	return variables
}

// fargateVariables are the variables of a Fargate profile of a control plane.
func fargateVariables(c *controlplanev1.CAPTControlPlane, profile int) infrav1.Variables {
	return desired.FargateIntent(c, &c.Spec.FargateProfiles[profile], desired.EKSCluster{
		Name: "demo", EKSName: "demo", Region: "eu-central-1", VPCSecretName: "demo-vpc-connection", ConnectionName: "demo-eks-connection",
	}).Variables
}

// requireRendered requires that a template can be rendered, and passes all values that its module needs.
func requireRendered(t *testing.T, template *infrav1.WorkspaceTemplate, variables infrav1.Variables) {
	t.Helper()
	require.NotNil(t, template, "the sample refers to a template of another directory")
	params, errs := rendered(template, variables)
	require.Empty(t, errs)
	passed := modules.VarMap(params)
	for name, variable := range modules.ParseTemplate(&template.Spec).Declarations().Variables {
		if !variable.HasDefault {
			require.Contains(t, passed, name)
		}
	}
}

// rendered renders a template.
func rendered(template *infrav1.WorkspaceTemplate, variables infrav1.Variables) (terraform.WorkspaceParameters, field.ErrorList) {
	apply := &infrav1.WorkspaceTemplateApply{}
	apply.Name, apply.Namespace, apply.Spec.Variables = "demo", template.Namespace, variables
	out, errs := render.Workspace(render.Input{Apply: apply, Template: template, Name: "demo"})
	if len(errs) > 0 {
		return terraform.WorkspaceParameters{}, errs
	}
	workspace := terraform.Workspace{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(out.Object.Object, &workspace); err != nil {
		errs = append(errs, field.InternalError(nil, err))
	}
	return workspace.Spec.ForProvider, errs
}

func TestSampleClustersReferToObjectsOfTheSameSample(t *testing.T) {
	for flavor, samples := range load(t) {
		t.Run(flavor, func(t *testing.T) {
			var names []string
			for _, s := range samples {
				names = append(names, s.raw["kind"].(string)+"/"+s.object.GetNamespace()+"/"+s.object.GetName())
			}
			clusters := ofKind[*clusterv1.Cluster](samples)
			require.NotEmpty(t, clusters)
			for _, class := range ofKind[*clusterv1.ClusterClass](samples) {
				for _, ref := range []clusterv1.ClusterClassTemplateReference{class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane.TemplateRef} {
					require.Contains(t, names, ref.Kind+"/"+class.Namespace+"/"+ref.Name)
				}
			}
			for _, cluster := range clusters {
				if cluster.Spec.Topology.IsDefined() {
					require.Contains(t, names, "ClusterClass/"+cluster.Namespace+"/"+cluster.Spec.Topology.ClassRef.Name)
					continue
				}
				for _, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef} {
					require.True(t, slices.Contains(names, ref.Kind+"/"+cluster.Namespace+"/"+ref.Name), "%s is missing", ref)
				}
			}
		})
	}
}

// A WorkspaceTemplateApply that users create, such as a node group, refers to its Cluster by names of the naming scheme.
func TestSampleWorkspaceTemplateAppliesWaitForTheirControlPlane(t *testing.T) {
	found := ofKind[*infrav1.WorkspaceTemplateApply](load(t)["aws"])
	require.NotEmpty(t, found)
	for _, apply := range found {
		cluster := apply.Labels[clusterv1.ClusterNameLabel]
		require.Equal(t, cluster, apply.Spec.Variables.Text(naming.ClusterVariable), apply.Name)
		controlPlane := types.NamespacedName{Namespace: apply.Namespace, Name: naming.ControlPlaneWorkspaceTemplateApply(cluster)}
		require.Contains(t, apply.Spec.WaitForWorkspaces, infrav1.WorkspaceDependency{Name: naming.Workspace(terraform.ScopeNamespaced, controlPlane)}, apply.Name)
		for _, secret := range apply.Spec.WaitForSecrets {
			require.Equal(t, naming.VPCConnectionSecret(cluster), secret.Name, apply.Name)
		}
	}
}

func ofKind[O client.Object](samples []sample) (objects []O) {
	for _, s := range samples {
		if object, ok := s.object.(O); ok {
			objects = append(objects, object)
		}
	}
	return objects
}
