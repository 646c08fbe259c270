// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package counted counts conversions. The metric of controller-runtime counts the requests of the API server, which have many objects of one
// kind, and have HTTP status 200 even if a conversion fails.
package counted

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// Registry is a registry whose converters count in capt_conversion_requests_total{kind,to,result}: the objects that the API server requested in
// version to, by result success or error.
type Registry struct {
	conversion.Registry
	requests *prometheus.CounterVec
}

// NewRegistry registers the metric. It panics when it is already registered.
func NewRegistry(converters conversion.Registry, metrics prometheus.Registerer) *Registry {
	r := &Registry{converters, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_conversion_requests_total", Help: "Objects that the API server requested in another version.",
	}, []string{"kind", "to", "result"})}
	metrics.MustRegister(r.requests)
	return r
}

// GetConverter implements conversion.Registry.
func (r *Registry) GetConverter(kind schema.GroupKind) (conversion.Converter, bool) {
	found, ok := r.Registry.GetConverter(kind)
	return converter{found, kind.Kind, r.requests}, ok
}

type converter struct {
	conversion.Converter
	kind     string
	requests *prometheus.CounterVec
}

// ConvertObject implements conversion.Converter.
func (c converter) ConvertObject(ctx context.Context, src, dst runtime.Object) error {
	result := "success"
	err := c.Converter.ConvertObject(ctx, src, dst)
	if err != nil {
		result = "error"
	}
	c.requests.WithLabelValues(c.kind, dst.GetObjectKind().GroupVersionKind().Version, result).Inc()
	return err
}
