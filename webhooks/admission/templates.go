// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupCAPTClusterTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return serve(mgr, nil, captClusterTemplateRules(cached))
}

func setupCAPTControlPlaneTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return serve(mgr, nil, captControlPlaneTemplateRules(cached))
}

func captClusterTemplateRules(reader validation.Reader) rules[*infrav1.CAPTClusterTemplate] {
	return rules[*infrav1.CAPTClusterTemplate]{
		reader: reader,
		spec:   func(template *infrav1.CAPTClusterTemplate) any { return template.Spec },
		check:  owners.CAPTClusterTemplate,
		change: owners.CAPTClusterTemplateChange,
	}
}

func captControlPlaneTemplateRules(reader validation.Reader) rules[*controlplanev1.CAPTControlPlaneTemplate] {
	return rules[*controlplanev1.CAPTControlPlaneTemplate]{
		reader: reader,
		spec:   func(template *controlplanev1.CAPTControlPlaneTemplate) any { return template.Spec },
		check:  owners.CAPTControlPlaneTemplate,
		change: owners.CAPTControlPlaneTemplateChange,
	}
}
