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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
