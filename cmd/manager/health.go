// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// synced is ready when the caches are: before that, the manager sees nothing. There is one exception. What is stored in
// v1beta1 reaches the caches when it was converted, which the API server asks of replicas that are ready. If no other replica
// converts, a replica that waited for its caches would wait for itself.
func synced(mgr ctrl.Manager, needed func(context.Context) bool) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if mgr.GetCache().WaitForCacheSync(ctx) || needed(request.Context()) {
			return nil
		}
		return errors.New("the caches are not synced yet")
	}
}

// converted are the kinds with two versions that are in the caches.
var converted = []schema.GroupVersionResource{
	infrav1.GroupVersion.WithResource("captclusters"),
	infrav1.GroupVersion.WithResource("workspacetemplates"),
	infrav1.GroupVersion.WithResource("workspacetemplateapplies"),
	controlplanev1.GroupVersion.WithResource("captcontrolplanes"),
}

// converterNeeded reports whether the API server cannot list a kind because no replica converts.
func converterNeeded(config *rest.Config, namespace string) (func(context.Context) bool, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client := clients.Discovery().RESTClient()
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, resource := range converted {
			path := []string{"apis", resource.Group, resource.Version}
			if namespace != "" {
				path = append(path, "namespaces", namespace)
			}
			// MaxRetries(0): the API server asks clients to retry later, and the caches, which do so, would not report the
			// reason for minutes. The message is the API server's own for a failed conversion.
			err := client.Get().AbsPath(append(path, resource.Resource)...).
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
				MaxRetries(0).Do(ctx).Error()
			if err != nil && strings.Contains(err.Error(), "conversion webhook for ") {
				return true
			}
		}
		return false
	}, nil
}
