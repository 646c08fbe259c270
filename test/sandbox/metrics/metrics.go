// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads what a process tells of itself in the format of Prometheus.
package metrics

import (
	"context"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Families are the metrics of a process, by their names.
type Families map[string]*dto.MetricFamily

// Read asks for the metrics at an address.
func Read(ctx context.Context, url string) (Families, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(response.Body)
}

// By is the value of a metric, counter or gauge, in the sum for each value of a label.
func (f Families) By(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, metric := range f[name].GetMetric() {
		sums[valueOf(metric, label)] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return sums
}

// Sum is the value of metrics in the sum over their labels.
func (f Families) Sum(names ...string) (sum float64) {
	for _, name := range names {
		for _, value := range f.By(name, "") {
			sum += value
		}
	}
	return sum
}

// Histogram is the one that has a value of a label; nil when there is none.
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
