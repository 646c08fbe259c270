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

	corev1 "k8s.io/api/core/v1"
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

// missingSecret says what a Secret lacks. Secrets of other namespaces are as good as missing.
func (r *Reconciler) missingSecret(ctx context.Context, namespace string, dependency infrav1.SecretDependency) ([]string, error) {
	if dependency.Namespace != "" && dependency.Namespace != namespace {
		return []string{fmt.Sprintf("Secret %s must be in namespace %s", dependency.Name, namespace)}, nil
	}
	secret, err := engine.Get(ctx, r.Uncached, client.ObjectKey{Namespace: namespace, Name: dependency.Name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", dependency.Name, err)
	}
	if secret == nil {
		return []string{fmt.Sprintf("Secret %s does not exist", dependency.Name)}, nil
	}
	var missing []string
	for _, key := range dependency.Keys {
		if len(secret.Data[key]) == 0 {
			missing = append(missing, fmt.Sprintf("Secret %s has no value for key %s", dependency.Name, key))
		}
	}
	if len(dependency.Keys) == 0 && empty(secret) {
		missing = append(missing, fmt.Sprintf("Secret %s is empty", dependency.Name))
	}
	return missing, nil
}

// empty tells whether a Secret has no value at all: provider-terraform creates connection Secrets before it fills them.
func empty(secret *corev1.Secret) bool {
	for _, value := range secret.Data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}
