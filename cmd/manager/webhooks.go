// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/webhooks/admission"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// scheme is that of the controllers, and the older API version, which only the webhooks know.
func scheme() *runtime.Scheme {
	s := controllers.Scheme()
	utilruntime.Must(conversion.AddToScheme(s))
	return s
}

// setupWebhooks adds everything that the API server calls. It is served by every replica, whether it leads or not: the
// webhook server needs no leader election, and a replica is ready when its server answers.
func setupWebhooks(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	if err := conversion.SetupWebhookWithManager(mgr); err != nil {
		return fmt.Errorf("setting up conversion: %w", err)
	}
	if err := admission.SetupWebhookWithManager(ctx, mgr, namespace); err != nil {
		return fmt.Errorf("setting up admission: %w", err)
	}
	return mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker())
}
