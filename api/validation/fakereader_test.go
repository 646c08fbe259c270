// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// fakeReader is a validation.Reader with a few objects. The callers of the methods that it does not have are tested in webhooks/admission.
type fakeReader struct {
	validation.Reader
	// objects by type, namespace and name. They are listed in random order.
	objects map[string]validation.Owner
	// err is the error of all lookups, or of one method.
	err     error
	failing string
	// looks counts the lookups, by the name of the method.
	looks map[string]int
}

// newFakeReader returns a world with objects and Namespaces.
func newFakeReader(objects ...validation.Owner) *fakeReader {
	w := &fakeReader{objects: map[string]validation.Owner{}, looks: map[string]int{}}
	for _, object := range objects {
		w.add(object)
	}
	return w
}

func (w *fakeReader) add(object validation.Owner) {
	w.objects[fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())] = object
}

// all returns the objects in random order.
func (w *fakeReader) all() validation.Objects { return slices.Collect(maps.Values(w.objects)) }

// failingAt returns the same reader, in which one method fails.
func (w *fakeReader) failingAt(method string) *fakeReader {
	return &fakeReader{objects: w.objects, looks: w.looks, err: errUnreachable, failing: method}
}

var errUnreachable = errors.New("no route to host")

// complete returns a WorkspaceTemplate that uses all variables that CAPT sets for a VPC, a control plane or a Fargate profile.
func complete(name string, options ...builder.Option) *infrav1.WorkspaceTemplate {
	given := map[string][]string{"vpc": validation.VPCVariables(), "eks": validation.ControlPlaneVariables(nil), "fargate": {"profile_name", "selectors"}}[name]
	given = slices.DeleteFunc(given, func(variable string) bool { return variable == "cluster_name" }) // The builder adds it.
	return builder.WorkspaceTemplate(name, append(options, builder.Consuming(given...))...)
}

// namespace returns a Namespace for newFakeReader.
func namespace(name string, set map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
}

func (w *fakeReader) look(method string) error {
	w.looks[method]++
	if w.failing != "" && w.failing != method {
		return nil
	}
	return w.err
}

// Object counts as a lookup with the name of the kind.
func (w *fakeReader) Object(ctx context.Context, key types.NamespacedName, kind validation.Owner) (validation.Owner, error) {
	found, _ := w.all().Object(ctx, key, kind) // It never fails.
	return found, w.look(reflect.TypeOf(kind).Elem().Name())
}

func (w *fakeReader) ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	found, _ := w.all().ClaimantsOf(ctx, workspaceName) // It never fails.
	return found, w.look("ClaimantsOf")
}

func (w *fakeReader) MachinePoolOf(ctx context.Context, pool types.NamespacedName) (*clusterv1.MachinePool, error) {
	found, _ := w.all().MachinePoolOf(ctx, pool) // It never fails.
	return found, w.look("MachinePoolOf")
}

func (w *fakeReader) NodeGroups(ctx context.Context, cluster types.NamespacedName) ([]validation.NodeGroup, error) {
	found, _ := w.all().NodeGroups(ctx, cluster) // It never fails.
	return found, w.look("NodeGroups")
}

func (w *fakeReader) ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	found, _ := w.all().ControlPlanesOfTemplate(ctx, template) // It never fails.
	return found, w.look("ControlPlanesOfTemplate")
}

func (w *fakeReader) EKSClaims(ctx context.Context, name string) ([]validation.EKSClaim, error) {
	found, _ := w.all().EKSClaims(ctx, name) // It never fails.
	return found, w.look("EKSClaims")
}

func (w *fakeReader) UsersOf(ctx context.Context, template types.NamespacedName) (validation.Users, error) {
	found, _ := w.all().UsersOf(ctx, template) // It never fails.
	return found, w.look("UsersOf")
}

func (w *fakeReader) ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]validation.Owner, error) {
	found, _ := w.all().ReferrersTo(ctx, apply) // It never fails.
	return found, w.look("ReferrersTo")
}

func (w *fakeReader) ClusterOf(ctx context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	found, _ := w.all().ClusterOf(ctx, owner) // It never fails.
	return found, w.look("ClusterOf")
}

// NamespaceLabels returns nil for a Namespace that does not exist, as in a cluster.
func (w *fakeReader) NamespaceLabels(ctx context.Context, name string) (found labels.Set, err error) {
	if _, exists := w.objects[fmt.Sprintf("%T /%s", &corev1.Namespace{}, name)]; exists {
		found, _ = w.all().NamespaceLabels(ctx, name)
	}
	return found, w.look("NamespaceLabels")
}

// finding is an expected error: the path of the field, its type, and a part of its text.
type finding struct {
	path string
	kind field.ErrorType
	text string
}

// assertRefused asserts that exactly these errors were found, in any order.
func assertRefused(t *testing.T, errs field.ErrorList, want ...finding) {
	t.Helper()
	if !assert.Len(t, errs, len(want), "%v", errs.ToAggregate()) {
		return
	}
	for _, w := range want {
		assert.True(t, slices.ContainsFunc(errs, func(e *field.Error) bool {
			return e.Field == w.path && e.Type == w.kind && strings.Contains(e.Detail, w.text)
		}), "%+v is not among %v", w, errs.ToAggregate())
	}
}

// expect asserts that a rule found exactly these errors and warnings.
func expect(t *testing.T, refused []finding, warnings ...string) func(validation.Findings, error) {
	t.Helper()
	return func(got validation.Findings, err error) {
		t.Helper()
		require.NoError(t, err)
		assertRefused(t, got.Errors, refused...)
		assertWarned(t, got.Warnings, warnings...)
		assert.NotContains(t, fmt.Sprint(got.Errors, got.Warnings), "hunter2", "values may be secrets")
	}
}

// refusedIf returns an expected error with a text; none when the text is empty.
func refusedIf(path, text string) []finding {
	if text == "" {
		return nil
	}
	return []finding{{path, field.ErrorTypeForbidden, text}}
}

// assertWarned asserts that there are as many warnings as texts, and that each contains one of the texts.
func assertWarned(t *testing.T, warnings []string, want ...string) {
	t.Helper()
	// The modules of the tests have only what the tests are about.
	warnings = slices.DeleteFunc(slices.Clone(warnings), func(warning string) bool { return strings.Contains(warning, "the module has no resource, data source") })
	if !assert.Len(t, warnings, len(want), "%q", warnings) {
		return
	}
	for _, text := range want {
		assert.True(t, slices.ContainsFunc(warnings, func(warning string) bool { return strings.Contains(warning, text) }), "%q is not among %q", text, warnings)
	}
}
