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

// synced returns a readiness check that succeeds when the caches are synced. There is one exception, to prevent a deadlock: to fill the caches,
// the API server must convert objects that are stored in v1beta1, and it sends conversion requests only to ready replicas. So the check also
// succeeds if needed reports that no other replica converts.
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

// converted are the cached kinds that have two versions.
var converted = []schema.GroupVersionResource{
	infrav1.GroupVersion.WithResource("captclusters"),
	infrav1.GroupVersion.WithResource("workspacetemplates"),
	infrav1.GroupVersion.WithResource("workspacetemplateapplies"),
	controlplanev1.GroupVersion.WithResource("captcontrolplanes"),
}

// converterNeeded returns a function that reports whether the API server cannot list a kind because no replica serves conversion.
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
			// Without retries: client-go would follow Retry-After of the response, and not return the error for minutes. The message is the
			// one of the API server for a failed conversion.
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
