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

package verify

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// managementCluster: this is the cluster that the plan was made for.
func managementCluster(ctx context.Context, w *world, c *Check) error {
	namespace := &corev1.Namespace{}
	err := w.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.Message = "this is the cluster that the plan was made for"
	if namespace.UID != w.plan.ClusterUID {
		c.Message = "this is another cluster than the plan was made for; look at --context"
		c.wrong(migrate.ObjectRef{Kind: "Namespace", Name: metav1.NamespaceSystem, UID: namespace.UID}, "its UID is not %s", w.plan.ClusterUID)
	}
	return nil
}

// workspacesUntouched: every Workspace is what it was, to the last label.
func workspacesUntouched(ctx context.Context, w *world, c *Check) error {
	missing := map[types.NamespacedName]*migrate.BaselineItem{}
	for _, scope := range terraform.Scopes() {
		clear(missing)
		for i := range w.plan.Baseline.Workspaces {
			if item := &w.plan.Baseline.Workspaces[i]; item.Group == scope.GroupVersionKind().Group {
				missing[types.NamespacedName{Namespace: item.Namespace, Name: item.Name}] = item
			}
		}
		if len(missing) == 0 {
			continue
		}
		err := migrate.Each(ctx, w.reader, scope.GroupVersionKind(), "", func(workspace *unstructured.Unstructured) error {
			key := client.ObjectKeyFromObject(workspace)
			item, wanted := missing[key]
			if !wanted {
				return nil
			}
			delete(missing, key)
			changes, err := touched(item, workspace)
			for _, change := range changes {
				c.wrong(item.ObjectRef, "%s", change)
			}
			return err
		})
		if err != nil && !meta.IsNoMatchError(err) {
			return err
		}
		for i := range w.plan.Baseline.Workspaces { // In the order of the plan.
			item := &w.plan.Baseline.Workspaces[i]
			if missing[types.NamespacedName{Namespace: item.Namespace, Name: item.Name}] == item {
				c.wrong(item.ObjectRef, "it is gone")
			}
		}
	}
	c.conclude(len(w.plan.Baseline.Workspaces), "Workspaces", "all have the UID, generation, spec, labels, annotations and finalizers that they had",
		"changed since the plan was made. If nobody meant that, stop the manager and whatever else writes them; --watch tells what changes")
	return nil
}

// touched says in what a Workspace is not what it was.
func touched(item *migrate.BaselineItem, workspace *unstructured.Unstructured) (changes []string, err error) {
	hash, err := migrate.WorkspaceHash(workspace)
	switch {
	case err != nil:
		return nil, err
	case workspace.GetUID() != item.UID:
		return []string{"it was deleted and made again: its UID is another one"}, nil
	case workspace.GetDeletionTimestamp() != nil:
		changes = append(changes, "it is being deleted")
	}
	if workspace.GetGeneration() != item.Generation {
		changes = append(changes, "its generation is another one: its spec was written")
	}
	if hash != item.Hash {
		changes = append(changes, "its spec, labels, annotations or finalizers are not what they were")
	}
	return changes, nil
}

// workspaceTemplateApplies: none went, and no owner got a second one.
func workspaceTemplateApplies(ctx context.Context, w *world, c *Check) error {
	applies, err := w.allApplies(ctx)
	if err != nil {
		return err
	}
	live := map[migrate.ObjectRef]types.UID{}
	for i := range applies {
		ref := migrate.Ref("WorkspaceTemplateApply", &applies[i])
		ref.UID = ""
		live[ref] = applies[i].UID
	}
	known := map[types.UID]bool{}
	for _, ref := range w.plan.Baseline.WorkspaceTemplateApplies {
		known[ref.UID] = true
		nameless := ref
		nameless.UID = ""
		switch uid, found := live[nameless]; {
		case !found:
			c.wrong(ref, "it is gone")
		case uid != ref.UID:
			c.wrong(ref, "it was deleted and made again: its UID was %s, and is %s", ref.UID, uid)
		}
	}
	owners, looked := w.owners(), len(known)
	for i := range applies {
		apply := &applies[i]
		if known[apply.UID] || w.plan.Namespace != "" && apply.Namespace != w.plan.Namespace {
			continue
		}
		looked++
		ref := migrate.Ref("WorkspaceTemplateApply", apply)
		if owner := ownedByOneOf(apply, owners); owner != nil {
			c.wrong(ref, "it was made for %s since the plan was; whatever it describes may be made a second time", owner)
			continue
		}
		c.note(ref, "it was made since the plan was")
	}
	c.conclude(looked, "WorkspaceTemplateApplies", "none went, and none was made for an owner that the plan adopts or leaves alone",
		"are not what they were")
	return nil
}

// owners that the plan adopts, by UID, and those that it leaves alone although something may be theirs.
func (w *world) owners() map[types.UID]migrate.ObjectRef {
	owners := map[types.UID]migrate.ObjectRef{}
	for _, finding := range w.plan.Findings {
		if finding.Severity != migrate.Warning {
			for _, object := range finding.Objects() {
				owners[object.UID] = object
			}
		}
	}
	for _, unit := range w.plan.Units {
		owners[unit.Owner.UID] = unit.Owner
	}
	return owners
}

func ownedByOneOf(object metav1.Object, owners map[types.UID]migrate.ObjectRef) *migrate.ObjectRef {
	for _, reference := range object.GetOwnerReferences() {
		if owner, ok := owners[reference.UID]; ok {
			return &owner
		}
	}
	return nil
}
