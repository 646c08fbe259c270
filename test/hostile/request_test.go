// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// verb is one of RBAC; a patch has a verb per type here, because each is another way into the object.
type verb string

const (
	create           verb = "create"
	update           verb = "update"
	jsonPatch        verb = "patch-json"
	mergePatch       verb = "patch-merge"
	apply            verb = "apply"
	remove           verb = "delete"
	removeCollection verb = "deletecollection"
)

func verbs() []verb {
	return []verb{create, update, jsonPatch, mergePatch, apply, remove, removeCollection}
}

// request is one of the hostile user, with its answer.
type request struct {
	number      int
	verb        verb
	kind        *kind
	version     string
	name        string
	subresource string
	// body is the object, or the patch, and changes is what an object that replaces another one changes.
	body        any
	changes     map[string]any
	manager     string
	force       bool
	propagation metav1.DeletionPropagation
	selector    string

	code    int
	message string
	took    time.Duration
}

// send sends the request, and keeps the answer.
func (r *request) send(ctx context.Context, c dynamic.Interface, namespace string) {
	began := time.Now()
	err := r.do(ctx, c.Resource(r.kind.resourceIn(r.version)).Namespace(namespace))
	r.took, r.code = time.Since(began), 200
	if err == nil {
		return
	}
	r.message = err.Error()
	status := apierrors.APIStatus(nil)
	if r.code = 0; errors.As(err, &status) {
		r.code = int(status.Status().Code)
	}
}

func (r *request) do(ctx context.Context, objects dynamic.ResourceInterface) (err error) {
	var sub []string
	if r.subresource != "" {
		sub = []string{r.subresource}
	}
	switch r.verb {
	case create:
		_, err = objects.Create(ctx, r.object(), metav1.CreateOptions{FieldManager: r.manager}, sub...)
	case update:
		_, err = objects.Update(ctx, r.object(), metav1.UpdateOptions{FieldManager: r.manager}, sub...)
	case jsonPatch:
		_, err = objects.Patch(ctx, r.name, types.JSONPatchType, r.text(), metav1.PatchOptions{FieldManager: r.manager}, sub...)
	case mergePatch:
		_, err = objects.Patch(ctx, r.name, types.MergePatchType, r.text(), metav1.PatchOptions{FieldManager: r.manager}, sub...)
	case apply:
		options := metav1.PatchOptions{FieldManager: cmp.Or(r.manager, "user"), Force: ptr.To(r.force)}
		_, err = objects.Patch(ctx, r.name, types.ApplyPatchType, r.text(), options, sub...)
	case remove:
		err = objects.Delete(ctx, r.name, r.deleteOptions(), sub...)
	case removeCollection:
		err = objects.DeleteCollection(ctx, r.deleteOptions(), metav1.ListOptions{LabelSelector: r.selector})
	}
	return err
}

func (r *request) deleteOptions() (options metav1.DeleteOptions) {
	if r.propagation != "" {
		options.PropagationPolicy = &r.propagation
	}
	return options
}

func (r *request) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: r.body.(map[string]any)}
}

func (r *request) text() []byte {
	text, err := json.Marshal(r.body)
	if err != nil {
		panic(err) // It is made of JSON.
	}
	return text
}

func (r *request) accepted() bool { return r.code == 200 }

// failed reports whether the request did not get an answer in time: from the API server, or from a webhook.
func (r *request) failed() bool {
	return r.code == 0 || r.code >= 500 && !slices.ContainsFunc(internal(), func(text string) bool { return strings.Contains(r.message, text) }) ||
		strings.Contains(r.message, "failed calling webhook") || strings.Contains(r.message, "conversion webhook")
}

// internal are errors that the API server calls internal, and that the request is the cause of: unknown fields, two equal finalizers, and the limit of etcd.
func internal() []string {
	return []string{"failed to create typed patch object", "duplicate entries for key", "request is too large"}
}

// forbidden reports whether RBAC rejected it, and not a policy.
func (r *request) forbidden() bool {
	return r.code == 403 && strings.Contains(r.message, "cannot ") && strings.Contains(r.message, "in API group")
}

// String is the request as a kubectl command, and its answer.
func (r *request) String() string {
	resource := strings.TrimSuffix(strings.Join([]string{r.kind.resource, r.version, r.kind.Group}, "."), ".")
	if r.subresource != "" {
		resource += " --subresource=" + r.subresource
	}
	options := ""
	for _, option := range [][2]string{{"field-manager", r.manager}, {"cascade", string(r.propagation)}, {"selector", r.selector}} {
		if option[1] != "" {
			options += " --" + option[0] + "=" + option[1]
		}
	}
	if r.force {
		options += " --force-conflicts"
	}
	command := map[verb]string{
		create: "create -f", update: "replace -f", jsonPatch: "patch --type=json", mergePatch: "patch --type=merge",
		apply: "apply --server-side", remove: "delete", removeCollection: "delete --all",
	}[r.verb]
	body := ""
	if r.body != nil {
		body = " '" + shortened(r.shown(), 1500) + "'"
	}
	return fmt.Sprintf("%d: kubectl %s %s %s%s%s  # %d in %s %s", r.number, command, resource, r.name, options, body, r.code, r.took.Round(time.Millisecond), shortened(r.message, 200))
}

// shown is the text of the body; of an object that replaces another one, what differs.
func (r *request) shown() string {
	if r.verb == update {
		return "the object with " + textOfJSON(r.changes)
	}
	return long.ReplaceAllString(string(r.text()), "xxx…")
}

// long is a value that only has to be long.
var long = regexp.MustCompile(`x{60,}`)

func shortened(text string, limit int) string {
	if len(text) > limit {
		return fmt.Sprintf("%s… (%d bytes)", text[:limit], len(text))
	}
	return text
}
