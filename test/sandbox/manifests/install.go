// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager is the field manager of everything that the sandbox installs.
const FieldManager = "sandbox"

// parallel is the number of objects that are applied concurrently. More would only be queued in the API server.
const parallel = 8

// Apply applies the objects with server-side apply, several in parallel.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, object := range objects {
		group.Go(func() error {
			// A copy, because the response overwrites the argument.
			configuration := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
			if err := c.Apply(ctx, configuration, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
				return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// WaitEstablished returns when the API server serves all CRDs.
func WaitEstablished(ctx context.Context, c client.Client, definitions []*unstructured.Unstructured) error {
	for _, definition := range definitions {
		name := definition.GetName()
		err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
				return false, err
			}
			return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", name, err)
		}
	}
	return nil
}
