// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacy makes clusters as CAPT v0.3 left them: objects in v1beta1 under its definitions, on a real API server, with
// status, owner references and managed fields, and the cluster-wide Workspaces that it rendered. What can be wrong with such
// a fleet has a name each (see Named). An Environment is an API server that has them, and that can be upgraded to today's CAPT.
//
// No controller works on the objects: CAPT v0.3 does not run, and unless a test runs one, no provider. What these would have written is
// written for them.
package legacy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// WebhooksOnly is an argument with which the manager converts and admits objects, and reconciles none: like a replica that does not lead, it
// waits for a Lease. It has no rights in this namespace.
const WebhooksOnly = "--leader-elect-namespace=nowhere"

// Environment is an API server with the definitions of CAPT v0.3, and after Upgrade with this version.
type Environment struct {
	*sandbox.Sandbox
	// Admin is a client of the administrator, without warnings of old versions.
	Admin client.WithWatch
	// began is when the upgrade was done; what came before does not concern captctl.
	began time.Time
}

// Start starts an API server with definitions of CAPT v0.3, provider-terraform and Cluster API, and with the audit log. Unless
// the options add some, it runs no controllers.
func Start(ctx context.Context, options sandbox.Options) (*Environment, error) {
	options.NoCRDs, options.Manager, options.AuditLog, options.ClusterAPIDefinitions = true, false, true, true
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	test := filepath.Join(root, "test")
	options.Manifests = append(options.Manifests, filepath.Join(test, "legacy", "definitions.yaml"), filepath.Join(test, "provider", "config", "crd"))
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	env := &Environment{Sandbox: s}
	if env.Admin, err = newClient(s.Config()); err == nil {
		err = env.grant(ctx, root)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return env, nil
}

// New is like Start, for one test.
func New(t *testing.T, options sandbox.Options) *Environment {
	t.Helper()
	env, err := Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Logs(sandbox.Manager, 60))
		}
		require.NoError(t, env.Stop(context.Background()))
	})
	return env
}

// newClient knows all kinds, and does not repeat the API server's warnings of old versions.
func newClient(config *rest.Config) (client.WithWatch, error) {
	config.WarningHandler = rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: builder.Scheme()})
}

// Client is one of a component or an identity of the sandbox: sandbox.Captctl, for example.
func (env *Environment) Client(name string) (client.WithWatch, error) {
	config, err := env.ConfigOf(name)
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// Create makes a fixture.
func (env *Environment) Create(ctx context.Context, fixture Fixture, names Names) (*Objects, error) {
	return fixture.Create(ctx, env.Admin, names)
}

// Upgrade installs this version of CAPT over v0.3, and returns when v1beta2 is served and the manager runs, with the arguments. Objects of
// OlderTemplate must not exist: users remove them with commands that captctl migrate check prints, and tests with TakeTemplates.
func (env *Environment) Upgrade(ctx context.Context, args ...string) error {
	if err := env.removeOlderTemplates(ctx); err != nil {
		return err
	}
	if err := env.Install(ctx, WebhooksOnly, "--leader-elect"); err != nil {
		return err
	}
	// Admission of owner references discovers new kinds only every half minute, and a restart does it at once. Controllers start after it: what
	// they cannot send meanwhile would count as errors.
	if err := env.Restart(ctx, sandbox.APIServer); err != nil {
		return err
	}
	for _, kind := range migrate.Kinds() {
		if err := env.awaitServed(ctx, kind); err != nil {
			return err
		}
	}
	env.began = time.Now()
	if slices.Contains(args, WebhooksOnly) {
		return nil
	}
	return env.StartControllers(ctx, args...)
}

// StartManager starts the manager.
func (env *Environment) StartManager(ctx context.Context, args ...string) error {
	if slices.Contains(args, WebhooksOnly) {
		args = append(args, "--leader-elect")
	}
	return env.Sandbox.StartManager(ctx, args...)
}

// StartControllers restarts the manager with other arguments.
func (env *Environment) StartControllers(ctx context.Context, args ...string) error {
	if err := env.StopComponent(ctx, sandbox.Manager); err != nil {
		return err
	}
	return env.StartManager(ctx, args...)
}

// awaitServed returns when objects of a kind can be listed in today's version. A definition is established long before, when it
// replaces another.
func (env *Environment) awaitServed(ctx context.Context, kind migrate.Kind) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, timeout, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		last = env.Admin.List(ctx, list, client.Limit(1))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s in %s: %w, last: %w", kind.Kind, kind.Version, err, last)
	}
	return nil
}

func olderTemplates() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(controlPlaneKind.GroupVersion().WithKind(OlderTemplate + "List"))
	return list
}

// TakeTemplates removes the objects of OlderTemplate, and returns them.
func (env *Environment) TakeTemplates(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := olderTemplates()
	if err := env.Admin.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := env.Admin.Delete(ctx, list.Items[i].DeepCopy()); err != nil {
			return nil, err
		}
	}
	return list.Items, nil
}

// removeOlderTemplates removes the definition that ours cannot replace, unless that was done already.
func (env *Environment) removeOlderTemplates(ctx context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "captcontrolplanetemplates." + controlPlaneKind.Group}
	err := env.Admin.Get(ctx, key, definition)
	if apierrors.IsNotFound(err) || (err == nil && definition.Spec.Names.Kind != OlderTemplate) {
		return nil
	}
	if err != nil {
		return err
	}
	list := olderTemplates()
	if err := env.Admin.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("there are %d objects of kind %s; TakeTemplates removes them", len(list.Items), OlderTemplate)
	}
	if err := env.Admin.Delete(ctx, definition); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, tick, timeout, true, func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, key, definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Requests of a user since the upgrade, in the order in which they were answered. Verbs select some; none means all.
func (env *Environment) Requests(user string, verbs ...string) ([]auditv1.Event, error) {
	return env.AuditEvents(audit.Filter{User: user, Verbs: verbs, Since: env.began})
}

// Writes of a user since the upgrade.
func (env *Environment) Writes(user string) ([]auditv1.Event, error) {
	return env.Requests(user, audit.Writes...)
}

// grant gives sandbox.Captctl the roles that users bind, and nothing more; and sandbox.Reader what captctl reads.
func (env *Environment) grant(ctx context.Context, root string) error {
	objects, err := access(root)
	if err != nil {
		return err
	}
	return manifests.Apply(ctx, env.Admin, objects...)
}

func access(root string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Load(filepath.Join(root, "config", "rbac", "captctl.yaml"))
	if err != nil {
		return nil, err
	}
	for _, role := range objects {
		objects = append(objects, manifests.ClusterRoleBinding("test-"+role.GetName(), role.GetName(), sandbox.CaptctlUser))
	}
	var rules []any
	rights, err := check.Rights("", check.RoleReader, check.RoleJournalReader)
	if err != nil {
		return nil, err
	}
	for _, right := range rights {
		rules = append(rules, map[string]any{"apiGroups": []any{right.Group}, "resources": []any{right.Resource}, "verbs": []any{right.Verb}})
	}
	const reader = sandbox.ReaderUser
	return append(objects, manifests.ClusterRole(reader, rules...), manifests.ClusterRoleBinding("test-"+reader, reader, reader)), nil
}

// Deployments that CAPT v0.3 installs: one for each of the two providers that it is for clusterctl.
func Deployments(replicas int32) []*appsv1.Deployment {
	var deployments []*appsv1.Deployment
	for _, provider := range []string{"control-plane", "infrastructure"} {
		name := "appthrust-capt-controller-manager-" + provider
		pod := map[string]string{
			"cluster.x-k8s.io/provider": provider + "-capt", "cluster.x-k8s.io/v1beta1": "v1beta1", "control-plane": "controller-manager",
		}
		labels := maps.Clone(pod)
		labels["app.kubernetes.io/managed-by"], labels["app.kubernetes.io/name"] = "kustomize", "capt"
		deployments = append(deployments, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ManagerNamespace, Name: name, Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: pod},
					Spec: corev1.PodSpec{
						ServiceAccountName: name,
						Containers:         []corev1.Container{{Name: "manager", Image: "ghcr.io/appthrust/capt:v0.3.0"}},
					},
				},
			},
		})
	}
	return deployments
}

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

// one makes a fixture of a single cluster, called demo, from what is particular about it.
func one(change func(*Cluster, Names)) Fixture {
	return Fixture{Clusters: func(names Names) []Cluster {
		c := Cluster{Namespace: names.Namespace, Name: names.Prefix + "demo"}
		change(&c, names)
		return []Cluster{c}
	}}
}

func two(change func(first, second *Cluster, names Names)) Fixture {
	return Fixture{Clusters: func(names Names) []Cluster {
		first := Cluster{Namespace: names.Namespace, Name: names.Prefix + "demo"}
		second := Cluster{Namespace: names.Namespace, Name: names.Prefix + "other"}
		change(&first, &second, names)
		return []Cluster{first, second}
	}}
}

// Named are the ways in which legacy fleets are known to be.
func Named() map[string]Fixture {
	fixtures := map[string]Fixture{}
	for _, group := range []map[string]Fixture{references(), collisions(), states(), tools()} {
		maps.Copy(fixtures, group)
	}
	return fixtures
}

// references between control planes and WorkspaceTemplateApplies.
func references() map[string]Fixture {
	return map[string]Fixture{
		"reference-set":                  one(func(*Cluster, Names) {}),
		"reference-empty-generated-name": one(func(c *Cluster, _ Names) { c.Unreferenced = true }),
		// An early version of CAPT v0.3 called the WorkspaceTemplateApply of every control plane like this.
		"reference-empty-hand-made-fixed-name": one(func(c *Cluster, names Names) {
			c.Name, c.Unreferenced, c.Apply = names.Prefix+"shop", true, "demo-eks-controlplane-apply"
		}),
		"reference-empty-arbitrary-name": one(func(c *Cluster, names Names) {
			c.Unreferenced, c.Apply = true, names.Prefix+"production-eks"
		}),
		// Only its content, and its Workspace, show whose it is.
		"hand-made-without-owner-reference": one(func(c *Cluster, names Names) {
			c.Unreferenced, c.HandMade, c.Apply = true, true, names.Prefix+"written-by-hand"
		}),
		"helpers-present": one(func(c *Cluster, _ Names) { c.Unreferenced, c.Helpers = true, true }),
		"control-plane-name-differs": one(func(c *Cluster, names Names) {
			c.ControlPlane, c.Network, c.Unreferenced = names.Prefix+"brain", names.Prefix+"network", true
		}),
		"templates-in-default": one(func(c *Cluster, names Names) { c.inDefault(names).VPCSecretNamespace = names.Namespace }),
		// The Secret of the VPC is in another namespace than its WorkspaceTemplateApply, and stays there.
		"templates-in-default-with-secret": one(func(c *Cluster, names Names) { c.inDefault(names) }),
		// Not every template of a VPC names a Secret, and nothing may ask for one now.
		"vpc-without-secret": one(func(c *Cluster, _ Names) {
			recipe := plain
			recipe.WithoutVPCSecret = true
			c.Recipe = &recipe
		}),
	}
}

func collisions() map[string]Fixture {
	return map[string]Fixture{
		// The second cluster was made when the Workspaces of the first one were there: CAPT v0.3 took them for its own.
		"equal-names-in-two-namespaces": two(func(first, second *Cluster, names Names) {
			*second = Cluster{Namespace: names.Other, Name: first.Name, WithoutWorkspaces: true, Twin: first.Namespace + "/" + first.Name}
			first.Disputed, second.Disputed, first.DisputedVPC, second.DisputedVPC = true, true, true, true
		}),
		// Both names less "-apply" are one.
		"x-and-x-apply": two(func(first, second *Cluster, names Names) {
			first.Apply, second.Apply = names.Prefix+"x-apply", names.Prefix+"x"
			first.Disputed, second.Disputed, second.WithoutEKS = true, true, true
			second.Twin = first.Namespace + "/" + first.Name
		}),
		"two-claimants": two(func(first, second *Cluster, _ Names) {
			second.Apply, second.WithoutApply = first.Name+"-eks-controlplane-apply", true
			second.Twin = first.Namespace + "/" + first.Name
			first.Disputed, second.Disputed = true, true
		}),
	}
}

// states in which a cluster may be when CAPT v0.3 is frozen.
func states() map[string]Fixture {
	return map[string]Fixture{
		"existing-vpc":         one(func(c *Cluster, _ Names) { c.ExistingVPC = "vpc-0123456789abcdef0" }),
		"retained-vpc":         one(func(c *Cluster, _ Names) { c.RetainVPC = true }),
		"status-wiped":         one(func(c *Cluster, _ Names) { c.StatusWiped, c.Unreferenced = true, true }),
		"apply-failed":         one(func(c *Cluster, _ Names) { c.ApplyFailed = true }),
		"cluster-paused":       one(func(c *Cluster, _ Names) { c.Paused, c.Unreferenced = true, true }),
		"deletion-in-progress": one(func(c *Cluster, _ Names) { c.Deleting, c.Disputed, c.Unreferenced = true, true, true }),
	}
}

// tools that write objects, or templates of them.
func tools() map[string]Fixture {
	templates := one(func(*Cluster, Names) {})
	templates.ControlPlaneTemplates = 2
	return map[string]Fixture{
		"clusterclass-owned": one(func(c *Cluster, _ Names) {
			c.Applier, c.Network, c.ControlPlane, c.Unreferenced = Topology, c.Name+"-7xk2p", c.Name+"-m4v9q", true
		}),
		"control-plane-templates": templates,
		"flux-managed":            one(func(c *Cluster, _ Names) { c.Applier, c.Unreferenced = Flux, true }),
		"argocd-managed":          one(func(c *Cluster, _ Names) { c.Applier, c.Unreferenced = ArgoCD, true }),
	}
}

// inDefault puts the templates into the namespace default, which other fixtures may do as well.
func (c *Cluster) inDefault(names Names) *Recipe {
	recipe := plain
	recipe.Prefix = names.Prefix
	c.Templates, c.Recipe = "default", &recipe
	return &recipe
}

// PlainRecipe makes clusters without a server to connect to, for a provider with OpenTofu.
func PlainRecipe() *Recipe {
	recipe := plain
	recipe.ProviderConfig = sandbox.ProviderConfigName
	return &recipe
}

// Addon is a WorkspaceTemplateApply that a user wrote for a cluster.
type Addon struct {
	// Name without that of the cluster.
	Name string
	// Waits says that it waits for the Workspace of the control plane.
	Waits bool
	// Secret says that it writes a connection Secret.
	Secret bool
}

func (c *Cluster) createAddons(a *author, controlPlane *unstructured.Unstructured) {
	hand := *c
	hand.HandMade, hand.Deleting = true, false
	adoptions := a.objects.Adoptions
	for _, addon := range c.Addons {
		typed := &infrav1beta1.WorkspaceTemplateApply{ObjectMeta: meta(c.Namespace, c.Name+"-"+addon.Name)}
		typed.Spec.TemplateRef, typed.Spec.Variables = c.ref(addonTemplate), map[string]string{"cluster_name": c.Name}
		if addon.Waits {
			typed.Spec.WaitForWorkspaces = []infrav1beta1.WorkspaceReference{{Name: naming.LegacyWorkspace(c.Apply)}}
		}
		if addon.Secret {
			typed.Spec.WriteConnectionSecretToRef = &infrav1beta1.SecretReference{Name: typed.Name + "-connection", Namespace: c.Namespace}
		}
		hand.createApply(a, controlPlane, typed, map[string]string{"id": c.hash(typed.Name, 32)})
	}
	a.objects.Adoptions = adoptions
}
