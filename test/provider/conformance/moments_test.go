// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// module waits in its first resource until a file says with which code to go on, whenever the generation or the world
// outside changes, and in the destruction of its last one. The scripted executor waits for its script instead.
const module = `
variable "gates" { type = string }
variable "generation" { type = string }
variable "settings" {
  type = object({ zones = list(string) })
}
locals {
  world = try(file("${var.gates}/world"), "as it was")
}
resource "terraform_data" "made" {
  triggers_replace = [var.generation, local.world]
  provisioner "local-exec" {
    command = "touch ${var.gates}/in-apply; until [ -e ${var.gates}/apply ]; do sleep 0.02; done; exit $(cat ${var.gates}/apply)"
  }
}
resource "terraform_data" "last" {
  input = var.gates
  provisioner "local-exec" {
    when    = destroy
    command = "touch ${self.input}/in-destroy; until [ -e ${self.input}/destroy ]; do sleep 0.02; done; exit $(cat ${self.input}/destroy)"
  }
}
output "generation" { value = var.generation }
output "world" { value = local.world }
output "zones" { value = var.settings.zones }
output "password" {
  value     = "hidden"
  sensitive = true
}
`

// provisionerError is what OpenTofu prints when a command of the module fails.
const provisionerError = `
Error: local-exec provisioner error

  with terraform_data.made,
  on main.tf line 12, in resource "terraform_data" "made":
  12:   provisioner "local-exec" {

Error running command 'exit 7': exit status 7. Output:
`

// Operations that tests hold and let fail.
const (
	apply   = "apply"
	destroy = "destroy"
)

// hold keeps an operation from ending, once it has begun.
func (s *subject) hold(operation string) {
	s.Helper()
	if s.world != nil {
		s.setStep(operation, scripted.Step{Hang: true})
		return
	}
	s.close(operation)
}

// free lets an operation succeed, whether it is held or still to come.
func (s *subject) free(operation string) {
	s.Helper()
	if s.world != nil {
		s.setStep(operation, scripted.Step{})
		return
	}
	s.open(operation, "0")
}

// fail lets an operation fail, whether it is held or still to come.
func (s *subject) fail(operation string) {
	s.Helper()
	if s.world != nil {
		s.setStep(operation, scripted.Step{Stderr: provisionerError})
		return
	}
	s.open(operation, "7")
}

// drifts changes what is outside.
func (s *subject) drifts(to string) {
	s.Helper()
	s.open("world", to)
	if s.world != nil {
		s.script.Drift = to
		require.NoError(s, s.world.SetScript(client.ObjectKeyFromObject(s), *s.script))
	}
}

// reached waits until an operation is held.
func (s *subject) reached(operation string) {
	s.Helper()
	require.Eventually(s, func() bool {
		if s.world != nil {
			return s.runs(operation)
		}
		_, err := os.Stat(s.gate("in-" + operation))
		return err == nil
	}, timeout, tick, "the %s never began", operation)
	if s.world == nil {
		require.NoError(s, os.Remove(s.gate("in-"+operation)))
	}
}

// runs reports, from the journal, whether an operation runs.
func (s *subject) runs(operation string) bool {
	return slices.ContainsFunc(s.operations(), func(e scripted.Entry) bool { return string(e.Operation) == operation && e.End.IsZero() })
}

func (s *subject) setStep(operation string, step scripted.Step) {
	s.Helper()
	if operation == apply {
		s.script.Apply = step
	} else {
		s.script.Destroy = step
	}
	require.NoError(s, s.world.SetScript(client.ObjectKeyFromObject(s), *s.script))
}

func (s *subject) gate(name string) string { return filepath.Join(s.gates, name) }

// open puts a file in its place in one step.
func (s *subject) open(name, content string) {
	s.Helper()
	require.NoError(s, os.WriteFile(s.gate("part"), []byte(content), 0o600))
	require.NoError(s, os.Rename(s.gate("part"), s.gate(name)))
}

func (s *subject) close(name string) {
	s.Helper()
	if err := os.Remove(s.gate(name)); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(s, err)
	}
	if err := os.Remove(s.gate("in-" + name)); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(s, err)
	}
}

const tick = 50 * time.Millisecond

// history is everything a Workspace ever showed, each different view once.
type history struct {
	*subject
	mu    sync.Mutex
	views []string
	ended bool
}

// record watches the Workspace from now on.
func (s *subject) record() *history {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.GroupVersionKind().GroupVersion().WithKind("WorkspaceList"))
	w, err := s.api.Watch(s.Context(), list, &client.ListOptions{
		Namespace: s.GetNamespace(), Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + s.GetName()},
	})
	require.NoError(s, err)
	h := &history{subject: s}
	go func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				h.add(o, event.Type == watch.Deleted)
			}
		}
	}()
	return h
}

func (h *history) add(o *unstructured.Unstructured, ended bool) {
	v := h.see(o)
	words := append(v.marks, v.ready, v.synced, v.wrong) //nolint:gocritic // see made the list for us
	if v.message != "" {
		what, _, _ := strings.Cut(v.message, ":")
		words = append(words, what)
	}
	if len(v.outputs) > 0 {
		words = append(words, "outputs")
	}
	view := strings.Join(strings.Fields(strings.Join(words, " ")), " ")

	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = ended
	if !ended && (len(h.views) == 0 || h.views[len(h.views)-1] != view) {
		h.views = append(h.views, view)
	}
}

// until waits for a view and returns all there were.
func (h *history) until(view string) []string {
	h.Helper()
	return h.wait(func() bool { return len(h.views) > 0 && h.views[len(h.views)-1] == view })
}

// untilEnd waits for the Workspace to be gone.
func (h *history) untilEnd() []string {
	h.Helper()
	return h.wait(func() bool { return h.ended })
}

func (h *history) wait(condition func() bool) []string {
	h.Helper()
	require.EventuallyWithT(h, func(t *assert.CollectT) {
		h.mu.Lock()
		defer h.mu.Unlock()
		require.True(t, condition(), "so far the Workspace showed %q", h.views)
	}, timeout, tick)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.views)
}

// untilShown waits until there was a view: a watch reports it later than a get.
func (h *history) untilShown(view string) {
	h.Helper()
	h.wait(func() bool { return slices.Contains(h.views, view) })
}
