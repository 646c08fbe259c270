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

// Package manual_test runs the commands of docs/migration.md as they stand there, one after the other, on a fleet of the older CAPT.
package manual_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// command is a line of the manual.
type command struct {
	// begins is how the line begins.
	begins string
	// exit is the code that it ends with.
	exit migrate.Outcome
	// instead stands for a command that the sandbox can not run: there are no nodes in it, and neither Flux nor Argo CD.
	instead func()
	// then is done afterwards, by a person.
	then func()
}

// elsewhere stands for commands of tools that are not here.
func elsewhere() {}

// The order is that of the manual. Of the fleet, one cluster is clear, one has templates in another namespace, and two claim one
// control plane, so that somebody has to decide.
func TestTheManualCanBeFollowed(t *testing.T) {
	w := &world{T: t}
	commands := w.commands()
	lines := manual(t)
	require.Len(t, lines, len(commands), "commands of the manual")
	for i, c := range commands {
		require.True(t, strings.HasPrefix(lines[i], c.begins), "command %d of the manual is not %q: %s", i, c.begins, lines[i])
	}

	w.begin()
	before := w.workspaces()
	for i, c := range commands {
		if c.instead != nil {
			c.instead()
		} else {
			w.run(lines[i], c.exit)
		}
		if c.then != nil {
			c.then()
		}
	}
	assert.Equal(t, before, w.workspaces())
	w.run("captctl migrate inspect", migrate.NotPermitted) // Nobody is bound to the roles any more.
}

// commands are those of the manual in its order.
func (w *world) commands() []command {
	return []command{
		{begins: "kubectl apply -f config/rbac/captctl.yaml"},
		{begins: "for role in"},
		{begins: "kubectl -n capt-system create rolebinding capt-migrate-journal"},
		{begins: "kubectl create clusterrolebinding capt-migrate-owners"},

		{begins: "flux suspend", instead: elsewhere},
		{begins: "argocd app set", instead: elsewhere},
		{begins: "kubectl -n capt-system scale deployment"},
		{begins: "kubectl -n capt-system wait --for=delete pod"},

		{begins: "captctl migrate crds --backup backup-crds --dry-run", exit: migrate.Pending},
		{begins: "captctl migrate crds"},
		{begins: "kubectl apply --server-side --force-conflicts -k config/webhooks-only", instead: w.install},
		{begins: "kubectl -n capt-system rollout status", instead: elsewhere},
		{begins: "captctl migrate crds", then: w.requireTemplates},

		{begins: "captctl migrate inspect"},
		{begins: "captctl migrate inspect --tree"},
		{begins: "captctl migrate preflight"},
		{begins: "captctl migrate plan", exit: migrate.NeedsDecision, then: w.decide},
		{begins: "captctl migrate show plan.json --diff"},
		{begins: "captctl migrate plan --decisions", exit: migrate.Pending},

		{begins: "captctl migrate apply plan.json --backup backup --dry-run=server"},
		{begins: "captctl migrate apply plan.json --backup backup --canary team-a/demo"},
		{begins: "captctl migrate backup verify"},
		{begins: "captctl migrate verify plan.json"},
		{begins: "captctl migrate status"},
		{begins: "captctl migrate resume PLAN_ID"},
		{begins: "captctl migrate rollback PLAN_ID --object", then: func() { w.run("captctl migrate verify plan.json", migrate.NotVerified) }},
		{begins: "captctl migrate rollback PLAN_ID"},

		{begins: "kubectl delete -k config/policy"},
		{begins: "kubectl apply -f config/policy/definition_policy.yaml"},
		{begins: "kubectl delete mutatingwebhookconfiguration/"},
		{begins: "kubectl annotate crd captcontrolplanetemplates"},
		{begins: "kubectl delete crd captcontrolplanetemplates", then: w.bringOlderDefinition},
		{begins: "kubectl apply -f older-captcontrolplanetemplates.yaml"},
		{begins: "captctl migrate crds --backup backup-crds --restore", then: w.returnAndTryAnew},

		{begins: "captctl convert", exit: migrate.Pending},
		{begins: "captctl convert", then: func() {
			w.run("captctl convert -f clusters/ -f templates/ -R --from-cluster --detailed-exitcode", migrate.Done)
			w.run("grep -q workspaceTemplateApplyRef clusters/team-a.yaml && ! grep -E '^apiVersion: (infrastructure|controlplane).cluster.x-k8s.io/v1beta1' clusters/*.yaml templates/*.yaml", migrate.Done)
			w.run("kubectl apply -f clusters/ -f templates/", migrate.Done)
		}},
		{begins: "git diff"},
		{begins: "captctl migrate finalize plan.json --yes"},
		{begins: "kubectl apply --server-side -k config/default", instead: w.start},
		{begins: "captctl migrate verify plan.json --watch"},
		{begins: "kubectl -n capt-system rollout status", instead: elsewhere},
		{begins: "kubectl get captclusters,captcontrolplanes -A"},
		{begins: "flux resume", instead: elsewhere},
		{begins: "argocd app sync", instead: elsewhere},
		{begins: "kubectl delete clusterrolebinding"},
		{begins: "kubectl -n capt-system delete rolebinding"},
	}
}

// fence is around a block, those of a list are indented. Commands have no language.
var fence = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// manual is the commands of docs/migration.md, each of which is a line.
func manual(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/migration.md")
	require.NoError(t, err)
	var lines []string
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if block[1] != "" {
			continue
		}
		for line := range strings.Lines(block[2]) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// run runs a line where an operator would.
func (w *world) run(line string, exit migrate.Outcome) {
	w.Helper()
	replacements := []string{"--watch 15m", "--watch 2s", "--user=alice", "--user=" + migrator}
	if strings.Contains(line, "PLAN_ID") {
		replacements = append(replacements, "PLAN_ID", w.plan().ID)
	}
	script := strings.NewReplacer(replacements...).Replace(line)
	cmd := exec.CommandContext(w.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir = w.folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig(), "HOME="+w.folder, "XDG_STATE_HOME="+w.folder, "GIT_PAGER=cat",
		"PATH="+filepath.Join(w.folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NotNil(w, cmd.ProcessState, "%v", err)
	w.Logf("%s\n%s", script, out)
	require.Equal(w, int(exit), cmd.ProcessState.ExitCode(), "%s\n%s", script, out)
}

// workspaces are what Terraform runs by; nothing of them may change.
func (w *world) workspaces() map[string]any {
	w.Helper()
	list := w.list(terraform.ScopeCluster.GroupVersionKind())
	require.NotEmpty(w, list)
	found := map[string]any{}
	for _, workspace := range list {
		found[workspace.GetName()] = []any{workspace.GetUID(), workspace.GetGeneration(), workspace.GetResourceVersion(), workspace.Object["spec"]}
	}
	return found
}

func (w *world) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(w, w.Admin.List(w.Context(), list))
	return list.Items
}

func object(apiVersion, kind, namespace, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}
