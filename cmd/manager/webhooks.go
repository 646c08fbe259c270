/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
