// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts between v1beta1, the version of CAPT v0.3, and v1beta2, the hub and storage version. The conversion webhook
// and captctl call the same functions.
//
// Every conversion is total (it converts every object that an API server can send), pure (no API calls; the source is not modified, and the
// result does not share memory with it), and lossless in both directions, through package preserve. For each kind, the functions …ToHub and
// …ToSpoke are the plain rules, and the variables …Up (to the hub) and …Down (to v1beta1) the lossless conversions that preserve makes of
// them. The plain rules convert the fields that both versions have:
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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/webhooks/conversion/counted"
)

// path is the path at which controller-runtime serves conversion, for all kinds.
const path = "/convert"

// Constructor returns the converter of a kind. WithConverter of controller-runtime's webhook builder has a parameter of this type.
type Constructor = func(*runtime.Scheme) (conversion.Converter, error)

// Constructors lists the converter of each kind that has more than one version.
func Constructors() map[schema.GroupKind]Constructor {
	return map[schema.GroupKind]Constructor{
		infrav1.GroupVersion.WithKind("CAPTCluster").GroupKind():                     CAPTCluster,
		infrav1.GroupVersion.WithKind("WorkspaceTemplate").GroupKind():               WorkspaceTemplate,
		infrav1.GroupVersion.WithKind("WorkspaceTemplateApply").GroupKind():          WorkspaceTemplateApply,
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane").GroupKind():         CAPTControlPlane,
		controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate").GroupKind(): CAPTControlPlaneTemplate,
	}
}

// AddToScheme adds both versions of every kind to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(infrav1beta1.AddToScheme, infrav1.AddToScheme,
		controlplanev1beta1.AddToScheme, controlplanev1.AddToScheme)
	return builder.AddToScheme(scheme)
}

// AddToRegistry adds the converters of all kinds to the registry of a manager or of captctl. The scheme must have both versions, see
// AddToScheme.
func AddToRegistry(scheme *runtime.Scheme, registry conversion.Registry) error {
	for kind, construct := range Constructors() {
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
// builder for the same kinds: a converter can be registered only once. Conversions are counted in a metric, see package counted.
func SetupWebhookWithManager(mgr ctrl.Manager, metrics prometheus.Registerer) error {
	if err := AddToRegistry(mgr.GetScheme(), mgr.GetConverterRegistry()); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(path, conversion.NewWebhookHandler(mgr.GetScheme(), counted.NewRegistry(mgr.GetConverterRegistry(), metrics)))
	return nil
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
