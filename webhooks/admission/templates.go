// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupCAPTClusterTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return register(mgr, nil, captClusterTemplateValidator(cached))
}

func setupCAPTControlPlaneTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return register(mgr, nil, captControlPlaneTemplateValidator(cached))
}

func captClusterTemplateValidator(reader validation.Reader) validator[*infrav1.CAPTClusterTemplate] {
	return validator[*infrav1.CAPTClusterTemplate]{
		reader: reader,
		spec:   func(template *infrav1.CAPTClusterTemplate) any { return template.Spec },
		check:  validation.ValidateCAPTClusterTemplate,
		change: validation.ValidateCAPTClusterTemplateUpdate,
	}
}

func captControlPlaneTemplateValidator(reader validation.Reader) validator[*controlplanev1.CAPTControlPlaneTemplate] {
	return validator[*controlplanev1.CAPTControlPlaneTemplate]{
		reader: reader,
		spec:   func(template *controlplanev1.CAPTControlPlaneTemplate) any { return template.Spec },
		check:  validation.ValidateCAPTControlPlaneTemplate,
		change: validation.ValidateCAPTControlPlaneTemplateUpdate,
	}
}
