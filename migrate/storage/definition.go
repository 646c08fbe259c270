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

package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// definition reads the CustomResourceDefinition of a kind; nil when there is none. It must be ours: one that stores today's
// version, and serves it.
func definition(ctx context.Context, reader client.Reader, kind migrate.Kind) (*apiextensionsv1.CustomResourceDefinition, error) {
	content := &unstructured.Unstructured{}
	content.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := reader.Get(ctx, client.ObjectKey{Name: kind.Definition()}, content)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", kind.Definition(), err)
	}
	found := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, found); err != nil {
		return nil, fmt.Errorf("decoding the definition %s: %w", kind.Definition(), err)
	}
	return found, check(kind, found)
}

func check(kind migrate.Kind, found *apiextensionsv1.CustomResourceDefinition) error {
	if found.Spec.Names.Kind != kind.Kind {
		return migrate.NotVerified.Errorf("the definition %s is of kind %s, that of the older CAPT, and not of %s; run \"captctl migrate crds\" and install CAPT's definitions",
			found.Name, found.Spec.Names.Kind, kind.Kind)
	}
	i := slices.IndexFunc(found.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == kind.Version })
	switch {
	case i < 0:
		return migrate.NotVerified.Errorf("the definition %s does not have %s; install CAPT's definitions", found.Name, kind.Version)
	case !found.Spec.Versions[i].Storage || !found.Spec.Versions[i].Served:
		return migrate.NotVerified.Errorf("the definition %s does not both store and serve %s; install CAPT's definitions as they are", found.Name, kind.Version)
	case !established(found):
		return migrate.NotVerified.Errorf("the definition %s is not established; \"kubectl describe crd %[1]s\" says why", found.Name)
	}
	return nil
}

func established(found *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(found.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// trim leaves today's version alone in status.storedVersions, if the definition is still what was checked.
func trim(ctx context.Context, c client.Client, kind migrate.Kind) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		err := tryTrim(ctx, c, kind)
		if apierrors.IsConflict(err) {
			return retry.Again(err)
		}
		return err
	})
}

func tryTrim(ctx context.Context, c client.Client, kind migrate.Kind) error {
	found, err := definition(ctx, c, kind)
	if err != nil || found == nil || slices.Equal(found.Status.StoredVersions, []string{kind.Version}) {
		return err
	}
	// What the API server has is compared with what was checked by the resourceVersion.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": found.UID, "resourceVersion": found.ResourceVersion},
		"status":   map[string]any{"storedVersions": []string{kind.Version}},
	})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	object.SetName(found.Name)
	return c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(migrate.FieldManager))
}
