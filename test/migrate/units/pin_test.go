// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// drifted is a fleet of two clusters that share their templates, which are in the namespace of the first one. That of the VPC was edited
// between the two, and that of the control plane after both.
type drifted struct {
	*environment
	host *host.Host
	// git are the manifests of the fleet in v1beta1, with the edits.
	git []*unstructured.Unstructured
	// before is the fleet before the migration, and kept are the Workspaces and Secrets with all of their metadata.
	before, kept map[string]string
	// mine and theirs are the units: the second has its templates in another namespace.
	mine, theirs string
}

func newDrifted(t *testing.T) *drifted {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), sandbox.Kubectl))
	names := legacy.NamesOf("drifted")
	d := &drifted{mine: names.Namespace + "/one", theirs: names.Other + "/two"}
	d.environment = upgraded(t, sandbox.Options{ClusterAPI: true, KubeControllerManager: true}, func(env *environment) {
		d.environment = env
		old, edited := legacy.PlainRecipe(), legacy.PlainRecipe()
		edited.VPC += "\n# edited\n"
		d.create(names, legacy.Cluster{Namespace: names.Namespace, Name: "one", Templates: names.Namespace, Recipe: old, Unreferenced: true, Helpers: true})
		d.edit(names.Namespace, legacy.VPCTemplate, edited.VPC)
		d.create(names, legacy.Cluster{Namespace: names.Other, Name: "two", Templates: names.Namespace, Recipe: edited})
		d.edit(names.Namespace, legacy.ControlPlaneTemplate, old.ControlPlane+"\n# edited\n")
	})
	d.host = host.New(t, d.Sandbox)
	d.before = d.settled(t)
	d.kept = d.untouchable(t)
	require.Greater(t, len(d.kept), 8)
	return d
}

func (d *drifted) create(names legacy.Names, cluster legacy.Cluster) {
	d.Helper()
	fixture := legacy.Fixture{Clusters: func(legacy.Names) []legacy.Cluster { return []legacy.Cluster{cluster} }}
	objects, err := d.Create(d.Context(), fixture, names)
	require.NoError(d, err)
	d.git = append(d.git, objects.Manifests...)
	d.git = append(d.git, objects.Exported()...)
}

// edit applies another module to a template, in v1beta1.
func (d *drifted) edit(namespace, name, module string) {
	d.Helper()
	i := slices.IndexFunc(d.git, func(o *unstructured.Unstructured) bool {
		return host.Name(o) == "WorkspaceTemplate "+namespace+"/"+name
	})
	require.NoError(d, unstructured.SetNestedField(d.git[i].Object, module, "spec", "template", "spec", "forProvider", "module"))
	d.kubectl(d.T, d.git[i:i+1], "apply", "-f", "-")
}

func (d *drifted) kubectl(t *testing.T, manifests []*unstructured.Unstructured, args ...string) {
	t.Helper()
	var stream bytes.Buffer
	for _, manifest := range manifests {
		require.NoError(t, json.NewEncoder(&stream).Encode(manifest.Object))
	}
	for {
		cmd := exec.CommandContext(t.Context(), d.Binary(sandbox.Kubectl), append([]string{"--kubeconfig", d.Kubeconfig()}, args...)...)
		cmd.Stdin = bytes.NewReader(stream.Bytes())
		output, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(string(output), "(Conflict)") { // The manager was faster.
			continue
		}
		require.NoError(t, err, "kubectl %s: %s", strings.Join(args, " "), output)
		return
	}
}

// settled is the fleet when the manager has nothing to do, without what kubectl notes for itself.
func (d *drifted) settled(t *testing.T) map[string]string {
	t.Helper()
	view := func(object *unstructured.Unstructured) {
		host.Desired(object)
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
		if len(object.GetAnnotations()) == 0 {
			object.SetAnnotations(nil)
		}
	}
	return host.Settled(t, d.Sandbox, func() map[string]string { return host.Fleet(t, d.Admin, view) })
}

// untouchable are Workspaces and Secrets as they are stored, with resourceVersion and managedFields. The kubeconfigs of Clusters are not among
// them: the manager renews them.
func (d *drifted) untouchable(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	kinds := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret")}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	for _, kind := range kinds {
		require.NoError(t, migrate.Each(t.Context(), d.Admin, kind, "", func(object *unstructured.Unstructured) error {
			if object.GetKind() == "Secret" && object.GetLabels()[clusterv1.ClusterNameLabel] != "" {
				return nil
			}
			text, err := json.MarshalIndent(object.Object, "", " ")
			found[host.Name(object)] = string(text)
			return err
		}))
	}
	return found
}

// requireUntouched requires that Workspaces and Secrets are what they were, when the manager has nothing to do.
func (d *drifted) requireUntouched(t *testing.T) (fleet map[string]string) {
	t.Helper()
	fleet = d.settled(t)
	requireSame(t, d.kept, d.untouchable(t))
	return fleet
}

// requireSame compares objects one by one: a difference of all would be unreadable.
func requireSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name := range want {
		require.Equal(t, want[name], got[name], name)
	}
	require.Len(t, got, len(want))
}

// statusOf is what captctl migrate status reports.
func (d *drifted) statusOf(t *testing.T) *status.Status {
	t.Helper()
	found := &status.Status{}
	require.NoError(t, json.Unmarshal([]byte(d.host.In(t).Run(migrate.Done, "status", "-o=json")), found))
	return found
}

func (d *drifted) get(t *testing.T, object client.Object, namespace, name string) {
	t.Helper()
	require.NoError(t, d.Admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// requirePinned requires that everything is adopted, without a finding, and that the owners with drift and their WorkspaceTemplateApplies use
// templates of their own.
func (d *drifted) requirePinned(t *testing.T) {
	t.Helper()
	found := d.statusOf(t)
	assert.Empty(t, found.Findings)
	require.Len(t, found.Units, 2)
	for _, unit := range found.Units {
		assert.Equal(t, plan.Adopted, unit.State, unit.Unit)
		assert.Equal(t, apply.PhaseApplied, unit.Phase, unit.Unit)
		assert.Empty(t, unit.Message+unit.PendingChange, unit.Unit)
	}
	one, vpc := &controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}
	d.get(t, one, "drifted", "one")
	d.get(t, vpc, "drifted", "one")
	two, vpcOfTwo := &controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}
	d.get(t, two, "drifted-other", "two")
	d.get(t, vpcOfTwo, "drifted-other", "two")
	assert.Equal(t, infrav1.WorkspaceTemplateReference{Name: legacy.VPCTemplate, Namespace: "drifted"}, vpcOfTwo.Spec.VPC.Template.Ref)
	templates := map[infrav1.WorkspaceTemplateReference]bool{}
	for _, owner := range []struct {
		ref     infrav1.WorkspaceTemplateReference
		applied string
		object  client.Object
	}{
		{one.Spec.WorkspaceTemplateRef, one.Spec.WorkspaceTemplateApplyRef.Name, one},
		{two.Spec.WorkspaceTemplateRef, two.Spec.WorkspaceTemplateApplyRef.Name, two},
		{vpc.Spec.VPC.Template.Ref, vpc.Spec.WorkspaceTemplateApplyRef.Name, vpc},
	} {
		used, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
		d.get(t, used, owner.object.GetNamespace(), owner.applied)
		d.get(t, template, owner.ref.Namespace, owner.ref.Name)
		assert.Equal(t, "true", template.Labels[naming.PinnedLabel], template.Name)
		assert.Equal(t, "drifted", template.Namespace)
		assert.Equal(t, owner.ref, used.Spec.TemplateRef, used.Name)
		assert.Equal(t, used.Generation, used.Status.WrittenGeneration, used.Name)
		templates[owner.ref] = true
	}
	assert.Len(t, templates, 3, "each owner has its own")
}

// requireReady requires that the Clusters are built and that the manager reports them as ready.
func (d *drifted) requireReady(t *testing.T) {
	t.Helper()
	for _, unit := range []string{d.mine, d.theirs} {
		namespace, name, _ := strings.Cut(unit, "/")
		cluster, plane, network := &clusterv1.Cluster{}, &controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}
		for _, object := range []client.Object{cluster, plane, network} {
			d.get(t, object, namespace, name)
		}
		initialized := cluster.Status.Initialization
		assert.True(t, ptr.Deref(initialized.InfrastructureProvisioned, false) && ptr.Deref(initialized.ControlPlaneInitialized, false), unit)
		assert.True(t, meta.IsStatusConditionTrue(plane.Status.Conditions, clusterv1.ReadyCondition), "%s %v", unit, plane.Status.Conditions)
		assert.True(t, meta.IsStatusConditionTrue(network.Status.Conditions, clusterv1.ReadyCondition), "%s %v", unit, network.Status.Conditions)
	}
}

// Two clusters of one template that was edited since they were built: each keeps what it has, through adoption, old manifests, a rollback and
// another adoption.
func TestClustersThatDriftedFromTheirTemplateArePinned(t *testing.T) {
	t.Parallel()
	d := newDrifted(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"check and plan name the way out, which is followed", d.areBlocked},
		{"the plan is applied", d.areApplied},
		{"old manifests do not unpin", d.areAppliedFromGit},
		{"one is rolled back", d.oneIsRolledBack},
		{"and adopted again", d.oneIsAdoptedAgain},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

func (d *drifted) areBlocked(t *testing.T) {
	h := d.host.In(t)
	for _, command := range []string{"check", "plan"} {
		printed := h.Run(migrate.NeedsDecision, command)
		assert.Contains(t, printed, "("+planner.ReasonWorkspaceDiffers+")")
		assert.Equal(t, 3, strings.Count(printed, "  # pin: true"), printed)
		assert.Contains(t, printed, "was edited since CAPT v0.3 rendered it")
		assert.Contains(t, printed, "Set pin: true in --decisions")
		h.Run(migrate.Done, h.Advised(printed, "pin: true")...)
		require.Equal(t, []string{d.theirs, d.mine}, adoptable(h.Planned()))
	}
	d.requireUntouched(t)
}

func (d *drifted) areApplied(t *testing.T) {
	d.host.In(t).Run(migrate.Done, "apply", "plan.json", "--yes", "--fix-cluster-endpoints")
	d.requireUntouched(t)
	d.requirePinned(t)
	d.requireReady(t)
	d.host.In(t).Run(migrate.Done, "check")
}

func (d *drifted) areAppliedFromGit(t *testing.T) {
	adopted := d.requireUntouched(t)
	for _, args := range [][]string{{"apply", "-f", "-"}, {"apply", "--server-side", "--force-conflicts", "-f", "-"}} {
		d.kubectl(t, d.git, args...)
		requireSame(t, adopted, d.requireUntouched(t))
		d.requirePinned(t)
		d.requireReady(t)
	}
}

func (d *drifted) oneIsRolledBack(t *testing.T) {
	p, adopted := d.host.In(t).Planned(), d.settled(t)
	printed := d.host.In(t).Run(migrate.Done, "rollback", "plan.json", "--cluster="+d.theirs, "--yes")
	assert.Regexp(t, "WorkspaceTemplate drifted/two-eks-controlplane-apply-pinned-[a-z0-9]+, which the plan created, is not deleted", printed)
	fleet := d.requireUntouched(t)
	for name, object := range adopted {
		switch {
		case name == "WorkspaceTemplate drifted/"+legacy.VPCTemplate: // It permits the namespace of the unit no more.
			object = d.before[name]
		case !strings.Contains(name, " drifted-other/"):
		case strings.HasPrefix(name, "WorkspaceTemplateApply "): // The manager added variables.
			object = fleet[name]
		default:
			object = d.before[name]
		}
		assert.Equal(t, object, fleet[name], name)
	}
	unit := slices.IndexFunc(p.Units, func(unit plan.Unit) bool { return unit.Name() == d.theirs })
	host.RequireFields(t, d.Admin, &p.Units[unit], plan.Pending)
	used := &infrav1.WorkspaceTemplateApply{}
	d.get(t, used, "drifted-other", "two-eks-controlplane-apply")
	assert.Equal(t, infrav1.WorkspaceTemplateReference{Name: legacy.ControlPlaneTemplate, Namespace: "drifted"}, used.Spec.TemplateRef)
	assert.Empty(t, used.Spec.WorkspaceName)
	assert.True(t, meta.IsStatusConditionTrue(used.Status.Conditions, infrav1.AdoptionRequiredCondition), "%v", used.Status.Conditions)
	d.requireReady(t)
	for _, unit := range d.statusOf(t).Units {
		assert.Equal(t, unit.Unit == d.theirs, unit.Phase == apply.PhaseRolledBack, unit.Unit)
		assert.Equal(t, unit.Unit == d.theirs, unit.State == plan.Adoptable, unit.Unit)
	}
}

func (d *drifted) oneIsAdoptedAgain(t *testing.T) {
	h := d.host.In(t)
	require.NoError(t, os.Remove(filepath.Join(h.Dir, "decisions.yaml")))
	h.Run(migrate.NeedsDecision, "plan")
	h.Run(migrate.Done, h.Advised(h.Run(migrate.Done, "check"), "pin: true")...)
	require.Equal(t, []string{d.theirs}, adoptable(h.Planned()))
	h.Run(migrate.Done, "apply", "plan.json", "--yes", "--fix-cluster-endpoints")
	d.requireUntouched(t)
	d.requirePinned(t)
	d.requireReady(t)
}
