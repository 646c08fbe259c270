// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// WebhooksOnly is an argument with which the manager converts and admits objects, and reconciles none: like a replica that does not lead, it
// waits for a Lease. It has no rights in this namespace.
const WebhooksOnly = "--leader-elect-namespace=nowhere"

// World is an API server with the definitions of CAPT v0.3, and after Upgrade with this version.
type World struct {
	*sandbox.Sandbox
	// Admin is a client of the administrator, without warnings of old versions.
	Admin client.WithWatch
	// began is when the upgrade was done; what came before does not concern captctl.
	began time.Time
}

// Start starts an API server with definitions of CAPT v0.3, provider-terraform and Cluster API, and with the audit log. Unless
// the options add some, it runs no controllers.
func Start(ctx context.Context, options sandbox.Options) (*World, error) {
	options.NoCRDs, options.Manager, options.AuditLog, options.ClusterAPIDefinitions = true, false, true, true
	_, file, _, _ := runtime.Caller(0)
	test := filepath.Dir(filepath.Dir(file))
	options.Manifests = append(options.Manifests, filepath.Join(test, "legacy", "definitions.yaml"), filepath.Join(test, "provider", "config", "crd"))
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &World{Sandbox: s}
	if w.Admin, err = newClient(s.Config()); err == nil {
		err = w.grant(ctx, filepath.Dir(test))
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// newClient knows all kinds, and does not repeat the API server's warnings of old versions.
func newClient(config *rest.Config) (client.WithWatch, error) {
	config.WarningHandler = rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: builder.Scheme()})
}

// Client is one of a component or an identity of the sandbox: sandbox.Captctl, for example.
func (w *World) Client(name string) (client.WithWatch, error) {
	config, err := w.ConfigOf(name)
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// Create makes a fixture.
func (w *World) Create(ctx context.Context, fixture Fixture, names Names) (*Objects, error) {
	return fixture.Create(ctx, w.Admin, names)
}

// Upgrade installs this version of CAPT over v0.3, and returns when v1beta2 is served and the manager runs, with the arguments. Objects of
// OlderTemplate must not exist: users remove them with commands that captctl migrate check prints, and tests with TakeTemplates.
func (w *World) Upgrade(ctx context.Context, args ...string) error {
	if err := w.removeOlderTemplates(ctx); err != nil {
		return err
	}
	if err := w.Install(ctx, WebhooksOnly, "--leader-elect"); err != nil {
		return err
	}
	// Admission of owner references discovers new kinds only every half minute, and a restart does it at once. Controllers start after it: what
	// they cannot send meanwhile would count as errors.
	if err := w.Restart(ctx, sandbox.APIServer); err != nil {
		return err
	}
	for _, kind := range migrate.Kinds() {
		if err := w.awaitServed(ctx, kind); err != nil {
			return err
		}
	}
	w.began = time.Now()
	if slices.Contains(args, WebhooksOnly) {
		return nil
	}
	return w.StartControllers(ctx, args...)
}

// StartManager starts the manager.
func (w *World) StartManager(ctx context.Context, args ...string) error {
	if slices.Contains(args, WebhooksOnly) {
		args = append(args, "--leader-elect")
	}
	return w.Sandbox.StartManager(ctx, args...)
}

// StartControllers restarts the manager with other arguments.
func (w *World) StartControllers(ctx context.Context, args ...string) error {
	if err := w.StopComponent(ctx, sandbox.Manager); err != nil {
		return err
	}
	return w.StartManager(ctx, args...)
}

// awaitServed returns when objects of a kind can be listed in today's version. A definition is established long before, when it
// replaces another.
func (w *World) awaitServed(ctx context.Context, kind migrate.Kind) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		last = w.Admin.List(ctx, list, client.Limit(1))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s in %s: %w, last: %w", kind.Kind, kind.Version, err, last)
	}
	return nil
}

func olderTemplates() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(controlPlaneKind.GroupVersion().WithKind(OlderTemplate + "List"))
	return list
}

// TakeTemplates removes the objects of OlderTemplate, and returns them.
func (w *World) TakeTemplates(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := olderTemplates()
	if err := w.Admin.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := w.Admin.Delete(ctx, list.Items[i].DeepCopy()); err != nil {
			return nil, err
		}
	}
	return list.Items, nil
}

// removeOlderTemplates removes the definition that ours cannot replace, unless that was done already.
func (w *World) removeOlderTemplates(ctx context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "captcontrolplanetemplates." + controlPlaneKind.Group}
	err := w.Admin.Get(ctx, key, definition)
	if apierrors.IsNotFound(err) || (err == nil && definition.Spec.Names.Kind != OlderTemplate) {
		return nil
	}
	if err != nil {
		return err
	}
	list := olderTemplates()
	if err := w.Admin.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("there are %d objects of kind %s; TakeTemplates removes them", len(list.Items), OlderTemplate)
	}
	if err := w.Admin.Delete(ctx, definition); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		err := w.Admin.Get(ctx, key, definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Requests of a user since the upgrade, in the order in which they were answered. Verbs select some; none means all.
func (w *World) Requests(user string, verbs ...string) ([]auditv1.Event, error) {
	return w.AuditEvents(audit.Filter{User: user, Verbs: verbs, Since: w.began})
}

// Writes of a user since the upgrade.
func (w *World) Writes(user string) ([]auditv1.Event, error) {
	return w.Requests(user, audit.Writes...)
}
