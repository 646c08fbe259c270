// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/changes"
	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
)

// source has the objects that determine Workspaces. Each kind is listed once; a template, of which a fleet has few, is read when it is needed.
type source struct {
	reader    client.Client
	namespace string // Namespace to which all is limited; empty for all.
	one       bool   // One Cluster is compared, so that its Workspaces are read one by one: a list of cluster-scoped ones would have the whole fleet.

	*cli.Objects
	templates  map[types.NamespacedName]*infrav1.WorkspaceTemplate // Nil if it does not exist.
	labelsOf   func(namespace string) (labels.Set, error)
	workspaces map[terraform.Scope]map[types.NamespacedName]*unstructured.Unstructured
	unlistable map[terraform.Scope]error // Why the Workspaces of a scope could not be listed, so that this is not tried again.
	// edited are the objects of files, by kind and key.
	edited map[string]bool
}

func read(ctx context.Context, reader client.Client, namespace string) (*source, error) {
	all, err := cli.ReadObjects(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	return &source{
		reader: reader, namespace: namespace, Objects: all, templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{}, labelsOf: cli.NamespaceLabels(ctx, reader),
		workspaces: map[terraform.Scope]map[types.NamespacedName]*unstructured.Unstructured{}, unlistable: map[terraform.Scope]error{}, edited: map[string]bool{},
	}, nil
}

// template returns a template; nil if it does not exist.
func (s *source) template(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	if known, ok := s.templates[key]; ok {
		return known, nil
	}
	template, err := cli.Get(ctx, s.reader, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return nil, fmt.Errorf("reading WorkspaceTemplate %s: %w", key, err)
	}
	s.templates[key] = template
	return template, nil
}

// workspace returns a Workspace; nil if it does not exist.
func (s *source) workspace(ctx context.Context, scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if scope == terraform.ScopeCluster {
		key.Namespace = ""
	}
	if s.one {
		workspace := &unstructured.Unstructured{}
		workspace.SetGroupVersionKind(scope.GroupVersionKind())
		err := s.reader.Get(ctx, key, workspace)
		if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
			if err != nil {
				workspace = nil
			}
			return workspace, nil
		}
		return nil, fmt.Errorf("reading Workspace %s: %w", key, err)
	}
	if s.workspaces[scope] == nil {
		list, err := cli.ListWorkspaces(ctx, s.reader, scope, s.namespace)
		if err != nil {
			s.unlistable[scope] = fmt.Errorf("listing Workspaces: %w", err)
		}
		s.workspaces[scope] = cli.Indexed(list)
	}
	return s.workspaces[scope][key], s.unlistable[scope]
}

// stored reads the revisions of templates with staged rollouts. Many objects have the same one.
func (s *source) stored(ctx context.Context) rollout.Store {
	known := map[types.NamespacedName]*appsv1.ControllerRevision{}
	return rollout.Store{
		First: func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
			for _, key := range keys {
				if _, ok := known[key]; !ok {
					revision := &appsv1.ControllerRevision{}
					if err := s.reader.Get(ctx, key, revision); client.IgnoreNotFound(err) != nil {
						return nil, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
					}
					known[key] = revision
				}
				if known[key].Name != "" {
					return known[key], nil
				}
			}
			return nil, nil
		},
		All: func(namespace string) ([]appsv1.ControllerRevision, error) {
			var list appsv1.ControllerRevisionList
			err := s.reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{naming.TemplateRevisionLabel})
			return list.Items, err
		},
	}
}

func (s *source) fleet(ctx context.Context) *changes.Fleet {
	return &changes.Fleet{
		Source: changes.Source{
			TemplateOf: func(key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) { return s.template(ctx, key) },
			LabelsOf:   s.labelsOf,
			WorkspaceOf: func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error) {
				return s.workspace(ctx, scope, namespace, name)
			},
			Revisions: s.stored(ctx),
		},
		Clusters: s.Clusters, CAPTClusters: s.CAPTClusters, ControlPlanes: s.ControlPlanes, Applies: s.Applies,
		MachinePools: s.MachinePools, CAPTMachinePools: s.CAPTMachinePools, Evidence: legacy.EvidenceFor, Held: legacy.NotAdopted, HeldMissing: legacy.NotRestored,
	}
}

// isAffected reports whether a file has the unit, its template, or one of its owners.
func (s *source) isAffected(u *changes.Unit) bool {
	apply := u.Apply()
	template := infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: apply.TemplateKey().Namespace, Name: apply.TemplateKey().Name}}
	objects := append([]validation.Owner{apply, &template}, u.Others...)
	if u.Owner != nil {
		objects = append(objects, u.Owner)
	}
	return slices.ContainsFunc(objects, func(object validation.Owner) bool { return s.edited[editKey(object)] })
}

// lookup is a validation.Reader of the objects, as they are edited.
type lookup struct {
	validation.Objects
	source *source
}

func (s *source) lookup() validation.Reader {
	found := lookup{slices.Concat(owners(s.CAPTClusters), owners(s.ControlPlanes), owners(s.Applies), owners(s.MachinePools), owners(s.CAPTMachinePools)), s}
	for i := range s.Clusters {
		found.Objects = append(found.Objects, &s.Clusters[i])
	}
	return found
}

func owners[O validation.Owner](objects map[types.NamespacedName]O) (list validation.Objects) {
	for _, object := range objects {
		list = append(list, object)
	}
	return list
}

func (l lookup) Object(ctx context.Context, key types.NamespacedName, kind validation.Owner) (validation.Owner, error) {
	if _, ok := kind.(*infrav1.WorkspaceTemplate); ok {
		return l.source.template(ctx, key)
	}
	return l.Objects.Object(ctx, key, kind)
}

func (l lookup) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	return l.source.labelsOf(name)
}

// edit puts the objects of files in place of those of the cluster, as applying them would, and adds new ones. It fails if one of them would be rejected.
func (s *source) edit(ctx context.Context, files *manifests.Content, warn func(format string, args ...any)) error {
	before := map[*manifests.Object]field.ErrorList{}
	var edited, added []*manifests.Object
	for _, object := range files.Objects {
		live, err := s.live(ctx, object)
		switch {
		case err != nil:
			return err
		case live == nil && s.isElsewhere(object.Typed):
			warn("%s is not compared: only namespace %s is read", object, s.namespace)
		case live == nil && s.add(object.Typed):
			added = append(added, object)
		case live == nil && object.IsCAPT():
			warn("%s is not compared: Cluster API creates objects from it when a Cluster uses it", object)
		case affectsWorkspaces(object):
			if before[object], err = manifests.Errors(ctx, s.lookup(), live); err != nil {
				return err
			}
			edited = append(edited, object)
		}
	}
	if err := s.replaceAll(ctx, edited, warn); err != nil {
		return err
	}
	s.own()
	return s.rejected(ctx, slices.DeleteFunc(append(edited, added...), func(object *manifests.Object) bool { return !affectsWorkspaces(object) }), before)
}

func (s *source) replaceAll(ctx context.Context, edited []*manifests.Object, warn func(format string, args ...any)) error {
	for _, object := range edited {
		if err := s.replace(ctx, object, warn); err != nil {
			return err
		}
	}
	return nil
}

// isElsewhere reports whether an object is in a namespace that is not read. Templates are read one by one.
func (s *source) isElsewhere(object validation.Owner) bool {
	_, isTemplate := object.(*infrav1.WorkspaceTemplate)
	return !isTemplate && s.namespace != "" && object.GetNamespace() != s.namespace
}

// affectsWorkspaces reports whether the objects of a kind determine Workspaces. Of a Cluster, they need no more than the cluster, or the file of a new one, has.
func affectsWorkspaces(object *manifests.Object) bool {
	_, isPool := object.Typed.(*clusterv1.MachinePool)
	return isPool || object.IsCAPT()
}

// live returns the object of the cluster that an object of a file replaces; nil if there is none. A new template replaces none, but objects of the
// cluster may refer to it already.
func (s *source) live(ctx context.Context, object *manifests.Object) (validation.Owner, error) {
	typed, isTemplate := object.Typed.(*infrav1.WorkspaceTemplate)
	if !isTemplate {
		return s.lookup().Object(ctx, naming.KeyOf(object.Typed), object.Typed) // nil for a template of a ClusterClass: Cluster API creates objects from it, and does not update them.
	}
	template, err := s.template(ctx, naming.KeyOf(typed))
	if template == nil {
		template = typed
	}
	return template, err
}

// replace puts an object of a file in place of that of the cluster. Status and fields that CAPT sets are kept, as the webhooks keep them.
func (s *source) replace(ctx context.Context, object *manifests.Object, warn func(format string, args ...any)) error {
	older, live := object.Kind.Version == migrate.LegacyVersion, object.Typed
	if template, is := live.(*infrav1.WorkspaceTemplate); !is {
		live, _ = s.lookup().Object(ctx, naming.KeyOf(live), live) // It was found before.
	} else if found := s.templates[naming.KeyOf(live)]; found != nil {
		live = found
	} else if s.put(template); !older {
		validation.SetTemplateDefaults(template)
	}
	if live == object.Typed {
		return nil
	}
	after, err := s.applied(ctx, object, live, older, warn)
	if err != nil {
		return err
	}
	if validation.RestoreFields(live, after); older {
		err = validation.RestoreHubFields(ctx, s.lookup(), live, after)
	}
	object.Typed = after
	s.put(after)
	return err
}

// put puts an object in its place; it returns false if objects of the kind do not determine Workspaces.
func (s *source) put(object validation.Owner) bool {
	key := naming.KeyOf(object)
	switch object := object.(type) {
	case *infrav1.WorkspaceTemplate:
		s.templates[key] = object
	case *infrav1.WorkspaceTemplateApply:
		s.Applies[key] = object
	case *infrav1.CAPTCluster:
		s.CAPTClusters[key] = object
	case *controlplanev1.CAPTControlPlane:
		s.ControlPlanes[key] = object
	case *infrav1.CAPTMachinePool:
		s.CAPTMachinePools[key] = object
	case *clusterv1.MachinePool:
		s.MachinePools[key] = object
	default:
		return false
	}
	s.edited[editKey(object)] = true
	return true
}

// rejected returns an error with what the webhooks would reject in edited objects, except for what the objects of the cluster have already.
func (s *source) rejected(ctx context.Context, edited []*manifests.Object, before map[*manifests.Object]field.ErrorList) error {
	var errs []string
	reader := s.lookup()
	for _, object := range edited {
		after, err := manifests.Errors(ctx, reader, object.Typed)
		if err != nil {
			return err
		}
		for _, found := range after {
			isKnown := slices.ContainsFunc(before[object], func(known *field.Error) bool { return known.Error() == found.Error() })
			if object.Typed.GetUID() == "" || !isKnown { // A new template has all of its errors only in the file.
				errs = append(errs, object.Located(found.Field, found.Detail))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &cli.ListError{Title: "the webhooks would reject the files", Items: errs}
}

func editKey(object validation.Owner) string {
	return fmt.Sprintf("%T %s", object, naming.KeyOf(object))
}

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
