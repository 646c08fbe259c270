// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

var chartTemplates = sync.OnceValues(func() (map[string][]byte, error) { return newChart(root, byDefault.image, byDefault.tag) })

// helm loads the packaged chart as Helm does.
func helm(t *testing.T) *v2.Chart {
	t.Helper()
	files, err := chartTemplates()
	require.NoError(t, err)
	data, err := packageChart(files, time.Unix(0, 0))
	require.NoError(t, err)
	chart, err := loader.LoadArchive(bytes.NewReader(data))
	require.NoError(t, err)
	require.NoError(t, chart.Validate())
	return chart
}

// install renders the chart; the Namespace is what Helm itself creates.
func install(t *testing.T, chart *v2.Chart, namespace string, values map[string]any) (map[string]object, error) {
	t.Helper()
	options := common.ReleaseOptions{Name: "capt", Namespace: namespace, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	require.NoError(t, err)
	var documents []string
	for _, name := range sorted(files) {
		if strings.HasSuffix(name, ".yaml") {
			documents = append(documents, files[name])
		} else {
			assert.Contains(t, files[name], "CAPT v0.4.0 is installed in namespace "+namespace)
		}
	}
	return decode(t, []byte(strings.Join(documents, "\n"))), nil
}

// The chart installs the same objects as kustomize, with the same names. Its CRDs remain when it is removed.
func TestChartInstallsWhatKustomizeInstalls(t *testing.T) {
	chart := helm(t)
	for _, names := range []installation{byDefault, elsewhere} {
		got, err := install(t, chart, names.namespace, map[string]any{"namePrefix": names.prefix})
		require.NoError(t, err)
		want := rendered(t, names)
		delete(want, "Namespace/"+names.namespace)
		for key, o := range want {
			if strings.HasPrefix(key, "CustomResourceDefinition/") {
				annotations(o)["helm.sh/resource-policy"] = "keep"
			}
		}
		requireEqual(t, want, got)
	}
}

func TestChartWithoutCertManager(t *testing.T) {
	got, err := install(t, helm(t), "elsewhere", map[string]any{"certificates": map[string]any{"certManager": false, "secretName": "mine", "caBundle": "Q0E="}})
	require.NoError(t, err)
	bundles := 0
	for key, o := range got {
		assert.NotContains(t, o["apiVersion"], "cert-manager", key)
		assert.Nil(t, field(o, "metadata", "annotations", "cert-manager.io/inject-ca-from"), key)
		if client := field(o, "spec", "conversion", "webhook", "clientConfig"); client != nil {
			bundles++
			assert.Equal(t, "Q0E=", field(client, "caBundle"), key)
		}
		webhooks, _ := o["webhooks"].([]any)
		for _, webhook := range webhooks {
			bundles++
			assert.Equal(t, "Q0E=", field(webhook, "clientConfig", "caBundle"), key)
		}
	}
	assert.Greater(t, bundles, 5)
	volume := field(got["Deployment/capt-manager"], "spec", "template", "spec", "volumes").([]any)[0]
	assert.Equal(t, "mine", field(volume, "secret", "secretName"))
}

func TestChartSetsTheDeployment(t *testing.T) {
	got, err := install(t, helm(t), "elsewhere", map[string]any{
		"image": map[string]any{"repository": "r.example.org/m", "tag": "v9", "pullPolicy": "Always"}, "imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"replicas": 3, "extraArgs": []any{"--state-prefix=a"}, "nodeSelector": map[string]any{"a": "b"}, "priorityClassName": "high",
		"resources": map[string]any{"requests": map[string]any{"cpu": "1"}, "limits": nil}, "podAnnotations": map[string]any{"c": "d"},
		"serviceAccount": map[string]any{"annotations": map[string]any{"e": "f"}}, "crds": map[string]any{"install": false},
	})
	require.NoError(t, err)
	spec := field(got["Deployment/capt-manager"], "spec")
	pod := field(spec, "template", "spec")
	container := field(pod, "containers").([]any)[0]
	assert.EqualValues(t, 3, field(spec, "replicas"))
	assert.Equal(t, "r.example.org/m:v9", field(container, "image"))
	assert.Equal(t, "Always", field(container, "imagePullPolicy"))
	assert.Equal(t, []any{"--leader-elect", "--state-prefix=a"}, field(container, "args"))
	assert.Equal(t, "1", field(container, "resources", "requests", "cpu"))
	assert.Nil(t, field(container, "resources", "limits"))
	assert.Equal(t, []any{object{"name": "pull"}}, field(pod, "imagePullSecrets"))
	assert.Equal(t, object{"a": "b"}, field(pod, "nodeSelector"))
	assert.Equal(t, "high", field(pod, "priorityClassName"))
	assert.Equal(t, object{"c": "d", "kubectl.kubernetes.io/default-container": "manager"}, field(spec, "template", "metadata", "annotations"))
	assert.Equal(t, object{"e": "f"}, field(got["ServiceAccount/capt-manager"], "metadata", "annotations"))
	for key := range got {
		assert.NotContains(t, key, "CustomResourceDefinition")
	}
}

func TestChartRejectsValuesThatItDoesNotKnow(t *testing.T) {
	chart := helm(t)
	for want, values := range map[string]map[string]any{
		"replica":    {"replica": 1},
		"caBundle":   {"certificates": map[string]any{"certManager": false}},
		"extraArgs":  {"extraArgs": []any{"state-prefix"}},
		"replicas":   {"replicas": 0},
		"namePrefix": {"namePrefix": "Upper"},
	} {
		_, err := install(t, chart, "elsewhere", values)
		assert.ErrorContains(t, err, want)
	}
}
