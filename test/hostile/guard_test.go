// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// violation is something that must not happen.
type violation struct {
	text string
	// about are texts by which the requests that concern it are found.
	about []string
}

// guard watches every version of every object, because what happened for a moment counts.
type guard struct {
	fleet  *fleet
	before map[types.UID]unstructured.Unstructured

	lock       sync.Mutex
	violations []violation
	// workspaces counts the versions of Workspaces that were checked.
	workspaces int
	// own are the objects of the hostile user, as they were seen last.
	own map[schema.GroupKind]map[string]*unstructured.Unstructured
}

func newGuard(f *fleet) *guard {
	f.Helper()
	g := &guard{fleet: f, before: map[types.UID]unstructured.Unstructured{}, own: map[schema.GroupKind]map[string]*unstructured.Unstructured{}}
	for _, object := range f.snapshot() {
		g.before[object.GetUID()] = object
	}
	for _, kind := range append(guarded(), eventsv1.SchemeGroupVersion.WithKind("Event")) {
		go g.follow(f.Context(), kind, g.watch(f.Context(), kind))
	}
	return g
}

func (g *guard) watch(ctx context.Context, kind schema.GroupVersionKind) watch.Interface {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	watcher, err := shared.API.Watch(ctx, list)
	if ctx.Err() == nil && err != nil {
		g.report("watching " + kind.Kind + " failed: " + err.Error())
	}
	return watcher
}

func (g *guard) follow(ctx context.Context, kind schema.GroupVersionKind, watcher watch.Interface) {
	for ctx.Err() == nil && watcher != nil {
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
				g.check(event.Type, object)
			}
		}
		watcher = g.watch(ctx, kind)
	}
}

func (g *guard) report(text string, about ...string) {
	g.lock.Lock()
	defer g.lock.Unlock()
	// What follows from a violation is not another one.
	if !slices.ContainsFunc(g.violations, func(v violation) bool { return slices.Equal(v.about, about) }) {
		g.violations = append(g.violations, violation{text, about})
	}
}

// found returns the violations so far.
func (g *guard) found() []violation {
	g.lock.Lock()
	defer g.lock.Unlock()
	return slices.Clone(g.violations)
}

// check checks one version of an object.
func (g *guard) check(event watch.EventType, object *unstructured.Unstructured) {
	if object.GetKind() == "Workspace" {
		g.checkWorkspace(object)
	}
	if object.GetNamespace() == g.fleet.a {
		g.keep(event, object)
		g.checkHidden(object)
	}
	before, known := g.before[object.GetUID()]
	switch name := nameOf(object); {
	case known && event == watch.Deleted:
		g.report(name+" was deleted", object.GetName(), string(object.GetUID()))
	case known:
		if difference := diff(withoutStatus(&before), withoutStatus(object)); difference != "" {
			g.report(name+" was changed:\n"+difference, object.GetName(), string(object.GetUID()))
		}
	case g.fleet.theirs(object) && object.GetKind() != "Event":
		g.report(name+" was created", object.GetName(), string(object.GetUID()))
	}
}

// keep keeps an object of the hostile user.
func (g *guard) keep(event watch.EventType, object *unstructured.Unstructured) {
	g.lock.Lock()
	defer g.lock.Unlock()
	kind := object.GroupVersionKind().GroupKind()
	if g.own[kind] == nil {
		g.own[kind] = map[string]*unstructured.Unstructured{}
	}
	if g.own[kind][object.GetName()] = object; event == watch.Deleted {
		delete(g.own[kind], object.GetName())
	}
}

// read returns an object of the hostile user in the stored version; nil if it does not exist.
func (g *guard) read(k *kind, name string) *unstructured.Unstructured {
	g.lock.Lock()
	defer g.lock.Unlock()
	if object := g.own[k.GroupKind][name]; object != nil {
		return object.DeepCopy()
	}
	return nil
}

// checkWorkspace checks what reached Terraform.
func (g *guard) checkWorkspace(workspace *unstructured.Unstructured) {
	g.lock.Lock()
	g.workspaces++
	g.lock.Unlock()
	if strings.Contains(textOfJSON(workspace.Object["spec"]), mark) {
		g.report(nameOf(workspace)+" has content that was not approved", workspace.GetName(), g.fleet.unapproved)
	}
	_, known := g.before[workspace.GetUID()]
	state := workspace.GetAnnotations()[externalNameAnnotation]
	if !known && (workspace.GetNamespace() == g.fleet.a || workspace.GetNamespace() == "") && slices.Contains(g.fleet.states, state) {
		g.report(nameOf(workspace)+" has the Terraform state of another namespace: "+state, state, workspace.GetName())
	}
}

// checkHidden checks that an object of the hostile user does not show what only the other tenant knows.
func (g *guard) checkHidden(object *unstructured.Unstructured) {
	text := textOfJSON(object.Object)
	for _, uid := range g.fleet.hidden {
		if strings.Contains(text, uid) {
			g.report(fmt.Sprintf("%s shows the UID %s of another namespace: %s", nameOf(object), uid, shortened(text, 2000)), object.GetName())
		}
	}
}

// compare compares all objects of others with those before.
func (g *guard) compare() {
	g.fleet.Helper()
	left := map[types.UID]bool{}
	for _, object := range g.fleet.snapshot() {
		left[object.GetUID()] = true
		before, known := g.before[object.GetUID()]
		if !known {
			g.report(nameOf(&object)+" was created", object.GetName())
			continue
		}
		compared := content
		if changesWithTime(object.GetKind(), object.GetName()) {
			compared = withoutStatus
		}
		if difference := diff(compared(&before), compared(&object)); difference != "" {
			g.report(nameOf(&object)+" is not as before:\n"+difference, object.GetName(), string(object.GetUID()))
		}
	}
	for uid, object := range g.before {
		if !left[uid] {
			g.report(nameOf(&object)+" was deleted", object.GetName(), string(uid))
		}
	}
	require.NotEmpty(g.fleet, left)
}

// changesWithTime reports whether the status of an object changes in a run of 20 minutes without any request: Cluster API probes Clusters, and the provider
// ends the destruction of leaving.
func changesWithTime(kind, name string) bool {
	return kind == "Cluster" || kind == "clusters" || name == leaving
}

func withoutStatus(object *unstructured.Unstructured) map[string]any {
	kept := content(object)
	delete(kept, "status")
	return kept
}

const externalNameAnnotation = "crossplane.io/external-name"

func nameOf(object *unstructured.Unstructured) string {
	return strings.TrimPrefix(object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName(), "/")
}

func textOfJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // It was decoded from JSON.
	}
	return string(text)
}

// diff shows how two objects differ; empty when they do not.
func diff(before, after map[string]any) string {
	lines := func(value any) []string {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			panic(err)
		}
		return difflib.SplitLines(string(text))
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(before), B: lines(after), Context: 1})
	if err != nil {
		panic(err)
	}
	return text
}
