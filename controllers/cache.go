// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"encoding/json"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// CacheOptions returns options that keep the cache small. managedFields are dropped, except for the kinds that CAPT writes by server-side apply,
// where they show what an earlier apply set, and for the keys of Secrets. For Secrets, Namespaces and CustomResourceDefinitions, only names, versions and
// labels are kept, and the annotation by which the CRD migrator marks migrated definitions; other annotations can be large. This is one transformation for all
// kinds, because a cache rejects options for kinds that are not installed. Of the ControllerRevisions, which StatefulSets and DaemonSets have as
// well, only those of WorkspaceTemplates are kept.
func CacheOptions() cache.Options {
	strip, equal := cache.TransformStripManagedFields(), &equalParts{}
	revisions, err := labels.NewRequirement(naming.TemplateRevisionLabel, selection.Exists, nil)
	utilruntime.Must(err)
	ofTemplates := map[client.Object]cache.ByObject{&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*revisions)}}
	return cache.Options{ByObject: ofTemplates, DefaultTransform: func(object any) (any, error) {
		switch object := object.(type) {
		case *unstructured.Unstructured:
			equal.share(object.Object)
			return object, nil
		case *infrav1.WorkspaceTemplateApply:
			for i := range object.ManagedFields {
				entry := &object.ManagedFields[i]
				entry.FieldsV1 = equal.fields.one(string(entry.FieldsV1.GetRawBytes()), entry.FieldsV1)
			}
			return object, nil
		case *clusterv1.Cluster:
			object.Status.Conditions, object.Status.Deprecated = nil, nil // No controller reads them.
		case *metav1.PartialObjectMetadata:
			done, marked := object.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation]
			object.Annotations = nil
			if marked {
				object.Annotations = map[string]string{clusterv1.CRDMigrationObservedGenerationAnnotation: done}
			}
			if object.Kind == "Secret" {
				object.ManagedFields = equal.keysOf(object.ManagedFields)
				return object, nil
			}
		}
		return strip(object)
	}}
}

// ClientOptions returns options with which Workspaces are read from the cache, although they are unstructured, and Secrets never are.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{Unstructured: true, DisableFor: []client.Object{&corev1.Secret{}}}}
}

// equalParts makes cached objects share parts that are equal in many of them, and that take most of the memory: the text of the Terraform module, and
// managedFields. Readers get copies of cached objects.
type equalParts struct {
	texts  shared[string]
	trees  shared[any]
	fields shared[*metav1.FieldsV1]
	keys   shared[[]metav1.ManagedFieldsEntry]
}

// minShared is the length from which texts are shared.
const minShared = 256

func (e *equalParts) share(value any) any {
	switch value := value.(type) {
	case string:
		if len(value) >= minShared {
			return e.texts.one(value, value)
		}
	case []any:
		for i := range value {
			value[i] = e.share(value[i])
		}
	case map[string]any:
		for name, field := range value {
			if name != "fieldsV1" {
				value[name] = e.share(field)
			} else if data, err := json.Marshal(field); err == nil {
				value[name] = e.trees.one(string(data), field)
			}
		}
	}
	return value
}

// keysOf returns the part of managedFields that names the keys of a Secret.
func (e *equalParts) keysOf(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	keys := map[string]json.RawMessage{}
	for _, entry := range entries {
		var fields struct {
			Data map[string]json.RawMessage `json:"f:data"`
		}
		if entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			maps.Copy(keys, fields.Data)
		}
	}
	data, err := json.Marshal(map[string]any{"f:data": keys})
	if len(entries) == 0 || err != nil {
		return nil
	}
	return e.keys.one(string(data), []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(data))}})
}

// maxShared limits how many values are kept for sharing.
const maxShared = 1024

// shared returns the same value for equal texts.
type shared[V any] struct {
	lock   sync.Mutex
	values map[string]V
}

func (s *shared[V]) one(text string, value V) V {
	s.lock.Lock()
	defer s.lock.Unlock()
	if known, ok := s.values[text]; ok {
		return known
	}
	if s.values == nil || len(s.values) >= maxShared { // Objects keep the values that they share.
		s.values = map[string]V{}
	}
	s.values[text] = value
	return value
}
