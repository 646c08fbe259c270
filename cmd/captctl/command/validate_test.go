// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const invalid = `# A comment.
apiVersion: v1
kind: ConfigMap
metadata: {name: ignored}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata:
  name: demo
spec:
  version: latest
  workspaceTemplateRef:
    name: eks
  timeouts:
    vpcReadySeconds: 60
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata:
  name: demo
spec:
  region: eu-central-1
  vpcs: {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata:
  name: eks
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "cluster_name" { type = string }
        vars:
        - {key: cluster_name, value: "${cluster_name}"}
        - {key: cluster_nam, value: x}
---
{{ if .Values.helm }}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: CaptControlPlane
metadata: {name: misspelled}
`

func TestValidateReportsFileLineAndColumn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.yaml")
	require.NoError(t, os.WriteFile(file, []byte(invalid), 0o600))
	out, _, err := run(t, name, "validate", "-f", file)
	assert.EqualError(t, err, "6 errors found")
	kinds := "CAPTBootstrapConfig of bootstrap.cluster.x-k8s.io/v1beta2"
	lines := strings.Split(strings.ReplaceAll(out, file, "all.yaml"), "\n")
	require.Len(t, lines, 11, out)
	for i, want := range []string{
		`all.yaml:11:3: error: CAPTControlPlane demo: spec.version: Invalid value: "latest": `,
		`all.yaml:21:1: error: CAPTCluster demo: spec: Invalid value: 1: spec in body should have at least 2 properties`,
		`all.yaml:21:1: error: CAPTCluster demo: spec.vpc: Required value`,
		`all.yaml:21:1: error: CAPTCluster demo: spec: Invalid value: further rules could not be evaluated. Correct the other errors first`,
		`all.yaml:23:3: error: CAPTCluster demo: spec.vpcs: Forbidden: unknown field; did you mean vpc?`,
		`all.yaml:34:9: warning: WorkspaceTemplate eks: spec.template.spec.forProvider.module: the module has no resource, data source, module or output`,
		`all.yaml:38:12: warning: WorkspaceTemplate eks: spec.template.spec.forProvider.vars[1].key: the module declares no variable "cluster_nam". `,
		`all.yaml:40:1: warning: this document contains {{, so it is a template of Helm or another program, and was not checked`,
		`all.yaml:43:1: error: CaptControlPlane misspelled: kind: Unsupported value: "CaptControlPlane of controlplane.cluster.x-k8s.io/v1alpha1": supported values: "` + kinds,
		`4 objects in 1 file checked: 9 findings`,
	} {
		assert.True(t, strings.HasPrefix(lines[i], want), lines[i])
	}

	out, _, err = run(t, name, "validate", "-f", written(t, strings.ReplaceAll(eksTemplate, "size = 1", "size =")+`---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: demo}
spec: {version: v1.35.0, workspaceTemplateRef: {name: elsewhere}}
`))
	require.Error(t, err)
	assert.Regexp(t, `edited.yaml:15:\d+: error: WorkspaceTemplate eks: spec.template.spec.forProvider.module: Invalid value: line 4, column \d+: `, out)
	assert.Contains(t, out, "WorkspaceTemplate elsewhere is not among the files. Nothing is created until it exists")

	out, _, err = run(t, name, "validate", file, "-o", "sarif")
	require.Error(t, err)
	var log map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &log))
	assert.Equal(t, "2.1.0", log["version"])
}

// Deleting either Cluster would destroy the EKS cluster and the VPC of the other.
func TestValidateReportsClustersThatShareObjects(t *testing.T) {
	cluster := func(name, captCluster, controlPlane string) string {
		return "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n" +
			"  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: " + captCluster + "}\n" +
			"  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: " + controlPlane + "}\n"
	}
	out, _, err := run(t, name, "validate", "-f", written(t, cluster("demo", "demo", "demo")+cluster("demo", "demo", "demo")+cluster("other", "other", "other")))
	require.NoError(t, err, out)
	out, _, err = run(t, name, "validate", "-f", written(t, cluster("demo", "demo", "demo")+cluster("copy", "demo", "own")+cluster("second", "other", "demo")))
	require.EqualError(t, err, "2 errors found", out)
	assert.Regexp(t, `:13:\d+: error: Cluster copy: spec.infrastructureRef.name: CAPTCluster demo belongs to Cluster demo \(\S+:2\), and can belong to one Cluster only`, out)
	assert.Regexp(t, `:21:\d+: error: Cluster second: spec.controlPlaneRef.name: CAPTControlPlane demo belongs to Cluster demo \(`, out)
}

func TestValidateReportsNamesOfEKSClusters(t *testing.T) {
	text, err := os.ReadFile("../../../config/samples/sandbox/workload-cluster.yaml")
	require.NoError(t, err)
	templates, err := os.ReadFile("../../../config/samples/sandbox/controlplane-template.yaml")
	require.NoError(t, err)
	out, _, err := run(t, name, "validate", "-f", written(t, strings.Replace(string(text), "name: demo", "name: team1.blue", 1)))
	require.Error(t, err, out)
	assert.Contains(t, out, `error: CAPTControlPlane demo: spec.eksClusterName: Required value: EKS does not accept "team1.blue", the name of the Cluster`)
	assert.Contains(t, out, `error: CAPTCluster demo: metadata.name: `)

	second := strings.ReplaceAll(string(text), "namespace: default", "namespace: other")
	second = strings.Replace(second, "    name: sandbox-controlplane\n", "    name: sandbox-controlplane\n    namespace: default\n", 1)
	shared := strings.Replace(string(templates), "spec:\n", "spec:\n  allowedNamespaces: {names: [other]}\n", 1)
	out, _, err = run(t, name, "validate", "-f", written(t, string(text)+"\n---\n"+second+"\n---\n"+shared))
	require.NoError(t, err, out)
	assert.Contains(t, out, "warning: CAPTControlPlane demo: spec.eksClusterName: EKS cluster demo in region eu-central-1 with ProviderConfig sandbox is that of a CAPTControlPlane of another namespace")
}

// The manifests that users of the documentation apply are valid.
func TestSamplesAreValid(t *testing.T) {
	for _, directory := range []string{"aws", "sandbox"} {
		out, _, err := run(t, name, "validate", "-R", "-f", filepath.Join("../../../config/samples", directory))
		require.NoError(t, err, out)
		assert.NotContains(t, out, "warning", out)
	}
	out, _, err := run(t, name, "validate", "-R", "-f", "../../../config/samples")
	require.NoError(t, err)
	assert.Contains(t, out, "CAPTCluster demo: metadata.name: the same object is in ", "of the two directories")
}

func TestValidateNeedsFiles(t *testing.T) {
	_, _, err := run(t, name, "validate")
	require.EqualError(t, err, "--filename is required: it names the manifests")
	_, _, err = run(t, name, "validate", "-f", "nowhere.yaml")
	assert.ErrorContains(t, err, "nowhere.yaml")
	_, _, err = run(t, name, "validate", "-f", t.TempDir())
	assert.ErrorContains(t, err, "so nothing was checked; -R also reads subdirectories")
}

func TestValidateFailsForAFileThatIsNoYAML(t *testing.T) {
	for text, want := range map[string]string{
		"kind: [Cluster\n":        "edited.yaml:1:1: error: this document cannot be read: ",
		"a: 1\n---\na: 1\na: 2\n": "edited.yaml:3:1: error: this document cannot be read: ",
		"\tkind: Cluster\n":       "edited.yaml:1:1: error: this document cannot be read: ",
		"{\"kind\": \"Cluster\",": "edited.yaml:1:1: error: this document cannot be read: ",
	} {
		out, _, err := run(t, name, "validate", written(t, text))
		require.EqualError(t, err, "1 error found", text)
		assert.Contains(t, out, want)
	}
	for _, text := range []string{"- a list\n", "text\n", "{{ template }}\n", "# a comment\n"} {
		out, _, err := run(t, name, "validate", written(t, text))
		require.NoError(t, err, out)
	}
}

func TestValidateReportsReferencesToWrongKinds(t *testing.T) {
	text := "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: demo}\nspec:\n" +
		"  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}\n" +
		"  controlPlaneRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}\n---\n" +
		"apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachinePool\nmetadata: {name: demo}\nspec:\n  clusterName: demo\n  template:\n    spec:\n      clusterName: demo\n" +
		"      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: CaptConfig, name: demo}}\n" +
		"      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: demo}\n"
	out, _, err := run(t, name, "validate", written(t, text))
	require.EqualError(t, err, "4 errors found", out)
	for _, want := range []string{
		`:5:3: error: Cluster demo: spec.infrastructureRef: refers to kind CAPTControlPlane of group "infrastructure.cluster.x-k8s.io". Only kind CAPTCluster of group infrastructure.cluster.x-k8s.io can be used here`,
		`:6:3: error: Cluster demo: spec.controlPlaneRef: refers to kind CAPTControlPlane of group "infrastructure.cluster.x-k8s.io". Only kind CAPTControlPlane of group controlplane.`,
		`spec.template.spec.bootstrap.configRef: refers to kind CaptConfig of group "bootstrap.cluster.x-k8s.io". Only kind CAPTBootstrapConfig`,
		`spec.template.spec.infrastructureRef: refers to kind CAPTCluster of group "infrastructure.cluster.x-k8s.io". Only kind CAPTMachinePool`,
	} {
		assert.Contains(t, out, want)
	}
	other := strings.NewReplacer("kind: CAPTControlPlane, name: demo}\n  controlPlaneRef: {apiGroup: infrastructure", "kind: AWSCluster, name: demo}\n  controlPlaneRef: {apiGroup: controlplane").
		Replace(strings.SplitN(text, "---", 2)[0])
	out, _, err = run(t, name, "validate", written(t, other))
	require.NoError(t, err, out)
}
