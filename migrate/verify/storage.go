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
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
)

// storageMoved: no object of the plan speaks of an older version.
func storageMoved(ctx context.Context, w *world, c *Check) error {
	planned := map[types.UID]migrate.ObjectRef{}
	kinds := map[string]bool{}
	for _, item := range w.plan.Storage {
		planned[item.UID] = item.ObjectRef
		kinds[item.Kind] = true
	}
	for _, kind := range migrate.Kinds() {
		if !kinds[kind.Kind] {
			continue
		}
		err := migrate.EachMetadata(ctx, w.reader, kind.GroupVersionKind, func(object *metav1.PartialObjectMetadata) error {
			older := storage.Older(object)
			ref, ours := planned[object.UID]
			switch {
			case len(older) == 0:
			case ours:
				c.wrong(ref, "it still speaks of the older version: %s", strings.Join(older, "; "))
			default:
				c.note(migrate.Ref(kind.Kind, object), "it is not part of the plan, and speaks of the older version: %s", strings.Join(older, "; "))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	c.conclude(len(planned), "objects", "neither owner references nor managed fields speak of an older version",
		"were not rewritten, or somebody has written them in v1beta1 since. \"captctl convert\" converts what is in Git; then make a plan with --scope storage")
	return nil
}

// storedVersions tells in which versions objects may be stored. That is no promise before finalize.
func storedVersions(ctx context.Context, w *world, c *Check) error {
	final := true
	var words []string
	for _, kind := range migrate.Kinds() {
		definition, err := w.get(ctx, migrate.ObjectRef{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: kind.Definition()})
		if err != nil {
			return err
		}
		if definition == nil {
			continue
		}
		versions, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
		final = final && slices.Equal(versions, []string{kind.Version})
		words = append(words, fmt.Sprintf("%s %s", kind.Kind, strings.Join(versions, ",")))
	}
	c.Message = "objects may be stored in these versions: " + strings.Join(words, "; ")
	if !final {
		c.Message += ". \"captctl migrate finalize\" proves that all are in " + migrate.Version + " and trims that"
	}
	return nil
}
