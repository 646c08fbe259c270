// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts between v1beta1, the version of CAPT v0.3, and v1beta2, the hub and storage version. The conversion webhook
// and captctl call the same functions.
//
// Every conversion is total (it converts every object that an API server can send), pure (no API calls; the source is not modified, and the
// result does not share memory with it), and lossless in both directions, through package preserve. For each kind, the functions …ToHub and
// …ToSpoke are the plain rules, and a Kind has the lossless conversions that preserve makes of them. The plain rules convert the fields that both
// versions have:
//
//   - They set the defaults of the CRD of the target version, so that the first write in that version does not change the object and its
//     metadata.generation.
//   - Where the meaning allows it, they correct values of v1beta1 that the CRD of v1beta2 rejects. Where it does not, the value is converted
//     unchanged, and the object can be read, labeled and deleted; see the comments of the functions.
package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// path is the path at which controller-runtime serves conversion, for all kinds.
const path = "/convert"

// Kind converts the objects of one kind.
type Kind[Hub, Spoke client.Object] struct {
	up   *preserve.Converter[Spoke, Hub]
	down *preserve.Converter[Hub, Spoke]
}

func newKind[Hub, Spoke client.Object](toHub func(Spoke, Hub), toSpoke func(Hub, Spoke)) Kind[Hub, Spoke] {
	return Kind[Hub, Spoke]{up: preserve.New(toHub, toSpoke), down: preserve.New(toSpoke, toHub)}
}

// ToHub converts an object of v1beta1.
func (k Kind[Hub, Spoke]) ToHub(_ context.Context, src Spoke, dst Hub) error {
	return k.up.Convert(src, dst)
}

// ToSpoke converts an object to v1beta1.
func (k Kind[Hub, Spoke]) ToSpoke(_ context.Context, src Hub, dst Spoke) error {
	return k.down.Convert(src, dst)
}

func (k Kind[Hub, Spoke]) converter(scheme *runtime.Scheme) (conversion.Converter, error) {
	hub, spoke := reflect.New(reflect.TypeFor[Hub]().Elem()).Interface().(Hub), reflect.New(reflect.TypeFor[Spoke]().Elem()).Interface().(Spoke)
	return conversion.NewHubSpokeConverter(hub, conversion.NewSpokeConverter(spoke, k.ToSpoke, k.ToHub))(scheme)
}

// constructors returns the function that makes the converter of each kind that has more than one version.
func constructors() map[schema.GroupKind]func(*runtime.Scheme) (conversion.Converter, error) {
	return map[schema.GroupKind]func(*runtime.Scheme) (conversion.Converter, error){
		infrav1.GroupVersion.WithKind("CAPTCluster").GroupKind():                     CAPTCluster.converter,
		infrav1.GroupVersion.WithKind("WorkspaceTemplate").GroupKind():               WorkspaceTemplate.converter,
		infrav1.GroupVersion.WithKind("WorkspaceTemplateApply").GroupKind():          WorkspaceTemplateApply.converter,
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane").GroupKind():         CAPTControlPlane.converter,
		controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate").GroupKind(): CAPTControlPlaneTemplate.converter,
	}
}

// Kinds are the kinds that have more than one version.
func Kinds() []schema.GroupKind { return slices.Collect(maps.Keys(constructors())) }

// AddToScheme adds both versions of every kind to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(infrav1beta1.AddToScheme, infrav1.AddToScheme,
		controlplanev1beta1.AddToScheme, controlplanev1.AddToScheme)
	return builder.AddToScheme(scheme)
}

// AddToRegistry adds the converters of all kinds. The scheme must have both versions, see AddToScheme.
func AddToRegistry(scheme *runtime.Scheme, registry conversion.Registry) error {
	for kind, construct := range constructors() {
		converter, err := construct(scheme)
		if err != nil {
			return fmt.Errorf("converter of %s: %w", kind, err)
		}
		if err := registry.RegisterConverter(kind, converter); err != nil {
			return err
		}
	}
	return nil
}

// SetupWebhookWithManager adds the conversion of all kinds to the manager's webhook server. Do not call WithConverter of the webhook
// builder for the same kinds: a converter can be registered only once.
func SetupWebhookWithManager(mgr ctrl.Manager, metrics prometheus.Registerer) error {
	if err := AddToRegistry(mgr.GetScheme(), mgr.GetConverterRegistry()); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(path, conversion.NewWebhookHandler(mgr.GetScheme(), NewCountingRegistry(mgr.GetConverterRegistry(), metrics)))
	return nil
}

// countingRegistry counts conversions. The metric of controller-runtime counts the requests of the API server, which have many objects of one kind,
// and have HTTP status 200 even if a conversion fails.
type countingRegistry struct {
	conversion.Registry
	requests *prometheus.CounterVec
}

// NewCountingRegistry returns a registry whose converters count in capt_conversion_requests_total{kind,to,result}: the objects that the API server
// requested in version to, by result success or error. It panics when the metric is already registered.
func NewCountingRegistry(converters conversion.Registry, metrics prometheus.Registerer) conversion.Registry {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capt_conversion_requests_total", Help: "Objects that the API server requested in another version.",
	}, []string{"kind", "to", "result"})
	metrics.MustRegister(requests)
	return countingRegistry{converters, requests}
}

func (r countingRegistry) GetConverter(kind schema.GroupKind) (conversion.Converter, bool) {
	found, ok := r.Registry.GetConverter(kind)
	return countingConverter{found, kind.Kind, r.requests}, ok
}

type countingConverter struct {
	conversion.Converter
	kind     string
	requests *prometheus.CounterVec
}

func (c countingConverter) ConvertObject(ctx context.Context, src, dst runtime.Object) error {
	err := c.Converter.ConvertObject(ctx, src, dst)
	result := "success"
	if err != nil {
		result = "error"
	}
	c.requests.WithLabelValues(c.kind, dst.GetObjectKind().GroupVersionKind().Version, result).Inc()
	return err
}

// NewRegistry returns a scheme and a registry with the converters of all kinds, for use without a manager.
func NewRegistry() (*runtime.Scheme, conversion.Registry) {
	scheme, registry := runtime.NewScheme(), conversion.NewRegistry()
	utilruntime.Must(AddToScheme(scheme))
	utilruntime.Must(AddToRegistry(scheme, registry))
	return scheme, registry
}

// Convert converts an object to a version without an API server, through JSON as the webhook does.
func Convert(
	ctx context.Context, scheme *runtime.Scheme, registry conversion.Registry, object *unstructured.Unstructured, version string,
) (*unstructured.Unstructured, error) {
	before := object.GroupVersionKind()
	after := before.GroupKind().WithVersion(version)
	converter, found := registry.GetConverter(before.GroupKind())
	if !found {
		return nil, fmt.Errorf("%s has no other version", before.Kind)
	}
	from, fromErr := scheme.New(before)
	to, toErr := scheme.New(after)
	if err := errors.Join(fromErr, toErr); err != nil {
		return nil, err
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(data, from); err != nil {
		return nil, err
	}
	to.GetObjectKind().SetGroupVersionKind(after)
	if err := converter.ConvertObject(ctx, from, to); err != nil {
		return nil, err
	}
	if data, err = json.Marshal(to); err != nil {
		return nil, err
	}
	converted := &unstructured.Unstructured{}
	return converted, converted.UnmarshalJSON(data)
}
