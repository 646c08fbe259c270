// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/manifests"
)

// applied returns an object of the cluster after a file is applied to it. Metadata and status are those of the cluster, with the labels and annotations of the
// file. The spec of a file of the older version is complete.
func (s *source) applied(ctx context.Context, object *manifests.Object, live validation.Owner, older bool, warn func(format string, args ...any)) (validation.Owner, error) {
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	want, err := ssa.Unstructured(object.Typed)
	if err != nil {
		return nil, err
	}
	spec, _ := want.Object["spec"].(map[string]any)
	if !older {
		if spec, err = s.appliedSpec(ctx, object, live, after["spec"], spec, object.Source.Object["spec"]); err != nil {
			warn("%s: fields that it does not have any more count as kept: a dry run of applying it failed: %v", object, err)
		}
	}
	after["spec"] = spec
	typed := reflect.New(reflect.TypeOf(live).Elem()).Interface().(validation.Owner)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(after, typed); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	for _, each := range []struct {
		set  func(map[string]string)
		live map[string]string
		more map[string]string
	}{{typed.SetLabels, live.GetLabels(), object.Typed.GetLabels()}, {typed.SetAnnotations, live.GetAnnotations(), object.Typed.GetAnnotations()}} {
		all := map[string]string{}
		maps.Copy(all, each.live)
		maps.Copy(all, each.more)
		each.set(all)
	}
	return typed, nil
}

// appliedSpec returns the spec after kubectl apply, if that was used before, or else after server-side apply. With an error, it is merged without removing anything.
func (s *source) appliedSpec(ctx context.Context, object *manifests.Object, live validation.Owner, spec, want, given any) (map[string]any, error) {
	var last struct{ Spec any }
	text, isApplied := live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	if !isApplied || json.Unmarshal([]byte(text), &last) != nil {
		dryRun := &unstructured.Unstructured{Object: map[string]any{"spec": given}}
		dryRun.SetGroupVersionKind(object.Kind)
		dryRun.SetNamespace(live.GetNamespace())
		dryRun.SetName(live.GetName())
		dryRun.SetLabels(object.Typed.GetLabels())
		dryRun.SetAnnotations(object.Typed.GetAnnotations())
		err := s.reader.Apply(ctx, client.ApplyConfigurationFromUnstructured(dryRun), client.FieldOwner(appliedBy(live)), client.ForceOwnership, client.DryRunAll)
		if applied, is := dryRun.Object["spec"].(map[string]any); is && err == nil {
			return applied, nil
		}
		return merged(spec, nil, want, given).(map[string]any), err
	}
	return merged(spec, last.Spec, want, given).(map[string]any), nil
}

// appliedBy is the field manager that applied an object, or else that of kubectl.
func appliedBy(live metav1.Object) string {
	for _, entry := range live.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && !strings.HasPrefix(entry.Manager, "capt") {
			return entry.Manager
		}
	}
	return "kubectl"
}

// merged is what kubectl apply makes of a value: what the last file had and the given one does not have is removed. want is the given one with defaults, which replace nothing.
func merged(live, last, want, given any) any {
	wanted, isMap := want.(map[string]any)
	if !isMap {
		return want
	}
	of, is := live.(map[string]any)
	if of = maps.Clone(of); !is {
		of = map[string]any{}
	}
	before, _ := last.(map[string]any)
	have, _ := given.(map[string]any)
	for key := range before {
		if _, kept := have[key]; !kept {
			delete(of, key)
		}
	}
	for key, value := range wanted {
		_, isGiven := have[key]
		if _, exists := of[key]; isGiven || !exists {
			of[key] = merged(of[key], before[key], value, have[key])
		}
	}
	return of
}

// add adds a new object; it returns false if objects of the kind do not determine Workspaces.
func (s *source) add(object validation.Owner) bool {
	if cluster, is := object.(*clusterv1.Cluster); is {
		s.Clusters = append(s.Clusters, *cluster)
		return true
	}
	return s.put(object)
}

// isNew reports whether a file has an object that the cluster does not have.
func (s *source) isNew(object validation.Owner) bool {
	return object.GetUID() == "" && s.edited[editKey(object)]
}

// own gives new objects their owners and labels, as Cluster API does.
func (s *source) own() {
	owned := func(object validation.Owner, cluster string, owner metav1.OwnerReference) {
		if s.isNew(object) {
			object.SetOwnerReferences([]metav1.OwnerReference{owner})
			labels := map[string]string{clusterv1.ClusterNameLabel: cluster}
			maps.Copy(labels, object.GetLabels())
			object.SetLabels(labels)
		}
	}
	for i := range s.Clusters {
		cluster := &s.Clusters[i]
		owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
		infrastructure, controlPlane := s.Of(cluster)
		if infrastructure != nil {
			owned(infrastructure, cluster.Name, owner)
		}
		if controlPlane != nil {
			owned(controlPlane, cluster.Name, owner)
		}
		for _, pool := range s.MachinePools {
			if pool.Namespace != cluster.Namespace || pool.Spec.ClusterName != cluster.Name {
				continue
			}
			owned(pool, cluster.Name, owner)
			if of := s.CAPTMachinePools[types.NamespacedName{Namespace: pool.Namespace, Name: claim.PoolOf(pool)}]; of != nil {
				owned(of, cluster.Name, metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachinePool", Name: pool.Name, UID: pool.UID})
			}
		}
	}
}
