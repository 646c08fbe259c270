// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// Lookup reads WorkspaceTemplates for the objects that refer to them.
type Lookup struct {
	Cached, Uncached client.Reader
	// Namespace is the only namespace in the cache; empty means all. Templates of other namespaces are read from the API server.
	Namespace string
}

// readerOf returns the reader for templates of a namespace, and for their revisions.
func (l Lookup) readerOf(namespace string) client.Reader {
	if l.Namespace != "" && namespace != l.Namespace {
		return l.Uncached
	}
	return l.Cached
}

// Revisions returns the stored revisions of templates. A revision may be assigned before the cache has it, so it is missing only if the API server does
// not have it.
func (l Lookup) Revisions(ctx context.Context) rollout.Store {
	return rollout.Store{
		First: func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
			for _, uncached := range []bool{false, true} {
				for _, key := range keys {
					reader := l.readerOf(key.Namespace)
					if uncached {
						reader = l.Uncached
					}
					object, err := engine.Get(ctx, reader, key, &appsv1.ControllerRevision{})
					if err != nil {
						return nil, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
					}
					if object != nil {
						return object, nil
					}
				}
			}
			return nil, nil
		},
		All: func(namespace string) ([]appsv1.ControllerRevision, error) {
			return listRevisions(ctx, l.readerOf(namespace), namespace)
		},
	}
}

// listRevisions returns the ControllerRevisions of the templates of a namespace.
func listRevisions(ctx context.Context, reader client.Reader, namespace string) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{naming.TemplateRevisionLabel}); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	return list.Items, nil
}

// Permitted returns the WorkspaceTemplate that an object of a namespace refers to, or nil when it does not exist or does not allow the
// namespace. This is also checked at admission, but either object can change afterwards.
func (l Lookup) Permitted(ctx context.Context, key types.NamespacedName, namespace string) (*infrav1.WorkspaceTemplate, error) {
	reader := l.readerOf(key.Namespace)
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
