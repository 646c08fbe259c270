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

package check_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

var (
	// shared is a cluster in which a migration could begin: this CAPT is installed, and its manager only converts and admits.
	shared *sandbox.Sandbox
	admin  client.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandbox:", err)
		return 1
	}
	defer func() {
		if err := shared.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	return m.Run()
}

func start(ctx context.Context) error {
	var err error
	shared, err = sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPIDefinitions: true, Manager: true, ManagerArgs: []string{"--webhooks-only"}, AuditLog: true,
	})
	if err != nil {
		return err
	}
	quiet := shared.Config()
	quiet.WarningHandlerWithContext = rest.NoWarnings{}
	if admin, err = client.New(quiet, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return err
	}
	roles, err := manifests.Load("../../../config/rbac/captctl.yaml")
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, admin, roles...); err != nil {
		return err
	}
	return admit(ctx)
}

// admit gives the one who runs captctl all roles, and the reader what one needs to look.
func admit(ctx context.Context) error {
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	for _, right := range check.Rights("", check.Inspect) {
		reader.Rules = append(reader.Rules, rbacv1.PolicyRule{APIGroups: []string{right.Group}, Resources: []string{right.Resource}, Verbs: []string{right.Verb}})
	}
	objects := []client.Object{reader, bind("reader", sandbox.ReaderUser)}
	for _, role := range []string{"capt-migrate", "capt-migrate-owners", "capt-migrate-finalize", "capt-migrate-journal"} {
		objects = append(objects, bind(role, sandbox.CaptctlUser))
	}
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func bind(role, user string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// optionsOf are those of somebody who runs captctl.
func optionsOf(t *testing.T, who string) check.Options {
	t.Helper()
	config, err := shared.ConfigOf(who)
	require.NoError(t, err)
	return check.Options{Config: config}
}

// find returns the check of a name.
func find(t *testing.T, report *check.Report, name string) check.Check {
	t.Helper()
	require.NotNil(t, report)
	for _, check := range report.Checks {
		if check.Name == name {
			return check
		}
	}
	require.Failf(t, "no such check", "%s", name)
	return check.Check{}
}

// look runs preflight as the one who may do everything, and returns the check of a name.
func look(t *testing.T, name string, change ...func(*check.Options)) check.Check {
	t.Helper()
	options := optionsOf(t, sandbox.Captctl)
	for _, c := range change {
		c(&options)
	}
	report, _ := check.Run(t.Context(), options)
	return find(t, report, name)
}

// namespace makes a namespace for a test.
func namespace(t *testing.T) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, admin.Create(t.Context(), n))
	return n.Name
}

// create creates an object for the time of a test, as somebody.
func create(t *testing.T, manager string, object client.Object) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), object, client.FieldOwner(manager)))
	t.Cleanup(func() {
		_ = admin.Patch(context.Background(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		_ = admin.Delete(context.Background(), object)
	})
}

// captCluster is one as the older CAPT had it.
func captCluster(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
		"kind":       "CAPTCluster",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"spec":       map[string]any{"region": "eu-west-3", "existingVpcId": "vpc-0ffee"},
	}}
}

// deployment is one that runs an image.
func deployment(namespace, name, image string, replicas int32, args ...string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: image, Args: args}}},
			},
		},
	}
}
