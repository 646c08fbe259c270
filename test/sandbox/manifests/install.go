// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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

// WaitAggregated returns when every aggregated ClusterRole, such as edit, has the rules of the ClusterRoles that it selects.
func WaitAggregated(ctx context.Context, c client.Client) error {
	var incomplete string
	err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		roles := &rbacv1.ClusterRoleList{}
		if err := c.List(ctx, roles); err != nil {
			return false, err
		}
		var err error
		incomplete, err = incompleteRole(roles.Items)
		return err == nil && incomplete == "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for the rules of ClusterRole %q: %w", incomplete, err)
	}
	return nil
}

// incompleteRole returns the name of an aggregated role that lacks a rule.
func incompleteRole(roles []rbacv1.ClusterRole) (string, error) {
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return "", err
			}
			for _, other := range roles {
				if selector.Matches(labels.Set(other.Labels)) && !includes(role.Rules, other.Rules) {
					return role.Name, nil
				}
			}
		}
	}
	return "", nil
}

func includes(all, some []rbacv1.PolicyRule) bool {
	return !slices.ContainsFunc(some, func(rule rbacv1.PolicyRule) bool {
		return !slices.ContainsFunc(all, func(other rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(rule, other) })
	})
}
