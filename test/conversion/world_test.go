// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/converter"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const (
	// patience is how long a test waits for what the API server does on its own, such as serving a new version.
	patience = 5 * time.Minute
	// tick is how often it looks.
	tick = 25 * time.Millisecond
)

// world is an API server and a webhook server that converts for it. There is no manager: only the test writes.
type world struct {
	sandbox   *sandbox.Sandbox
	admin     client.Client
	objects   dynamic.Interface
	converter *converter.Server
}

func newWorld(ctx context.Context, options sandbox.Options) (*world, error) {
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &world{sandbox: s}
	if err := w.connect(); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (w *world) connect() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if w.admin, err = client.New(w.sandbox.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	quiet := w.sandbox.Config()
	quiet.WarningHandler = rest.NoWarnings{} // Every request in v1beta1 warns; one test looks at that.
	if w.objects, err = dynamic.NewForConfig(quiet); err != nil {
		return err
	}
	w.converter, err = converter.Serve(w.sandbox)
	return err
}

// definitions are CAPT's own, as users install them, except that this process converts.
func (w *world) definitions() ([]*unstructured.Unstructured, error) {
	return w.converter.Definitions(filepath.Join(root, "config", "crd"))
}

// installDefinitions installs CAPT's own definitions and waits until every version is served.
func (w *world) installDefinitions(ctx context.Context) error {
	definitions, err := w.definitions()
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, w.admin, definitions...); err != nil {
		return err
	}
	for _, k := range kinds {
		for _, version := range versions {
			if err := w.awaitServed(ctx, k, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitServed returns when objects of a kind can be read in a version. A definition is established long before, when it
// replaces another.
func (w *world) awaitServed(ctx context.Context, k kind, version string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		list, err := w.objects.Resource(k.in(version)).List(ctx, metav1.ListOptions{Limit: 1})
		last = err
		return err == nil && list.GetAPIVersion() == k.group+"/"+version && list.GetKind() == k.name+"List", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s of %s: %w, last: %w", version, k.name, err, last)
	}
	return nil
}

// namespace makes a namespace for a test.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, w.admin.Create(t.Context(), namespace))
	return namespace.Name
}
