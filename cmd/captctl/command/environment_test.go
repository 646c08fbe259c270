// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// The management cluster of these tests is a client that keeps objects in memory. They test flags, prompts, output and exit codes; test/captctl
// runs the commands on a real API server.

// kubeconfig of a cluster that does not answer.
func kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Contexts["production"] = &clientcmdapi.Context{Cluster: "here", Namespace: "default"}
	config.CurrentContext = "production"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// environment is a management cluster, and what its commands asked for.
type environment struct {
	objects []client.Object
	funcs   interceptor.Funcs
	// terminal is true if standard input is one; answer is what is typed.
	terminal bool
	answer   string
	// screen is the terminal that standard output is; nil if it is none.
	screen *output.Screen

	report    check.Report
	result    apply.Result
	runError  error
	status    func() *status.Status
	connected client.WithWatch
	clock     *testclock.FakeClock

	config  *rest.Config
	checked check.Options
	// plan and applied are what the last run was given.
	plan       *plan.Plan
	applied    apply.Options
	rolledBack bool
	read       status.Options
}

func (env *environment) run(t *testing.T, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	return env.runIn(t.Context(), t, arguments...)
}

func (env *environment) runIn(ctx context.Context, t testing.TB, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(env.answer)
	if env.screen != nil {
		streams.Out = env.screen
	}
	if env.clock == nil {
		env.clock = testclock.NewFakeClock(time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC))
	}
	access := cli.NewAccess(streams.ErrOut)
	access.Connect = env.connect
	root := newRoot(&cli.Environment{IOStreams: streams, Access: access, Clock: env.clock, Interactive: env.terminal, Migration: env.migration()})
	root.SetArgs(append([]string{"--kubeconfig", kubeconfig(t)}, arguments...))
	if len(arguments) > 0 && arguments[0] == "__complete" {
		root.SetArgs(append([]string{"__complete", "--kubeconfig", kubeconfig(t)}, arguments[1:]...))
	}
	err = root.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// painted is what a terminal of so many columns shows.
func (env *environment) painted(t *testing.T, columns int, arguments ...string) string {
	t.Helper()
	screen := &output.Screen{Columns: columns}
	env.screen = screen
	_, _, err := env.run(t, arguments...)
	env.screen = nil
	require.NoError(t, err)
	return screen.String()
}

func (env *environment) connect(config *rest.Config) (client.WithWatch, error) {
	env.config = config
	if env.connected != nil {
		return env.connected, nil
	}
	scheme := cli.Scheme()
	for _, scope := range terraform.Scopes() {
		kind := scope.GroupVersionKind()
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind + "List"}, &unstructured.UnstructuredList{})
	}
	if env.funcs.Apply == nil {
		env.funcs.Apply = dryRunApply
	}
	env.connected = fake.NewClientBuilder().WithScheme(scheme).WithObjects(env.objects...).
		WithIndex(&eventsv1.Event{}, "regarding.name", func(object client.Object) []string { return []string{object.(*eventsv1.Event).Regarding.Name} }).
		WithInterceptorFuncs(env.funcs).Build()
	return env.connected, nil
}

// dryRunApply is a server-side apply that writes nothing. The client of tests persists a dry run, and knows no field managers of the objects that a test begins with.
func dryRunApply(ctx context.Context, c client.WithWatch, configuration runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(options)
	if o.DryRun == nil {
		return c.Apply(ctx, configuration, options...)
	}
	want, live := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	data, err := json.Marshal(configuration)
	if err == nil {
		err = want.UnmarshalJSON(data)
	}
	if err != nil {
		return err
	}
	live.SetGroupVersionKind(want.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return err
	}
	if data, err = ssa.Applied(live, want, o.FieldManager).MarshalJSON(); err != nil {
		return err
	}
	return json.Unmarshal(data, configuration)
}

func (env *environment) migration() cli.Migration {
	run := func(rollback bool) func(context.Context, *plan.Plan, apply.Options) (*apply.Result, error) {
		return func(_ context.Context, p *plan.Plan, options apply.Options) (*apply.Result, error) {
			env.plan, env.applied, env.rolledBack = p, options, rollback
			result := env.result
			result.PlanID, result.DryRun = p.ID, options.DryRun
			return &result, env.runError
		}
	}
	return cli.Migration{
		Check: func(_ context.Context, options check.Options) (*check.Report, error) {
			env.checked = options
			report := env.report
			return &report, nil
		},
		Apply: run(false), Rollback: run(true),
		Status: func(_ context.Context, options status.Options) (*status.Status, error) {
			env.read = options
			return env.status(), nil
		},
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
}

// undecided has a control plane that was built, with a WorkspaceTemplateApply for which only its name speaks.
func undecided() *environment {
	plane := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "plane-1"}}
	plane.Spec.ControlPlaneEndpoint.Host = "https://built.example.com"
	return &environment{objects: []client.Object{
		namespace("kube-system"), namespace("default"), namespace("capt-system"), plane,
		&infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-eks-controlplane-apply", UID: "apply-1"}},
	}}
}

// compressed is a plan as the journal keeps it.
func compressed(t *testing.T, p *plan.Plan) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	require.NoError(t, p.Write(writer))
	require.NoError(t, writer.Close())
	return buffer.Bytes()
}
