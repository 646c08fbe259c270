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

package workspacetemplateapply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// template returns the WorkspaceTemplate, or nil when there is none that this object may use. Permission is checked here
// as well as at admission, since either object can change afterwards.
func (r *Reconciler) template(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
	reader := client.Reader(r.Client)
	if r.Namespace != "" && apply.TemplateKey().Namespace != r.Namespace {
		reader = r.Uncached
	}
	template, err := engine.Get(ctx, reader, apply.TemplateKey(), &infrav1.WorkspaceTemplate{})
	if err != nil {
		return nil, fmt.Errorf("reading WorkspaceTemplate %s: %w", apply.TemplateKey(), err)
	}
	if template == nil {
		return nil, nil
	}
	permitted, err := validation.PermitsNamespace(template, apply.Namespace, func() (labels.Set, error) {
		return engine.NamespaceLabels(ctx, r.Client, apply.Namespace)
	})
	if err != nil || !permitted {
		return nil, err
	}
	return template, nil
}
