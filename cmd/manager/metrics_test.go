// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	webhookconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/webhooks/conversion"
)

var (
	fqName = regexp.MustCompile(`fqName: "([^"]+)"`)
	// metricName matches names of metrics in queries and documents; tools/rules tests that queries have no others.
	metricName = regexp.MustCompile(`\b(?:capt|controller_runtime|workqueue|rest_client|leader_election|certwatcher)_[a-z_]+[a-z]\b`)
	// ofHistogram are the suffixes of the series of a histogram.
	ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	literal     = regexp.MustCompile(`"(capt_[a-z_]+)"`)
)

// registered returns the names of all metrics of the manager.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics.NewManager(registry, "")
	metrics.NewObjects(registry, metrics.ObjectsOptions{})
	metrics.NewReconciles(registry)
	metrics.NewUnclaimed(registry)
	metrics.NewKubeconfigs(registry)
	metrics.NewFargate(registry)
	metrics.NewHealth(registry)
	metrics.NewRecovery(registry)
	adoption.NewMetrics(registry)
	metrics.NewPreviews(registry, nil)
	metrics.NewPlans(registry)
	conversion.NewCountingRegistry(webhookconversion.NewRegistry(), registry)
	names := map[string]bool{}
	for _, collector := range []prometheus.Collector{registry, ctrlmetrics.Registry.(prometheus.Collector)} {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			collector.Describe(descriptions)
		}()
		for description := range descriptions {
			names[fqName.FindStringSubmatch(description.String())[1]] = true
		}
	}
	return names
}

// mentioned returns the names of metrics in a file.
func mentioned(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range metricName.FindAllString(string(text), -1) {
		names[name] = true
	}
	return names
}

func TestMentionedMetricsExist(t *testing.T) {
	exist := registered(t)
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, file := range append(files, "../../config/prometheus/rules.yaml", "../../config/grafana/capt.json") {
		for name := range mentioned(t, file) {
			assert.True(t, exist[name] || exist[ofHistogram.ReplaceAllString(name, "")], "%s mentions %s, which does not exist", file, name)
		}
	}
	assert.NotEmpty(t, mentioned(t, "../../config/prometheus/rules.yaml"))
	assert.NotEmpty(t, mentioned(t, "../../config/grafana/capt.json"))
}

func TestEveryMetricIsDocumented(t *testing.T) {
	documented := mentioned(t, "../../docs/metrics.md")
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(registered(t))), func(name string) bool { return !strings.HasPrefix(name, "capt_") })
	for _, name := range ours {
		assert.True(t, documented[name], "docs/metrics.md has no %s", name)
	}
	inCode := map[string]bool{"capt_build_info": true} // client_golang composes this name.
	for _, directory := range []string{"../../controllers", "../../webhooks", "."} {
		require.NoError(t, filepath.WalkDir(directory, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range literal.FindAllStringSubmatch(string(text), -1) {
				inCode[match[1]] = true
			}
			return err
		}))
	}
	assert.Equal(t, slices.Sorted(maps.Keys(inCode)), ours, "this test registers every metric that the code has")
}
