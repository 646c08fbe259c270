// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/test/builder"
)

// fakeWorld is a world of a few objects.
type fakeWorld struct {
	templates     map[types.NamespacedName]*infrav1.WorkspaceTemplate
	applies       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
	captClusters  map[types.NamespacedName]*infrav1.CAPTCluster
	controlPlanes map[types.NamespacedName]*controlplanev1.CAPTControlPlane
	clusters      map[types.NamespacedName]*clusterv1.Cluster
	namespaces    map[string]labels.Set
	// err is what every look ends with, if set.
	err error
	// looks counts how often something was looked for, by the method's name.
	looks map[string]int
}

var _ validation.World = &fakeWorld{}

// newWorld makes a world of objects that a builder made, and of Namespaces.
func newWorld(objects ...validation.Owner) *fakeWorld {
	w := &fakeWorld{
		templates:     map[types.NamespacedName]*infrav1.WorkspaceTemplate{},
		applies:       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply{},
		captClusters:  map[types.NamespacedName]*infrav1.CAPTCluster{},
		controlPlanes: map[types.NamespacedName]*controlplanev1.CAPTControlPlane{},
		clusters:      map[types.NamespacedName]*clusterv1.Cluster{},
		namespaces:    map[string]labels.Set{},
		looks:         map[string]int{},
	}
	for _, object := range objects {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		switch object := object.(type) {
		case *infrav1.WorkspaceTemplate:
			w.templates[key] = object
		case *infrav1.WorkspaceTemplateApply:
			w.applies[key] = object
		case *infrav1.CAPTCluster:
			w.captClusters[key] = object
		case *controlplanev1.CAPTControlPlane:
			w.controlPlanes[key] = object
		case *clusterv1.Cluster:
			w.clusters[key] = object
		case *corev1.Namespace:
			w.namespaces[object.Name] = labels.Merge(labels.Set{}, object.Labels)
		default:
			panic("newWorld: this kind has no place in a world")
		}
	}
	return w
}

// complete makes a WorkspaceTemplate that uses all variables that CAPT gives to a VPC, a control plane or a Fargate profile.
func complete(name string, options ...builder.Option) *infrav1.WorkspaceTemplate {
	given := map[string][]string{"vpc": owners.VPCVariables(), "eks": owners.ControlPlaneVariables(nil), "fargate": {"profile_name", "selectors"}}[name]
	given = slices.DeleteFunc(given, func(variable string) bool { return variable == "cluster_name" }) // The builder has that one.
	return builder.WorkspaceTemplate(name, append(options, builder.Consuming(given...))...)
}

// namespace makes a Namespace for newWorld.
func namespace(name string, set map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
}

func (w *fakeWorld) look(method string) error {
	w.looks[method]++
	return w.err
}

func (w *fakeWorld) WorkspaceTemplate(_ context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	return w.templates[key], w.look("WorkspaceTemplate")
}

func (w *fakeWorld) WorkspaceTemplateApply(_ context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplateApply, error) {
	return w.applies[key], w.look("WorkspaceTemplateApply")
}

func (w *fakeWorld) ClaimantsOf(_ context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	var claimants []infrav1.WorkspaceTemplateApply
	for _, apply := range w.applies {
		if workspaceName != "" && apply.Spec.WorkspaceName == workspaceName {
			claimants = append(claimants, *apply)
		}
	}
	return claimants, w.look("ClaimantsOf")
}

func (w *fakeWorld) CAPTCluster(_ context.Context, key types.NamespacedName) (*infrav1.CAPTCluster, error) {
	return w.captClusters[key], w.look("CAPTCluster")
}

func (w *fakeWorld) CAPTControlPlane(_ context.Context, key types.NamespacedName) (*controlplanev1.CAPTControlPlane, error) {
	return w.controlPlanes[key], w.look("CAPTControlPlane")
}

func (w *fakeWorld) ControlPlanesOfTemplate(_ context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	var users []controlplanev1.CAPTControlPlane
	for _, controlPlane := range w.controlPlanes {
		if controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace) == template {
			users = append(users, *controlPlane)
		}
	}
	return users, w.look("ControlPlanesOfTemplate")
}

func (w *fakeWorld) UsersOf(_ context.Context, template types.NamespacedName) (users int, err error) {
	for _, apply := range w.applies {
		if apply.TemplateKey() == template {
			users++
		}
	}
	return users, w.look("UsersOf")
}

func (w *fakeWorld) Orphaned(_ context.Context, namespace string) (bool, error) {
	for key, apply := range w.applies {
		if key.Namespace == namespace && adoption.Ownerless(apply) {
			return true, w.look("Orphaned")
		}
	}
	return false, w.look("Orphaned")
}

func (w *fakeWorld) Leftover(context.Context, string) (bool, error) { return false, w.look("Leftover") }

func (w *fakeWorld) ReferrersTo(_ context.Context, apply types.NamespacedName) ([]validation.Owner, error) {
	var owners []validation.Owner
	for key, captCluster := range w.captClusters {
		if ref := captCluster.Spec.WorkspaceTemplateApplyRef; key.Namespace == apply.Namespace && ref.Name == apply.Name {
			owners = append(owners, captCluster)
		}
	}
	for key, controlPlane := range w.controlPlanes {
		refs := []infrav1.WorkspaceTemplateApplyReference{controlPlane.Spec.WorkspaceTemplateApplyRef}
		for i := range controlPlane.Spec.FargateProfiles {
			refs = append(refs, controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)
		}
		if key.Namespace == apply.Namespace && slices.ContainsFunc(refs, func(ref infrav1.WorkspaceTemplateApplyReference) bool {
			return ref.Name == apply.Name
		}) {
			owners = append(owners, controlPlane)
		}
	}
	return owners, w.look("ReferrersTo")
}

func (w *fakeWorld) Cluster(_ context.Context, key types.NamespacedName) (*clusterv1.Cluster, error) {
	return w.clusters[key], w.look("Cluster")
}

func (w *fakeWorld) ClusterOf(_ context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	for _, cluster := range w.clusters {
		ref := cluster.Spec.InfrastructureRef
		if _, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
			ref = cluster.Spec.ControlPlaneRef
		}
		if cluster.Namespace == owner.GetNamespace() && ref.Name == owner.GetName() {
			return cluster, w.look("ClusterOf")
		}
	}
	return nil, w.look("ClusterOf")
}

func (w *fakeWorld) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	return w.namespaces[name], w.look("NamespaceLabels")
}

// finding is an error as a test expects it: the path of the field, its type, and a part of its text.
type finding struct {
	path string
	kind field.ErrorType
	text string
}

// assertRefused checks that exactly these errors were found, in any order.
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

// assertWarned checks that as many warnings were found, each of which contains one of the texts.
func assertWarned(t *testing.T, warnings []string, want ...string) {
	t.Helper()
	if !assert.Len(t, warnings, len(want), "%q", warnings) {
		return
	}
	for _, text := range want {
		assert.True(t, slices.ContainsFunc(warnings, func(warning string) bool { return strings.Contains(warning, text) }), "%q is not among %q", text, warnings)
	}
}
