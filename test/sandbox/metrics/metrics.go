// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads metrics in the Prometheus text format.
package metrics

import (
	"context"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Families are the metrics of a process by name.
type Families map[string]*dto.MetricFamily

// Text gets the metrics from a URL as they are.
func Text(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Read gets the metrics from a URL.
func Read(ctx context.Context, url string) (Families, error) {
	text, err := Text(ctx, url)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// By returns the sum of a counter or gauge for each value of a label.
func (f Families) By(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, metric := range f[name].GetMetric() {
		sums[valueOf(metric, label)] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sums
}

// Sum returns the sum of metrics over all labels.
func (f Families) Sum(names ...string) (sum float64) {
	for _, name := range names {
		for _, value := range f.By(name, "") {
			sum += value
		}
	}
	return sum
}

// Histogram returns the histogram with a value of a label, or nil.
func (f Families) Histogram(name, label, value string) *dto.Histogram {
	for _, metric := range f[name].GetMetric() {
		if valueOf(metric, label) == value {
			return metric.GetHistogram()
		}
	}
	return nil
}

func valueOf(metric *dto.Metric, label string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == label {
			return pair.GetValue()
		}
	}
	return ""
}
