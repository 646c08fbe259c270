// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// pick returns an object of a kind of a user; nil if there is none.
func pick[O client.Object](w *World, gvk schema.GroupVersionKind, n uint64) (found O) {
	keys := w.store.of(gvk).keys
	if len(keys) == 0 {
		return found
	}
	return w.store.of(gvk).objects[keys[n%uint64(len(keys))]].(O)
}

// change edits an object as its user does, if there is one.
func change[O client.Object](w *World, gvk schema.GroupVersionKind, n uint64, how func(O)) {
	keys := w.store.of(gvk).keys
	if len(keys) == 0 {
		return
	}
	object := pick[O](w, gvk, n)
	err := edit(w, object.GetNamespace(), object, false, how)
	w.tracef("user edits %s %s: %v", gvk.Kind, client.ObjectKeyFromObject(object), err)
}

// changeTemplate edits a template that has users, if there is one.
func (w *World) changeTemplate(n uint64, how func(*infrav1.WorkspaceTemplate)) {
	keys := slices.DeleteFunc(slices.Clone(w.store.of(templateKind).keys), func(key types.NamespacedName) bool {
		return ptr.Deref(peek[*infrav1.WorkspaceTemplate](w, templateKind, key.Namespace, key.Name).Status.Users, 0) == 0
	})
	if len(keys) == 0 {
		return
	}
	key := keys[n%uint64(len(keys))]
	err := edit(w, key.Namespace, peek[*infrav1.WorkspaceTemplate](w, templateKind, key.Namespace, key.Name), false, how)
	w.tracef("user edits template %s: %v", key, err)
}

// userActions are what users do, by name. n is random.
var userActions = map[string]func(w *World, n uint64){
	"create": (*World).createCluster,
	"delete": func(w *World, n uint64) { w.userDeletes(clusterKind, n) },
	"upgrade": func(w *World, n uint64) {
		change(w, captPlaneKind, n, func(o *controlplanev1.CAPTControlPlane) {
			o.Spec.Version = "v1.32.0"
		})
	},
	"edit variables": func(w *World, n uint64) {
		change(w, captPlaneKind, n, func(o *controlplanev1.CAPTControlPlane) {
			o.Spec.Variables = infrav1.TextVariables(map[string]string{"team": fmt.Sprintf("v%d", n/8%4)})
		})
	},
	"edit template": func(w *World, n uint64) {
		w.contents++
		content := fmt.Sprintf("# content %d", w.contents)
		w.changeTemplate(n, func(o *infrav1.WorkspaceTemplate) { setModule(o, content) })
	},
	"break template": func(w *World, n uint64) {
		w.changeTemplate(n, func(o *infrav1.WorkspaceTemplate) { setModule(o, []string{brokenPlan, brokenApply}[n/8%2]) })
	},
	"revert template": func(w *World, n uint64) {
		content := fmt.Sprintf("# content %d", max(1, w.contents-1))
		w.changeTemplate(n, func(o *infrav1.WorkspaceTemplate) { setModule(o, content) })
	},
	"repair template": func(w *World, n uint64) { w.changeTemplate(n, repair) },
	"stage template": func(w *World, n uint64) {
		w.changeTemplate(n, func(o *infrav1.WorkspaceTemplate) {
			o.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways}
			if n/8%3 == 0 {
				o.Spec.Rollout.Preview = infrav1.RolloutPreviewAlways
				o.Spec.Rollout.Approval = infrav1.RolloutApprovalOnChanges
			}
		})
	},
	"approve": func(w *World, n uint64) { w.changeTemplate(n, w.approve) },
	"pause": func(w *World, n uint64) {
		change(w, clusterKind, n, func(o *clusterv1.Cluster) { o.Spec.Paused = ptr.To(true) })
	},
	"unpause": func(w *World, n uint64) {
		change(w, clusterKind, n, func(o *clusterv1.Cluster) { o.Spec.Paused = nil })
	},
	"delete namespace": func(w *World, _ uint64) {
		for _, gvk := range []schema.GroupVersionKind{clusterKind, applyKind, workspaceKind} { // A policy refuses it.
			if slices.ContainsFunc(w.store.of(gvk).keys, func(key types.NamespacedName) bool { return key.Namespace == "team-b" }) {
				return
			}
		}
		err := w.store.remove("admin", namespaceKind, types.NamespacedName{Name: "team-b"}, nil)
		w.tracef("admin deletes namespace team-b: %v", err)
	},
	"delete template":  func(w *World, n uint64) { w.userDeletes(templateKind, n) },
	"delete apply":     func(w *World, n uint64) { w.userDeletes(applyKind, n) },
	"delete workspace": func(w *World, n uint64) { w.userDeletes(workspaceKind, n) },
	"delete secret":    func(w *World, n uint64) { w.userDeletes(corev1.SchemeGroupVersion.WithKind("Secret"), n) },
	"scale": func(w *World, n uint64) {
		change(w, machinePoolKind, n, func(o *clusterv1.MachinePool) { o.Spec.Replicas = ptr.To(int32(1 + n/8%3)) })
	},
	"remove profiles": func(w *World, n uint64) {
		change(w, captPlaneKind, n, func(o *controlplanev1.CAPTControlPlane) { o.Spec.FargateProfiles = nil })
	},
	"delete pool": func(w *World, n uint64) { w.userDeletes(machinePoolKind, n) },
	"tenant":      (*World).interfere,
}

func (w *World) userDeletes(gvk schema.GroupVersionKind, n uint64) {
	keys := w.store.of(gvk).keys
	if len(keys) == 0 {
		return
	}
	w.userDeletesOne(gvk, keys[n%uint64(len(keys))])
}

func (w *World) userDeletesOne(gvk schema.GroupVersionKind, key types.NamespacedName) {
	w.byUser[w.store.of(gvk).objects[key].GetUID()] = true
	err := w.store.remove(key.Namespace, gvk, key, nil)
	w.tracef("user deletes %s %s: %v", gvk.Kind, key, err)
}

func (w *World) createCluster(n uint64) {
	namespace, name := nameOf(n)
	if w.store.of(namespaceKind).objects[types.NamespacedName{Name: namespace}] == nil {
		w.create(w.user("admin"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{"kubernetes"}}})
	}
	if w.store.of(clusterKind).objects[types.NamespacedName{Namespace: namespace, Name: name}] != nil {
		return
	}
	w.templates(namespace)
	in := builder.WithNamespace(namespace)
	captCluster, plane := builder.CAPTCluster(name, in), builder.CAPTControlPlane(name, in)
	if n/4%4 == 0 {
		captCluster = builder.CAPTCluster(name, in, builder.WithExistingVPC("vpc-0123456789abcdef0"))
		captCluster.Spec.VPC.ConnectionSecretRef.Name = "network"
		_ = w.createNetwork(namespace)
	}
	if n/16%3 == 0 {
		plane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{
			Name: "pods", Selectors: []controlplanev1.FargateSelector{{Namespace: "apps"}}, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		}}
	}
	objects := []client.Object{captCluster, plane, builder.Cluster(name, in)}
	if n/48%3 == 0 {
		pool := builder.MachinePool(name+"-workers", in, builder.WithReplicas(2))
		pool.Spec.ClusterName, pool.Spec.Template.Spec.ClusterName = name, name
		objects = append(objects, pool, builder.CAPTMachinePool(name+"-workers", in, builder.WithScaling(1, 4)))
	}
	if n/144%2 == 0 {
		slices.Reverse(objects)
	}
	for _, object := range objects {
		err := w.user(namespace).Create(context.Background(), fresh(object))
		w.tracef("user creates %T %s/%s: %v", object, namespace, name, err)
	}
}

// createNetwork creates the Secret that describes an existing VPC.
func (w *World) createNetwork(namespace string) error {
	return w.user(namespace).Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "network"},
		Data:       map[string][]byte{"vpc_config": []byte("vpc_id = \"vpc-0123456789abcdef0\"\nprivate_subnets = [\"subnet-1\"]\n")},
	})
}

func setModule(o *infrav1.WorkspaceTemplate, comment string) {
	o.Spec.Template.Spec.ForProvider.Module = moduleOf(o.Name, comment)
}

func repair(o *infrav1.WorkspaceTemplate) {
	if text := o.Spec.Template.Spec.ForProvider.Module; strings.Contains(text, brokenPlan) || strings.Contains(text, brokenApply) {
		setModule(o, "# repaired")
	}
}

func (w *World) approve(o *infrav1.WorkspaceTemplate) {
	revision := o.Status.Rollout.Revision
	if revision == "" || o.Status.ObservedGeneration != o.Generation {
		return
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[naming.ApproveAnnotation], o.Annotations[naming.ApproveDestroyAnnotation] = revision, revision
	o.Annotations[naming.ResumeAnnotation] = revision
	w.approved[o.Namespace+o.Spec.Template.Spec.ForProvider.Module] = true
}

// interfere is what a tenant tries with objects that name those of another one.
func (w *World) interfere(n uint64) {
	if n/8%4 == 3 {
		w.occupy(n)
		return
	}
	victim := pick[client.Object](w, workspaceKind, n)
	if victim == nil || w.intrudes(victim) {
		return
	}
	other := namespaces[0]
	if victim.GetNamespace() == other {
		other = namespaces[1]
	}
	var object client.Object
	switch n / 8 % 4 {
	case 0: // A WorkspaceTemplateApply whose Workspace has the name of one of the other tenant, in the same namespace or not.
		intruder := builder.WorkspaceTemplateApply("intruder", builder.WithNamespace([]string{other, victim.GetNamespace()}[n/32%2]))
		if apply := w.applyOf(victim.(*unstructured.Unstructured)); apply != nil {
			intruder.Spec = *apply.Spec.DeepCopy()
		}
		intruder.Spec.WorkspaceName = victim.GetName()
		object = fresh(intruder)
	case 1: // A Workspace with the state of another one.
		workspace := convert(victim, &unstructured.Unstructured{}).(*unstructured.Unstructured)
		object = &unstructured.Unstructured{Object: map[string]any{"spec": workspace.Object["spec"]}}
		object.GetObjectKind().SetGroupVersionKind(workspace.GroupVersionKind())
		object.SetNamespace(other)
		object.SetName(victim.GetName())
		object.SetAnnotations(map[string]string{naming.ClaimAnnotation: victim.GetAnnotations()[naming.ClaimAnnotation]})
	default: // A Cluster that refers to the control plane of another one.
		copied := builder.Cluster("copy", builder.WithNamespace(victim.GetNamespace()))
		name := map[string]string{namespaces[0]: "one", namespaces[1]: "three"}[victim.GetNamespace()]
		copied.Spec.ControlPlaneRef.Name, copied.Spec.InfrastructureRef.Name = name, name
		object = fresh(copied)
	}
	w.intrude(other, object)
}

// occupy creates the Workspace that the VPC of a Cluster would get, for another object.
func (w *World) occupy(n uint64) {
	namespace, name := nameOf(n)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"providerConfigRef": map[string]any{"kind": "ClusterProviderConfig", "name": "aws"}, "forProvider": map[string]any{"source": "Inline", "module": "# other"},
	}}}
	object.SetGroupVersionKind(workspaceKind)
	object.SetNamespace(namespace)
	object.SetName(name + "-vpc")
	object.SetAnnotations(map[string]string{naming.ClaimAnnotation: namespace + "/other"})
	w.intrude(namespace, object)
}

func (w *World) intrude(user string, object client.Object) {
	err := w.user(user).Create(context.Background(), object)
	if err == nil {
		w.intruders = append(w.intruders, object)
	}
	w.tracef("tenant of %s creates %T %s: %v", user, object, client.ObjectKeyFromObject(object), err)
}

func nameOf(n uint64) (namespace, name string) {
	return namespaces[n%2], [][]string{{"one", "two"}, {"three", "four"}}[n%2][n/2%2]
}

// operate is what users do after the faults, as the documentation says: they repair, approve, unlock and retry.
func (w *World) operate() {
	for _, key := range w.store.of(templateKind).keys {
		object := peek[*infrav1.WorkspaceTemplate](w, templateKind, key.Namespace, key.Name)
		_ = edit(w, key.Namespace, object, false, func(o *infrav1.WorkspaceTemplate) {
			repair(o)
			w.approve(o)
		})
	}
	for _, key := range w.store.of(clusterKind).keys {
		_ = edit(w, key.Namespace, w.store.of(clusterKind).objects[key], false, func(o client.Object) { o.(*clusterv1.Cluster).Spec.Paused = nil })
	}
	for _, name := range sortedKeys(w.cloud.states) {
		if s := w.cloud.states[name]; s.orphaned {
			s.lock, s.orphaned = "", false
		}
	}
	workspaces := w.store.of(workspaceKind)
	for _, key := range workspaces.keys {
		object := workspaces.objects[key]
		if object.GetAnnotations()["crossplane.io/external-create-pending"] > max(object.GetAnnotations()["crossplane.io/external-create-succeeded"], object.GetAnnotations()["crossplane.io/external-create-failed"]) {
			_ = edit(w, key.Namespace, object, false, func(o client.Object) {
				annotations := o.GetAnnotations()
				delete(annotations, "crossplane.io/external-create-pending")
				annotations[naming.ResumedAnnotation] = time.Now().Format(time.RFC3339)
				o.SetAnnotations(annotations)
			})
		}
	}
	for _, key := range w.store.of(captClusterKind).keys { // The Secret of an existing VPC is theirs.
		_ = w.createNetwork(key.Namespace)
	}
	for _, intruder := range w.intruders {
		_ = w.user(intruder.GetNamespace()).Delete(context.Background(), intruder)
	}
	w.intruders = nil
	w.approveChanges()
	w.retry()
}

var approveCommand = regexp.MustCompile(naming.ApproveAnnotation + `=([0-9a-f]+)`)

// approveChanges approves the changes of single WorkspaceTemplateApplies, as their conditions say.
func (w *World) approveChanges() {
	for _, key := range w.store.of(applyKind).keys {
		apply := peek[*infrav1.WorkspaceTemplateApply](w, applyKind, key.Namespace, key.Name)
		for _, condition := range apply.Status.Conditions {
			if hash := approveCommand.FindStringSubmatch(condition.Message); hash != nil {
				_ = edit(w, key.Namespace, apply, false, func(o *infrav1.WorkspaceTemplateApply) {
					metav1.SetMetaDataAnnotation(&o.ObjectMeta, naming.ApproveAnnotation, hash[1])
				})
				break
			}
		}
	}
}

// retry sets the annotation that captctl retry sets, on objects whose conditions name it: nothing else needs it.
func (w *World) retry() {
	for _, gvk := range []schema.GroupVersionKind{captClusterKind, captPlaneKind, poolKind} {
		for _, key := range w.store.of(gvk).keys {
			object := w.store.of(gvk).objects[key]
			if !slices.ContainsFunc(object.(conditions.Getter).GetConditions(), func(c metav1.Condition) bool { return strings.Contains(c.Message, naming.RetryAnnotation) }) {
				continue
			}
			_ = edit(w, key.Namespace, object, false, func(o client.Object) {
				annotations := maps.Clone(o.GetAnnotations())
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations[naming.RetryAnnotation] = time.Now().Format(time.RFC3339)
				o.SetAnnotations(annotations)
			})
		}
	}
}
