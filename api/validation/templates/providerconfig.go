// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// ProviderConfigUpdateWarnings warns of a template update that changes the ProviderConfig. It is not an error, because the change may be
// intended for new WorkspaceTemplateApplies; the controller does not change the ProviderConfig of existing Workspaces.
func ProviderConfigUpdateWarnings(ctx context.Context, reader validation.Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	if equality.Semantic.DeepEqual(old.Spec.Template.Spec.ProviderConfigRef, template.Spec.Template.Spec.ProviderConfigRef) {
		return nil, nil
	}
	users, err := reader.UsersOf(ctx, validation.KeyOf(template))
	if err != nil || users == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf(
		"spec.template.spec.providerConfigRef: %d WorkspaceTemplateApply objects use this template; their Workspaces keep their ProviderConfig, and get no update of this template until annotation %s of the WorkspaceTemplateApply names the new one",
		users, naming.AllowProviderConfigAnnotation)}, nil
}
