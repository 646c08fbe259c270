// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// step is what only the commands of one step of docs/move.md have in them. The tests run those as they stand there.
type step string

const (
	labelDefinition step = "label crd"
	saveRevisions   step = "get controllerrevisions"
	createRevisions step = "create -f revisions-"
	lookBefore      step = "-look\n"
	lookAgain       step = "-l look=before-move look="
	reportAtOnce    step = "--all look="
	lookNoMore      step = "delete workspaces.tf.m.upbound.io"
	stopProvider    step = "scale deployment crossplane"
	moveNamespace   step = "clusterctl move"
	pauseByHand     step = "cluster.x-k8s.io/paused="
	unpauseByHand   step = "cluster.x-k8s.io/paused-"
	lookAfterwards  step = "get cluster,"
	askWhy          step = "MESSAGE:"
	takePauseAway   step = `"paused":false`
	unmarkMoved     step = "NAME-OF-THE-STATE"
	copyWide        step = "managedFields"
	releaseMove     step = "block-move-"
	removeWide      step = "--wait=false"
)

// fence is around the commands of a step; those of a list are indented.
var fence = regexp.MustCompile("(?ms)^ *```\n(.*?)^ *```$")

// manual is the commands of docs/move.md, step by step.
func manual(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/move.md")
	require.NoError(t, err)
	var steps []string
	for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
		steps = append(steps, match[1])
	}
	return steps
}

// commands are those of a step.
func commands(t *testing.T, of step) string {
	t.Helper()
	var found []string
	for _, block := range manual(t) {
		if strings.Contains(block, string(of)) {
			found = append(found, block)
		}
	}
	require.Len(t, found, 1, "step %q", of)
	return found[0]
}

func TestNoStepOfTheManualIsUnknown(t *testing.T) {
	t.Parallel()
	known := map[string]step{}
	for _, s := range []step{
		labelDefinition, saveRevisions, createRevisions, lookBefore, lookAgain, reportAtOnce, lookNoMore, stopProvider, moveNamespace, pauseByHand, unpauseByHand,
		lookAfterwards, askWhy, takePauseAway, unmarkMoved, copyWide, releaseMove, removeWide,
	} {
		known[commands(t, s)] = s
	}
	for _, block := range manual(t) {
		require.NotEmpty(t, known[block], "no test runs this:\n%s", block)
	}
}

// shell runs a script where an operator would, with the programs of the sandbox.
func (env *environment) shell(script string, environment ...string) *exec.Cmd {
	env.Helper()
	cmd := exec.CommandContext(env.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir = env.folder
	path := []string{filepath.Dir(source.Binary(sandbox.Kubectl)), filepath.Dir(source.Binary(sandbox.Clusterctl)), os.Getenv("PATH")}
	cmd.Env = append(os.Environ(), "OLD="+source.Kubeconfig(), "NEW="+target.Kubeconfig(), "NS="+env.namespace, "KUBECONFIG=/nowhere",
		"PATH="+strings.Join(path, string(os.PathListSeparator)), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

// follow does a step of the manual, with names in the place of words in capitals, and returns what it prints.
func (env *environment) follow(s step, names ...string) string {
	env.Helper()
	script := strings.NewReplacer(names...).Replace(commands(env.T, s))
	out, err := env.shell(script).CombinedOutput()
	require.NoError(env, err, "%s\n%s", script, out)
	return string(out)
}

// deployment is one as Crossplane makes it: labels of its Pods say what it belongs to, but not its own.
func deployment(name, provider string) *appsv1.Deployment {
	labels := map[string]string{"pkg.crossplane.io/provider": provider, "pkg.crossplane.io/revision": name}
	if provider == "" {
		labels = map[string]string{"app": name}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.ProviderNamespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "package-runtime", Image: "example.com/provider"}}},
			},
		},
	}
}

// No controller creates Pods of Deployments in the sandbox, so the test does.
func TestTheOldProviderIsStoppedAndWaitedFor(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	provider := deployment("provider-terraform-5d8f", "provider-terraform")
	running := map[string]*appsv1.Deployment{"crossplane": deployment("crossplane", ""), "provider": provider, "another": deployment("provider-aws-1c2e", "provider-aws")}
	for _, object := range running {
		require.NoError(t, source.Create(t.Context(), object))
	}
	pod := &corev1.Pod{ObjectMeta: provider.Spec.Template.ObjectMeta, Spec: provider.Spec.Template.Spec}
	pod.Namespace, pod.Name = sandbox.ProviderNamespace, provider.Name
	fixture.EventuallyTrue(t, tick, func() bool { return source.Create(t.Context(), pod) == nil }, "there is no ServiceAccount for Pods")

	began, ended := time.Now(), make(chan struct{})
	var out []byte
	var err error
	go func() {
		defer close(ended)
		out, err = env.shell(commands(t, stopProvider), "PROVIDER=provider-terraform").CombinedOutput()
	}()
	fixture.EventuallyTrue(t, tick, func() bool {
		return len(fixture.AuditEvents(t, source.Sandbox, audit.Filter{
			User: sandbox.AdminUser, Verbs: []string{"list", "watch"}, Resource: "pods", Namespace: sandbox.ProviderNamespace, Since: began,
		})) > 0
	}, "the command does not wait for the Pod")
	require.NoError(t, source.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	<-ended
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("pod/%s condition met", pod.Name))
	require.Contains(t, string(out), "No resources found")
	for name, replicas := range map[string]int32{"crossplane": 0, "provider": 0, "another": 1} {
		require.NoError(t, source.Get(t.Context(), client.ObjectKeyFromObject(running[name]), running[name]))
		require.Equal(t, replicas, *running[name].Spec.Replicas, name)
	}

	out, err = env.shell(commands(t, stopProvider), "PROVIDER=misspelled").CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "no name was specified")
}
