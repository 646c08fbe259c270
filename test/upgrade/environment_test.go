// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package upgrade_test replaces CAPT by its next version and by the one before, as a Deployment does, while clusters exist. The next version is built
// from the same source with one more field. API server, Cluster API and CAPT are real, and Terraform follows a script.
package upgrade_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/fixture/replicas"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/metrics"
)

// shared is the control plane of all tests of the package. It has the names of config/default, which the simulated Deployment has too.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) { options.Installation = "" }))
}

const (
	tick  = 200 * time.Millisecond
	grace = 40 * time.Second // As in config/manager.

	// field is what the next version adds to the spec of a CAPTCluster, and setField sets it.
	field     = "costCenter"
	setField  = `{"spec":{"costCenter":"4711"}}`
	fieldLine = "\n\t// costCenter is a field of the next version.\n\t// +optional\n\tCostCenter string `json:\"costCenter,omitempty\"`\n"

	nextVersion = "v99.0.0"
)

// buildNext builds the manager of the next version and returns its path.
func buildNext(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	require.NoError(t, err)
	source := filepath.Join(root, "api", "infrastructure", "v1beta2", "captcluster_types.go")
	text, err := os.ReadFile(source)
	require.NoError(t, err)
	const before = "\tDeletionProtection DeletionProtection `json:\"deletionProtection,omitempty\"`\n"
	require.Equal(t, 1, strings.Count(string(text), before))

	dir := t.TempDir()
	changed, overlay, target := filepath.Join(dir, "types.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "manager")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), before, before+fieldLine, 1)), 0o600))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-trimpath", "-overlay="+overlay, "-o", target,
		"-ldflags=-s -w -X github.com/prometheus/common/version.Version="+nextVersion, "./cmd/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return target
}

// deployment simulates the Deployment of the manager with two replicas. It takes the place of the sandbox's own manager, whose webhooks the API server
// calls.
type deployment struct {
	*testing.T
	service *replicas.Balancer
	dir     string
	running []*replicas.Replica
	started int
}

func newDeployment(t *testing.T, program string) *deployment {
	t.Helper()
	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	t.Cleanup(func() { require.NoError(t, shared.StartComponent(context.Background(), sandbox.Manager)) })
	d := &deployment{T: t, service: replicas.NewBalancer(t, shared.WebhookAddress(sandbox.Manager)), dir: t.TempDir()}
	for range 2 {
		d.running = append(d.running, d.start(program))
	}
	replicas.AwaitLeader(t, d.running...)
	return d
}

// start starts a replica and waits until it is ready.
func (d *deployment) start(program string) *replicas.Replica {
	d.Helper()
	d.started++
	r := replicas.New(d.T, replicas.Spec{Server: shared, Name: "replica-" + strconv.Itoa(d.started), Dir: d.dir, Path: program})
	r.Start(d.T)
	r.AwaitReady(d.T)
	d.service.Add(r.Webhook)
	return r
}

func (d *deployment) terminate(r *replicas.Replica) {
	d.Helper()
	r.Terminate(d.T, grace, func() { d.service.Remove(r.Webhook) })
}

// roll replaces one replica after the other, and the leader last. When it has ended, no other replica leads before without has returned.
func (d *deployment) roll(program string, without func()) {
	d.Helper()
	old := d.running
	if old[0].Leads() {
		old = []*replicas.Replica{old[1], old[0]}
	}
	require.False(d, old[0].Leads())
	require.True(d, old[1].Leads())
	d.running = []*replicas.Replica{d.start(program)}
	d.terminate(old[0])
	require.True(d, old[1].Leads(), "the leader is not replaced yet")
	d.running = append(d.running, d.start(program))
	allow := d.forbidLeading()
	d.terminate(old[1])
	without()
	for _, r := range d.running {
		require.False(d, r.Leads())
	}
	allow()
	replicas.AwaitLeader(d.T, d.running...)
}

// forbidLeading takes away the rights for leader election. It returns how to grant them again. The leader stays the leader for the time of its
// renew deadline, and its Lease is not released when it ends.
func (d *deployment) forbidLeading() (allow func()) {
	d.Helper()
	binding := &rbacv1.RoleBinding{}
	require.NoError(d, shared.API.Get(d.Context(), client.ObjectKey{Namespace: sandbox.ManagerNamespace, Name: "capt-leader-election"}, binding))
	require.NoError(d, shared.API.Delete(d.Context(), binding))
	fixture.EventuallyTrue(d.T, tick, func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: sandbox.ManagerUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: sandbox.ManagerNamespace, Group: "coordination.k8s.io", Resource: "leases", Verb: "update",
			},
		}}
		require.NoError(d, shared.API.Create(d.Context(), review))
		return !review.Status.Allowed
	}, "the manager may still lead")
	return func() {
		binding.ResourceVersion, binding.UID = "", ""
		require.NoError(d, shared.API.Create(context.Background(), binding))
	}
}

// requireVersion requires that all replicas have a version; an empty one is that of a build without a version.
func (d *deployment) requireVersion(want string) {
	d.Helper()
	for _, r := range d.running {
		measured, err := metrics.Read(d.Context(), "http://"+r.Metrics+"/metrics")
		require.NoError(d, err)
		require.Contains(d, measured.By("capt_build_info", "version"), want)
	}
}

// serve installs the definition of CAPTClusters with or without the field of the next version, and waits until the API server serves it.
func serve(env *fixture.Environment, withField bool) {
	env.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "captclusters." + infrav1.GroupVersion.Group}
	fixture.Change(env, env.Client, key, definition, func() {
		for _, version := range definition.Spec.Versions {
			fields := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties
			delete(fields, field)
			if withField && version.Name == infrav1.GroupVersion.Version {
				fields[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			}
		}
	})
	env.Eventually(func() string {
		object := captCluster(env)
		require.NoError(env, env.Patch(env.Context(), object, client.RawPatch(types.MergePatchType, []byte(setField)), client.DryRunAll))
		return fixture.Unless(costCenter(object) != "" == withField, "the field is served: %v", !withField)
	})
}

// captCluster reads the CAPTCluster of an environment with all of its fields.
func captCluster(env *fixture.Environment) *unstructured.Unstructured {
	env.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("CAPTCluster"))
	require.True(env, env.Exists(object, fixture.Demo))
	return object
}

func costCenter(object *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(object.Object, "spec", field)
	return value
}
