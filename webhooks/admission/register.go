// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission serves CAPT's defaulting and validating webhooks. They are thin adapters: rules are in
// api/validation, names in api/naming.
package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// SetupWebhookWithManager serves the webhooks of all kinds from the manager's webhook server. namespace is the only one that
// the manager's cache holds; empty means all.
func SetupWebhookWithManager(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	if err := lookup.IndexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up the indexes of the webhooks: %w", err)
	}
	// A cached read may be a moment old. What decides what a new object becomes is read from the API server, but for what only an
	// index can find (lookup.Live): that is old when it matters.
	cached := lookup.Reader{Reader: mgr.GetClient(), Namespace: namespace, Elsewhere: mgr.GetAPIReader()}
	live := lookup.Reader{Reader: mgr.GetAPIReader()}
	for _, setup := range []func(ctrl.Manager, lookup.Reader, lookup.Reader) error{
		setupWorkspaceTemplate, setupWorkspaceTemplateApply,
		setupCAPTCluster, setupCAPTControlPlane,
		setupCAPTClusterTemplate, setupCAPTControlPlaneTemplate,
	} {
		if err := setup(mgr, cached, live); err != nil {
			return err
		}
	}
	return nil
}

// definitions are the schemas of CAPT's own CRDs.
var definitions = sync.OnceValues(func() (*schema.Schemas, error) { return schema.New(crd.Definitions) })

// serve adds the webhooks of one kind; without defaults, only the validating one.
func serve[T client.Object](mgr ctrl.Manager, defaulter *defaults[T], validator rules[T]) error {
	var kind T
	gvk, err := mgr.GetClient().GroupVersionKindFor(lookup.NewObject(kind))
	if err != nil {
		return err
	}
	schemas, err := definitions()
	if err != nil {
		return err
	}
	if validator.schema, err = schemas.Of(gvk); err != nil {
		return err
	}
	if defaulter != nil {
		defaulter.decoder = admission.NewDecoder(mgr.GetScheme())
		mgr.GetWebhookServer().Register(mutatingPath(gvk), &admission.Webhook{Handler: defaulter})
	}
	return ctrl.NewWebhookManagedBy(mgr, lookup.NewObject(kind)).WithValidator(validator).Complete()
}

// mutatingPath is the one that controller-runtime's builder would choose.
func mutatingPath(gvk apischema.GroupVersionKind) string {
	return "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}
