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

package execute

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// premise is what must hold of an object that is not written, for what the render gate found to hold.
type premise struct {
	migrate.ObjectRef
	// broken says in words what does not hold; empty when all does.
	broken func(live *unstructured.Unstructured) (string, error)
}

// rest adds to a proof what the plan rests on and is no longer as it was: what no step writes, and the Workspaces.
func (p *proof) rest(ctx context.Context, o *Options, plan *migrate.Plan) error {
	byKind, err := premises(plan)
	if err != nil {
		return err
	}
	for kind, wanted := range byKind {
		err := migrate.Each(ctx, o.Reader, kind, "", func(live *unstructured.Unstructured) error {
			key := types.NamespacedName{Namespace: live.GetNamespace(), Name: live.GetName()}
			premise, found := wanted[key]
			if !found {
				return nil
			}
			delete(wanted, key)
			why, err := premise.broken(live)
			if live.GetUID() != premise.UID {
				why = "it was deleted and made anew"
			}
			if why != "" {
				p.stale = append(p.stale, fmt.Sprintf("%s: %s", premise, why))
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, premise := range wanted {
			p.stale = append(p.stale, fmt.Sprintf("%s: it is gone", premise))
		}
	}
	return nil
}

func premises(plan *migrate.Plan) (map[schema.GroupVersionKind]map[types.NamespacedName]premise, error) {
	byKind := map[schema.GroupVersionKind]map[types.NamespacedName]premise{}
	add := func(kind schema.GroupVersionKind, p premise) {
		if byKind[kind] == nil {
			byKind[kind] = map[types.NamespacedName]premise{}
		}
		byKind[kind][types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	}
	for _, item := range plan.Baseline.Premises {
		kind, err := kindOf(item.ObjectRef)
		if err != nil {
			return nil, err
		}
		add(kind, premise{item.ObjectRef, func(live *unstructured.Unstructured) (string, error) {
			hash, err := migrate.ContentHash(live)
			if err != nil || hash == item.Hash {
				return "", err
			}
			return "it is not written, but what is rests on it, and its spec or its owners changed", nil
		}})
	}
	used := map[types.UID]bool{}
	for _, unit := range plan.Units {
		if unit.Workspace != nil {
			used[unit.Workspace.UID] = true
		}
	}
	for _, item := range plan.Baseline.Workspaces {
		for _, scope := range terraform.Scopes() {
			if kind := scope.GroupVersionKind(); used[item.UID] && kind.Group == item.Group {
				add(kind, premise{item.ObjectRef, func(live *unstructured.Unstructured) (string, error) { return touched(live, item.Generation), nil }})
			}
		}
	}
	return byKind, nil
}

// touched says why a Workspace is not what it was. The provider writes its annotations, so these do not count.
func touched(workspace *unstructured.Unstructured, generation int64) string {
	switch {
	case workspace.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case workspace.GetGeneration() != generation:
		return fmt.Sprintf("its spec changed: its generation is %d and was %d", workspace.GetGeneration(), generation)
	}
	return ""
}
