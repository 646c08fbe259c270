// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/webhooks/admission"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// scheme returns the scheme of the controllers with the older API version, which only the webhooks use.
func scheme() *runtime.Scheme {
	s := controllers.Scheme()
	utilruntime.Must(conversion.AddToScheme(s))
	return s
}

// setupWebhooks adds the conversion and admission webhooks. Every replica serves them, not only the leader; a replica is ready when its server
// responds.
func setupWebhooks(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	if err := conversion.SetupWebhookWithManager(mgr, ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("setting up conversion: %w", err)
	}
	if err := admission.SetupWebhookWithManager(ctx, mgr, namespace); err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	return mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker())
}
