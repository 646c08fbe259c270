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

package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/preflight"
)

// The cluster of these tests is a client that remembers objects: the commands are wired to the right functions, and what those do
// has tests of its own on a real API server.

// kubeconfig of a cluster that does not answer.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Contexts["production"] = &clientcmdapi.Context{Cluster: "here", Namespace: "default"}
	config.CurrentContext = "production"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// world is a cluster with objects.
type world struct {
	funcs   interceptor.Funcs
	objects []client.Object
	config  *rest.Config
	// connected remembers what commands wrote.
	connected client.WithWatch
	// asked is what preflight was asked last, and preflight and replace are what is answered.
	asked     preflight.Options
	preflight func() (*preflight.Report, error)
	replace   func(context.Context, crds.Options) (*crds.Report, error)
}

// run runs captctl in a world.
func (w *world) run(t *testing.T, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	access := cluster.New(streams.ErrOut)
	access.Connect = func(config *rest.Config) (client.WithWatch, error) {
		w.config = config
		if w.connected != nil {
			return w.connected, nil
		}
		scheme := cluster.Scheme()
		for _, scope := range terraform.Scopes() {
			kind := scope.GroupVersionKind()
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind + "List"}, &unstructured.UnstructuredList{})
		}
		w.connected = fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.objects...).WithInterceptorFuncs(w.funcs).Build()
		return w.connected, nil
	}
	environment := &cli.Environment{
		IOStreams: streams, Access: access, Clock: testclock.NewFakeClock(time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC)), ReplaceDefinitions: w.replace,
		Preflight: func(_ context.Context, options preflight.Options) (*preflight.Report, error) {
			w.asked = options
			if w.preflight == nil {
				return &preflight.Report{}, nil
			}
			return w.preflight()
		},
		OlderManagerRuns: func(context.Context, preflight.Options) (string, error) { return "", nil },
	}
	root := newRoot(environment)
	root.SetArgs(append([]string{"--kubeconfig", kubeconfig(t)}, arguments...))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-" + "kube-system"}}
}

func fleet() *world {
	w := &world{objects: []client.Object{
		namespace("kube-system"), namespace("default"), namespace("capt-system"),
		&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-eks-controlplane-apply", UID: "apply-1"}},
		&controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "plane-1"}},
	}}
	for _, kind := range migrate.Kinds() {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kind.Definition()}}
		definition.Status.StoredVersions = []string{migrate.LegacyVersion, migrate.Version}
		w.objects = append(w.objects, definition)
	}
	return w
}

func TestInspectShowsTheFleet(t *testing.T) {
	out, errOut, err := fleet().run(t, "migrate", "inspect")
	require.NoError(t, err)
	assert.Regexp(t, `default +\S+ +CAPTControlPlane +demo`, out)
	assert.Empty(t, errOut)
	for _, format := range []string{"json", "yaml", "dot", "mermaid", "wide"} {
		printed, _, err := fleet().run(t, "migrate", "inspect", "-o", format)
		require.NoError(t, err)
		assert.Contains(t, printed, "demo", format)
		assert.NotEqual(t, out, printed, format)
	}
	tree, _, err := fleet().run(t, "migrate", "inspect", "--tree")
	require.NoError(t, err)
	assert.Contains(t, tree, "── CAPTControlPlane demo")
}

func TestInspectOfOneNamespaceLooksAtThatOnly(t *testing.T) {
	out, _, err := fleet().run(t, "migrate", "inspect", "-n", "kube-system")
	require.NoError(t, err)
	assert.Equal(t, "There is nothing of CAPT in namespace kube-system only.\n", out)
}

func TestTheNamespaceOfTheContextIsOfNoAccount(t *testing.T) {
	w := fleet()
	w.objects[3].SetNamespace("elsewhere")
	w.objects[4].SetNamespace("elsewhere")
	out, _, err := w.run(t, "migrate", "inspect")
	require.NoError(t, err)
	assert.Contains(t, out, "elsewhere")
}

func TestPlanHasAnExitCodeForWhatItFinds(t *testing.T) {
	nothing := &world{objects: []client.Object{namespace("kube-system")}}
	out, _, err := nothing.run(t, "migrate", "plan")
	require.NoError(t, err)
	assert.Contains(t, out, "Writes:     none: there is nothing to do")

	file := filepath.Join(t.TempDir(), "plan.json")
	out, errOut, err := fleet().run(t, "migrate", "plan", "--out", file, "--scope", "storage")
	assert.Equal(t, migrate.OutcomeOf(err), migrate.Pending, "%s%s", out, errOut)
	assert.Contains(t, out, "captctl migrate show "+file+" --diff")

	shown, _, err := fleet().run(t, "migrate", "show", file)
	require.NoError(t, err)
	assert.Contains(t, shown, "Objects, rewritten in v1beta2")
	diff, _, err := fleet().run(t, "migrate", "show", file, "--diff")
	require.NoError(t, err)
	assert.Contains(t, diff, "  CAPTControlPlane default/demo\n")
	printed, _, err := fleet().run(t, "migrate", "show", file, "-o", "json")
	require.NoError(t, err)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(written), printed, "a plan is the same in a file and in a pipe")

	w := fleet()
	w.objects[4].(*controlplanev1.CAPTControlPlane).Spec.ControlPlaneEndpoint.Host = "https://built.example.com"
	out, _, err = w.run(t, "migrate", "plan")
	assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	assert.ErrorContains(t, err, "1 conflict to decide first")
	assert.Contains(t, out, "To decide, write this into the file of --decisions")
}

func TestDecisionsReachThePlan(t *testing.T) {
	decisions := filepath.Join(t.TempDir(), "decisions.yaml")
	require.NoError(t, os.WriteFile(decisions, []byte("apiVersion: migrate.capt.cluster.x-k8s.io/v1\nkind: Decisions\nowners: [{uid: plane-1, skip: true}]\n"), 0o600))
	out, _, err := fleet().run(t, "migrate", "plan", "--decisions", decisions, "-o", "json", "--scope", "adopt", "--lifetime", "1h")
	assert.NotEqual(t, migrate.NeedsDecision, migrate.OutcomeOf(err))
	var plan migrate.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &plan))
	assert.Equal(t, time.Hour, plan.Expires.Sub(plan.Created.Time))
	require.NotEmpty(t, plan.Findings)
	assert.Equal(t, migrate.Skipped, plan.Findings[0].Severity)
}

func TestAMissingRightHasAnExitCodeOfItsOwn(t *testing.T) {
	w := fleet()
	w.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "workspacetemplates"}, "", nil)
	}
	for _, command := range []string{"inspect", "plan"} {
		_, _, err := w.run(t, "migrate", command)
		assert.Equal(t, migrate.NotPermitted, migrate.OutcomeOf(err))
		assert.ErrorContains(t, err, "captctl migrate preflight lists every right")
	}
}

func TestRequestsAreKnownByTheirUserAgentAndLimited(t *testing.T) {
	w := fleet()
	_, _, err := w.run(t, "migrate", "inspect", "--server", "http://127.0.0.1:2")
	require.NoError(t, err)
	assert.Regexp(t, `^captctl/\S+ \(`, w.config.UserAgent)
	assert.Equal(t, "http://127.0.0.1:2", w.config.Host)
	assert.Positive(t, w.config.QPS)
}
