// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// Lookup reads WorkspaceTemplates for the objects that refer to them.
type Lookup struct {
	Cached, Uncached client.Reader
	// Namespace is the only namespace in the cache; empty means all. Templates of other namespaces are read from the API server.
	Namespace string
}

// Permitted returns the WorkspaceTemplate that an object of a namespace refers to, or nil when it does not exist or does not allow the
// namespace. This is also checked at admission, but either object can change afterwards.
func (l Lookup) Permitted(ctx context.Context, key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, error) {
	reader := l.Cached
	if l.Namespace != "" && key.Namespace != l.Namespace {
		reader = l.Uncached
	}
	template, err := engine.Get(ctx, reader, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return nil, fmt.Errorf("reading WorkspaceTemplate %s: %w", key, err)
	}
	if template == nil {
		return nil, nil
	}
	permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
		return engine.NamespaceLabels(ctx, l.Cached, namespace)
	})
	if err != nil || !permitted {
		return nil, err
	}
	return template, nil
}
