// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package host runs captctl as users do: the program itself, on a host with its own home and working directory.
package host

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// Killed is the exit code of a process that ended by a signal.
const Killed migrate.Outcome = -1

// Host is where captctl runs. Nothing of it is shared with another host.
type Host struct {
	*testing.T
	// Dir is the home and the working directory.
	Dir string
	// Kubeconfig of the user.
	Kubeconfig string
	program    string
}

// New builds captctl if it changed, and returns a host of the sandbox's user for it.
func New(t *testing.T, s *sandbox.Sandbox) *Host {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), sandbox.Captctl))
	return &Host{T: t, Dir: t.TempDir(), Kubeconfig: s.KubeconfigOf(sandbox.Captctl), program: s.Binary(sandbox.Captctl)}
}

// Another returns a host that has only the kubeconfig; an empty one is that of this host.
func (h *Host) Another(kubeconfig string) *Host {
	h.Helper()
	other := *h
	other.Dir = h.TempDir()
	if kubeconfig != "" {
		other.Kubeconfig = kubeconfig
	}
	return &other
}

// In returns the same host in a subtest.
func (h *Host) In(t *testing.T) *Host {
	other := *h
	other.T = t
	return &other
}

// Command is a run of captctl.
type Command struct {
	*exec.Cmd
	Out, Err bytes.Buffer
	host     *Host
	ended    chan struct{}
}

// Start starts a command of captctl migrate.
func (h *Host) Start(args ...string) *Command {
	h.Helper()
	if slices.Contains([]string{"check", "apply", "rollback", "status"}, args[0]) {
		args = append(slices.Clone(args), "--quiet=1ms") // v0.3 wrote the fleet a moment ago, as it seems.
	}
	c := &Command{host: h, ended: make(chan struct{})}
	c.Cmd = exec.CommandContext(h.Context(), h.program, append([]string{"migrate", "--kubeconfig=" + h.Kubeconfig}, args...)...)
	c.Dir, c.Env = h.Dir, []string{"HOME=" + h.Dir, "PATH=" + os.Getenv("PATH")}
	c.Stdout, c.Stderr = &c.Out, &c.Err
	require.NoError(h, c.Cmd.Start())
	go func() {
		defer close(c.ended)
		_ = c.Wait() // The exit code says how it ended.
	}()
	return c
}

// Kill ends the process at once, and returns when it has ended.
func (c *Command) Kill() {
	_ = c.Process.Kill()
	<-c.ended
}

// Outcome waits for the end, and returns the exit code.
func (c *Command) Outcome() migrate.Outcome {
	<-c.ended
	return migrate.Outcome(c.ProcessState.ExitCode())
}

// Ended is closed when the process has ended.
func (c *Command) Ended() <-chan struct{} { return c.ended }

// Ends waits for the end, and requires an exit code.
func (c *Command) Ends(want migrate.Outcome) *Command {
	c.host.Helper()
	require.Equal(c.host, want, c.Outcome(), "%s", c)
	return c
}

// String is the command with everything that it printed.
func (c *Command) String() string {
	return c.Cmd.String() + "\n" + c.Out.String() + c.Err.String()
}

// Run runs a command of captctl migrate, and returns its standard output.
func (h *Host) Run(want migrate.Outcome, args ...string) string {
	h.Helper()
	return h.Start(args...).Ends(want).Out.String()
}

// Refused runs a command that fails, and returns its standard error.
func (h *Host) Refused(args ...string) string {
	h.Helper()
	return h.Start(args...).Ends(migrate.Failed).Err.String()
}

// Plan makes a plan in the file plan.json.
func (h *Host) Plan(args ...string) *plan.Plan {
	h.Helper()
	h.Run(migrate.Done, append([]string{"plan", "--out=plan.json"}, args...)...)
	return h.Planned()
}

// Planned reads the plan in the file plan.json.
func (h *Host) Planned() *plan.Plan {
	h.Helper()
	file, err := os.Open(filepath.Join(h.Dir, "plan.json"))
	require.NoError(h, err)
	defer func() { _ = file.Close() }()
	p, err := plan.Read(file)
	require.NoError(h, err)
	return p
}

// Status returns the status of each unit.
func (h *Host) Status(args ...string) map[string]status.UnitStatus {
	h.Helper()
	var found status.Status
	text := h.Run(migrate.Done, append([]string{"status", "-o=json"}, args...)...)
	require.NoError(h, json.Unmarshal([]byte(text), &found), text)
	units := map[string]status.UnitStatus{}
	for _, unit := range found.Units {
		units[unit.Unit] = unit
	}
	return units
}

// advice is how commands print decisions: where to save them, what to run, and the document.
var advice = regexp.MustCompile(`(?s)\nDecisions[^:\n]*: [^\n]* as (\S+), and run: captctl migrate ([^\n]*)\n\n(.*?\n)(?:\n|$)`)

// Advised follows what a command printed: of each entry of the decisions the line that begins with a choice is uncommented, if they are not made
// already, and the document is saved. It returns the command to run.
func (h *Host) Advised(printed, choice string) []string {
	h.Helper()
	found := advice.FindStringSubmatch(printed)
	require.NotNil(h, found, printed)
	file, command, document := found[1], found[2], found[3]
	entries, made := strings.Count(document, "- uid: "), 0
	var saved strings.Builder
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.Replace(line, "# ", "", 1), "  "+choice) {
			line = strings.Replace(line, "  # ", "  ", 1)
			made++
		}
		saved.WriteString(line)
	}
	require.Equal(h, entries, made, document)
	require.NoError(h, os.WriteFile(filepath.Join(h.Dir, file), []byte(saved.String()), 0o600))
	return strings.Fields(command)
}

// timeout is how long the manager may take.
const timeout = 5 * time.Minute

// Fleet is every object that a migration may write, and every Workspace, by kind, namespace and name. Workspaces are as they are, and of the
// other objects what every write changes is left out. A view removes more.
func Fleet(t *testing.T, reader client.Reader, views ...func(*unstructured.Unstructured)) map[string]string {
	t.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		if object.GetKind() != terraform.WorkspaceKind {
			object.SetResourceVersion("")
			object.SetGeneration(0)
			for _, view := range views {
				view(object)
			}
		}
		text, err := json.MarshalIndent(object.Object, "", " ")
		fleet[Name(object)] = string(text)
		return err
	}
	for _, kind := range migrate.ReadOrWritten() {
		require.NoError(t, migrate.Each(t.Context(), reader, kind, "", take))
	}
	require.NotEmpty(t, fleet)
	return fleet
}

// Name is the kind, namespace and name of an object.
func Name(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// Desired is a view without what the manager writes as soon as it manages an object, and keeps after a rollback: finalizers, annotations for itself,
// the revision that a staged rollout assigns, and status except for the reference to the Workspace.
func Desired(object *unstructured.Unstructured) {
	object.SetFinalizers(nil)
	unstructured.RemoveNestedField(object.Object, "spec", "templateRevision")
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return strings.HasPrefix(name, naming.ExternalNameAnnotation) || name == preserve.Annotation
	})
	object.SetAnnotations(annotations)
	ref, found, _ := unstructured.NestedMap(object.Object, "status", "workspaceRef")
	delete(object.Object, "status")
	if found {
		_ = unstructured.SetNestedMap(object.Object, ref, "status", "workspaceRef")
	}
}

// Settled reads a fleet until the manager has nothing to do and the fleet no longer changes.
func Settled(t *testing.T, s *sandbox.Sandbox, read func() map[string]string) (last map[string]string) {
	t.Helper()
	manager := &fixture.Server{Sandbox: s}
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		before := last
		last = read()
		activity, err := manager.Activity(ctx)
		return err == nil && activity.Pending == 0 && maps.Equal(before, last), nil // Without an answer, the manager has just been started.
	})
	require.NoError(t, err)
	return last
}

// RequireFields requires that all fields that a plan writes to objects of a unit are in a state.
func RequireFields(t *testing.T, reader client.Reader, unit *plan.Unit, want plan.FieldState) {
	t.Helper()
	for _, step := range unit.Steps {
		kind, err := step.Object.GroupVersionKind()
		require.NoError(t, err)
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(kind)
		require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Namespace: step.Object.Namespace, Name: step.Object.Name}, live))
		for _, field := range step.Fields {
			state, err := field.State(live.Object)
			require.NoError(t, err)
			assert.Equal(t, want, state, "%s %s", step.Object, field.Path)
		}
	}
}
