// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

func setupWorkspaceTemplate(mgr ctrl.Manager, cached, _ lookup.Reader) error {
	return serve(mgr, workspaceTemplateDefaults(), workspaceTemplateRules(cached))
}

// workspaceTemplateDefaults have nothing to fill in. They are there for writes in an older version.
func workspaceTemplateDefaults() *defaults[*infrav1.WorkspaceTemplate] {
	return &defaults[*infrav1.WorkspaceTemplate]{
		create: func(context.Context, validation.World, *infrav1.WorkspaceTemplate) error { return nil },
		keep:   func(_, _ *infrav1.WorkspaceTemplate) {},
		unsaid: keepTemplate,
	}
}

func workspaceTemplateRules(world validation.World) rules[*infrav1.WorkspaceTemplate] {
	return rules[*infrav1.WorkspaceTemplate]{
		world: world,
		spec:  func(template *infrav1.WorkspaceTemplate) any { return template.Spec },
		check: func(_ context.Context, _ validation.World, template *infrav1.WorkspaceTemplate) (validation.Findings, error) {
			return templates.WorkspaceTemplate(template), nil
		},
		warn: func(ctx context.Context, world validation.World, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
			fields, err := consumption.WorkspaceTemplateUpdate(ctx, world, old, template)
			if err != nil {
				return nil, err
			}
			config, err := templates.ProviderConfigChange(ctx, world, old, template)
			return append(fields, config...), err
		},
	}
}
