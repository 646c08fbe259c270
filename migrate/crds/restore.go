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

package crds

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// restoration is what becomes of the exported objects, by name.
type restoration struct {
	// created are those that were not there, or would be created.
	created []string
	// present are there as they were exported.
	present []string
	// different are there with another spec: somebody has made them meanwhile, and they are left alone.
	different []string
	// leftOut are those that were being deleted already, and owner references whose owner is gone.
	leftOut []string
	// failed could not be created, with the reason.
	failed []string
}

// restore creates what is exported and not there, under a kind. Objects that GitOps has applied again are left as they are.
func (r *run) restore(ctx context.Context, kind string) error {
	if r.saved == nil || len(r.saved.items) == 0 {
		r.tell(StepRestore, true, nil, "%s is a definition of %s already, and %s holds nothing to create again", definitionName, kind, r.options.Backup)
		return nil
	}
	if err := r.awaitServed(ctx, kind); err != nil {
		return err
	}
	r.options.Progress.Phase("creating objects again", len(r.saved.items))
	done := &restoration{}
	for i := range r.saved.items {
		if err := r.restoreOne(ctx, &r.saved.items[i], kind, done); err != nil {
			if ctx.Err() != nil {
				return migrate.Partly.Errorf("creating objects again: %w; run the command again", err)
			}
			done.failed = append(done.failed, fmt.Sprintf("%s: %v", client.ObjectKeyFromObject(&r.saved.items[i]), err))
		}
		r.options.Progress.Add(1)
	}
	return r.conclude(kind, done)
}

func (r *run) conclude(kind string, done *restoration) error {
	if r.options.DryRun {
		r.tell(StepRestore, false, done.created, "%d objects would be created as %s, %d are there", len(done.created), kind, len(done.present))
	} else {
		r.tell(StepRestore, true, done.created, "%d objects were created as %s, %d were there", len(done.created), kind, len(done.present))
	}
	if len(done.different) > 0 {
		r.tell(StepDifferent, true, done.different, "these are there with another spec than was exported, and are left as they are: compare them with the export in %s", r.options.Backup)
	}
	if len(done.leftOut) > 0 {
		r.tell(StepLeftOut, true, done.leftOut, "these are left out")
	}
	switch {
	case len(done.failed) > 0:
		r.tell(StepBlocked, false, done.failed, "these could not be created: repair the cause and run the command again")
		return migrate.Partly.Errorf("%d of %d objects could not be created: %s", len(done.failed), len(r.saved.items), strings.Join(done.failed, "; "))
	case r.options.DryRun && len(done.created) > 0:
		return migrate.Pending.Errorf("%d objects are to be created again", len(done.created))
	}
	return nil
}

func (r *run) restoreOne(ctx context.Context, saved *unstructured.Unstructured, kind string, done *restoration) error {
	key := client.ObjectKeyFromObject(saved)
	if saved.GetDeletionTimestamp() != nil {
		done.leftOut = append(done.leftOut, key.String()+": it was being deleted already")
		return nil
	}
	objects := r.templates.Namespace(key.Namespace)
	live, err := objects.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh, dropped, err := r.fresh(ctx, saved, kind)
		if err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldManager: migrate.FieldManager}
		if r.options.DryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		_, err = objects.Create(ctx, fresh, options)
		if err == nil {
			done.created = append(done.created, key.String())
			done.leftOut = append(done.leftOut, dropped...)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		live, err = objects.Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if covers(live.Object["spec"], saved.Object["spec"]) {
		done.present = append(done.present, key.String())
	} else {
		done.different = append(done.different, key.String())
	}
	return nil
}

// fresh is an exported object as it is created: what people have given it, and nothing that the API server or controllers
// have. An owner that is gone, or another one by now, would have it collected as garbage.
func (r *run) fresh(ctx context.Context, saved *unstructured.Unstructured, kind string) (fresh *unstructured.Unstructured, dropped []string, err error) {
	fresh = &unstructured.Unstructured{Object: map[string]any{"spec": saved.DeepCopy().Object["spec"]}}
	fresh.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	fresh.SetNamespace(saved.GetNamespace())
	fresh.SetName(saved.GetName())
	fresh.SetLabels(saved.GetLabels())
	fresh.SetAnnotations(saved.GetAnnotations())
	var owners []metav1.OwnerReference
	for _, reference := range saved.GetOwnerReferences() {
		why, err := r.checkOwner(ctx, saved.GetNamespace(), &reference)
		switch {
		case err != nil:
			return nil, nil, err
		case why != "":
			dropped = append(dropped, fmt.Sprintf("the owner of %s, %s %s: %s", client.ObjectKeyFromObject(saved), reference.Kind, reference.Name, why))
		default:
			owners = append(owners, reference)
		}
	}
	if len(owners) > 0 {
		fresh.SetOwnerReferences(owners)
	}
	return fresh, dropped, nil
}

// checkOwner says why an owner can not be one any more; empty if it can. The reference gets a version that is served.
func (r *run) checkOwner(ctx context.Context, namespace string, reference *metav1.OwnerReference) (why string, err error) {
	version, err := schema.ParseGroupVersion(reference.APIVersion)
	if err != nil {
		return "", fmt.Errorf("reading the owner %s %s: %w", reference.Kind, reference.Name, err)
	}
	kind := schema.GroupKind{Group: version.Group, Kind: reference.Kind}
	mapping, err := r.client.RESTMapper().RESTMapping(kind, version.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = r.client.RESTMapper().RESTMapping(kind)
	}
	switch {
	case meta.IsNoMatchError(err):
		return "its kind is not installed", nil
	case err != nil:
		return "", fmt.Errorf("looking for the kind %s of an owner: %w", kind, err)
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(mapping.GroupVersionKind)
	err = r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, owner)
	switch {
	case apierrors.IsForbidden(err):
		return "the permission to look whether it is there is missing", nil
	case apierrors.IsNotFound(err), err == nil && owner.UID != reference.UID:
		return "it is gone", nil
	case err != nil:
		return "", fmt.Errorf("looking for the owner %s %s: %w", reference.Kind, reference.Name, err)
	}
	reference.APIVersion = mapping.GroupVersionKind.GroupVersion().String()
	return "", nil
}

// covers tells whether all that is wanted is there. The definition of today may have added defaults.
func covers(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range want {
			if !covers(got[key], value) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !covers(got[i], want[i]) {
				return false
			}
		}
		return true
	}
	return got == want
}

// awaitServed returns when objects of the kind can be read. A definition that was just installed takes a moment.
func (r *run) awaitServed(ctx context.Context, kind string) error {
	r.options.Progress.Phase("waiting until the definition is served", 0)
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, r.options.Patience, true, func(ctx context.Context) (bool, error) {
		list, err := r.templates.List(ctx, metav1.ListOptions{Limit: 1})
		last = err
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		return err == nil && list.GetKind() == kind+"List", nil
	})
	if err != nil {
		return migrate.Partly.Errorf("waiting until %s in %s is served: %w (last answer: %v); is it established?",
			kind, migrate.LegacyVersion, err, last)
	}
	return nil
}
