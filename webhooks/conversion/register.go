// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion converts between v1beta1, in which CAPT v0.3's objects are, and v1beta2, the hub and storage
// version. The conversion webhook and captctl call the same functions.
//
// Every function is total (whatever an API server can send is converted), pure (no API calls, and the source is neither
// changed nor shared), and lossless in both directions: package carry sees to that. What is left to this package are the
// plain rules, what the fields of one version mean in the other:
//
//   - Towards v1beta2 the rules also set what the CRD would set by default, so that the first write in v1beta2 changes
//     nothing, metadata.generation least of all. Towards v1beta1 they do the same with the defaults of that version.
//   - Towards v1beta2 the rules avoid what the CRD would refuse, where the meaning allows it. Where it does not, the
//     object is converted as it is and can be read, labeled and deleted; see docs on the functions.
package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
)

// path at which controller-runtime serves the conversion of every kind.
const path = "/convert"

// Constructor makes the converter of one kind, as WithConverter of controller-runtime's webhook builder takes it.
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

// AddToRegistry adds the converters of all kinds to a registry: the registry of a manager, or that of captctl. The scheme
// has to know both versions (AddToScheme).
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

// SetupWebhookWithManager serves the conversion of all kinds from the manager's webhook server. Do not give the same
// kinds to WithConverter of the webhook builder as well: a converter can be registered once.
func SetupWebhookWithManager(mgr ctrl.Manager) error {
	if err := AddToRegistry(mgr.GetScheme(), mgr.GetConverterRegistry()); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(path, conversion.NewWebhookHandler(mgr.GetScheme(), mgr.GetConverterRegistry()))
	return nil
}

// NewRegistry makes a scheme and a registry that convert all kinds, for those who have no manager.
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
