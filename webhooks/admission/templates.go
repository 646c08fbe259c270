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

package admission

import (
	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
)

func setupCAPTClusterTemplate(mgr ctrl.Manager, cached, _ world) error {
	return serve(mgr, nil, captClusterTemplateRules(cached))
}

func setupCAPTControlPlaneTemplate(mgr ctrl.Manager, cached, _ world) error {
	return serve(mgr, nil, captControlPlaneTemplateRules(cached))
}

func captClusterTemplateRules(world validation.World) rules[*infrav1.CAPTClusterTemplate] {
	return rules[*infrav1.CAPTClusterTemplate]{
		world:  world,
		spec:   func(template *infrav1.CAPTClusterTemplate) any { return template.Spec },
		check:  validation.CAPTClusterTemplate,
		change: validation.CAPTClusterTemplateChange,
	}
}

func captControlPlaneTemplateRules(world validation.World) rules[*controlplanev1.CAPTControlPlaneTemplate] {
	return rules[*controlplanev1.CAPTControlPlaneTemplate]{
		world:  world,
		spec:   func(template *controlplanev1.CAPTControlPlaneTemplate) any { return template.Spec },
		check:  validation.CAPTControlPlaneTemplate,
		change: validation.CAPTControlPlaneTemplateChange,
	}
}
