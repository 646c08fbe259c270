// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
)

// Names keep fixtures apart that share an API server.
type Names struct {
	// Namespace is where the fixture is, and Other a second one, which few fixtures need.
	Namespace, Other string
	// Prefix is put before the names of clusters, and with it of cluster-wide Workspaces.
	Prefix string
}

// NamesOf a fixture, if there is one of it on an API server: no two fixtures share any.
func NamesOf(fixture string) Names {
	return Names{Namespace: fixture, Other: fixture + "-other", Prefix: fixture + "-"}
}

// Objects are what a fixture made.
type Objects struct {
	Names
	// Items are all objects of CAPT, Cluster API and provider-terraform, as the API server returned them last. Secrets are not
	// among them.
	Items []unstructured.Unstructured
	// Manifests are what a team has in Git: neither defaults nor anything that a controller wrote is in them.
	Manifests []*unstructured.Unstructured
	// Adoptions say what belongs together in truth.
	Adoptions []Adoption
}

// Exported are the WorkspaceTemplateApplies as users export what CAPT v0.3 created.
func (o *Objects) Exported() (exported []*unstructured.Unstructured) {
	for i := range o.Items {
		if item := &o.Items[i]; item.GetKind() == applyKind.Kind {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": item.DeepCopy().Object["spec"]}}
			object.SetGroupVersionKind(item.GroupVersionKind())
			object.SetNamespace(item.GetNamespace())
			object.SetName(item.GetName())
			exported = append(exported, object)
		}
	}
	return exported
}

// Adoption is an owner, its WorkspaceTemplateApply and the cluster-wide Workspace of that. An owner without one has none.
type Adoption struct {
	// Kind of the owner: CAPTCluster or CAPTControlPlane.
	Kind               string
	Owner, Apply       types.NamespacedName
	OwnerUID, ApplyUID types.UID
	Workspace          string
	// Disputed says that the evidence does not decide, so that the user must. What the fixture names is then one of the answers.
	Disputed bool
}

// Canary is in every Secret of a fixture, so that a test can look whether it got anywhere else.
const Canary = "the-value-of-a-secret-9c1f"

// OlderTemplate is how CAPT v0.3 spelled CAPTControlPlaneTemplate.
const OlderTemplate = "CaptControlPlaneTemplate"

// Fixture is what a fleet can be like, with what can be wrong with it.
type Fixture struct {
	// Clusters of the fixture, of any names.
	Clusters func(Names) []Cluster
	// ControlPlaneTemplates is how many objects of OlderTemplate there are.
	ControlPlaneTemplates int
	// Quick makes objects whole, and no Secrets: CAPT v0.3 is the only field manager.
	Quick bool
}

// parallel is how many clusters are made at once.
const parallel = 16

// Create makes the fixture through a client of an administrator, under the definitions of CAPT v0.3. Namespaces and
// templates may be there already.
func (f Fixture) Create(ctx context.Context, c client.Client, names Names) (*Objects, error) {
	clusters := f.Clusters(names)
	shared, err := f.createShared(ctx, c, names, clusters)
	if err != nil {
		return nil, err
	}
	made := make([]*Objects, len(clusters))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range clusters {
		group.Go(func() error {
			a := &author{ctx: ctx, client: c, quick: f.Quick, objects: &Objects{}}
			clusters[i].create(a)
			made[i] = a.objects
			return a.err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, objects := range made {
		shared.Items = append(shared.Items, objects.Items...)
		shared.Manifests = append(shared.Manifests, objects.Manifests...)
		shared.Adoptions = append(shared.Adoptions, objects.Adoptions...)
	}
	return shared, nil
}

// createShared makes namespaces and templates.
func (f Fixture) createShared(ctx context.Context, c client.Client, names Names, clusters []Cluster) (*Objects, error) {
	a := &author{ctx: ctx, client: c, quick: f.Quick, applier: Kubectl, objects: &Objects{Names: names}}
	seen := map[string]bool{}
	for i := range clusters {
		clusters[i].complete()
		for _, namespace := range []string{clusters[i].Namespace, clusters[i].Templates} {
			if !seen["namespace "+namespace] {
				err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					return nil, fmt.Errorf("creating namespace %s: %w", namespace, err)
				}
			}
			seen["namespace "+namespace] = true
		}
		clusters[i].createTemplates(a, seen)
	}
	for i := range f.ControlPlaneTemplates {
		a.createControlPlaneTemplate(names.Namespace, fmt.Sprintf("%stemplate-%d", names.Prefix, i+1))
	}
	return a.objects, a.err
}

// createTemplates makes those that a cluster uses, which several fixtures may share.
func (c *Cluster) createTemplates(a *author, seen map[string]bool) {
	grow := func(object *unstructured.Unstructured) {
		object.SetFinalizers([]string{"workspacetemplate.v2." + templateKind.Group})
	}
	if a.applier = c.Applier; a.applier == Topology {
		a.applier = Kubectl
	}
	for _, typed := range c.templates() {
		template := untyped(templateKind, typed)
		key := client.ObjectKeyFromObject(template)
		if seen[key.String()] {
			continue
		}
		seen[key.String()] = true
		if err := a.client.Get(a.ctx, key, template); err == nil {
			if key.Namespace == c.Templates { // That of the namespace default is recorded by the fixture that created it.
				a.done(template)
			}
			continue
		}
		template = a.declare(template, grow)
		if apierrors.IsAlreadyExists(a.err) && key.Namespace != c.Templates {
			a.err = nil // Another fixture was faster.
			continue
		}
		a.grow(template, FieldManager, grow)
		a.done(template)
	}
}

func (a *author) createControlPlaneTemplate(namespace, name string) {
	typed := &controlplanev1beta1.CAPTControlPlaneTemplate{ObjectMeta: meta(namespace, name)}
	sample := Cluster{Namespace: namespace, Name: name}
	sample.complete()
	typed.Spec.Template.Spec = sample.controlPlaneSpec()
	object := untyped(controlplanev1beta1.GroupVersion.WithKind(OlderTemplate), typed)
	a.done(a.declare(object, func(*unstructured.Unstructured) {}))
}

// Fleet is n clusters with nothing wrong about them but their age, made fast.
func Fleet(n int) Fixture {
	return Fixture{Quick: true, Clusters: func(names Names) []Cluster {
		clusters := make([]Cluster, n)
		for i := range clusters {
			clusters[i] = Cluster{Namespace: names.Namespace, Name: fmt.Sprintf("%sfleet-%04d", names.Prefix, i)}
		}
		return clusters
	}}
}
