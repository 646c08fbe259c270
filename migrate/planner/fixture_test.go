// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

// fixture is a Cluster that CAPT v0.3 built, as it is read in today's version. A test changes what it is about.
type fixture struct {
	name, namespace string
	// proxy is the endpoint of the cluster, if it has not one of its own.
	proxy                    string
	cluster                  *clusterv1.Cluster
	network                  *infrav1.CAPTCluster
	plane                    *controlplanev1.CAPTControlPlane
	vpc, eks                 *infrav1.WorkspaceTemplateApply
	vpcTemplate, eksTemplate *infrav1.WorkspaceTemplate
	// more are other objects of the fixture.
	more []client.Object
	// gone are objects that the fixture does not have.
	gone map[client.Object]bool
}

func newFixture(name, namespace string) *fixture {
	s := &fixture{name: name, namespace: namespace, gone: map[client.Object]bool{}}
	ours := func(kind string) builder.Option {
		return func(object client.Object) {
			object.SetNamespace(namespace)
			object.SetUID(types.UID(kind + "/" + namespace + "/" + object.GetName()))
			builder.WithLabel(clusterv1.ClusterNameLabel, name)(object)
		}
	}
	s.cluster = builder.Cluster(name, ours("Cluster"))
	s.network = builder.CAPTCluster(name, ours("CAPTCluster"), builder.OwnedBy(s.cluster), builder.WithApplyRef(name+"-vpc"))
	s.network.Status.VPC.ID = s.vpcID()
	s.plane = builder.CAPTControlPlane(name, ours("CAPTControlPlane"), builder.OwnedBy(s.cluster), builder.WithRegion(builder.Region),
		builder.WithApplyRef(name+"-eks-controlplane-apply"), builder.WithEndpoint("https://"+s.endpoint(), 443))
	s.vpcTemplate = s.template("vpc", "cluster_name", "vpc_name")
	s.eksTemplate = s.template("eks", "cluster_name", "kubernetes_version", "region")
	s.vpc = s.apply(name+"-vpc", "vpc", map[string]string{"cluster_name": name, "vpc_name": name + "-vpc", "environment": "production"}, builder.OwnedBy(s.network))
	s.eks = s.apply(name+"-eks-controlplane-apply", "eks",
		map[string]string{"cluster_name": name, "kubernetes_version": "1.31", "region": builder.Region}, builder.OwnedBy(s.plane))
	s.eks.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: name + "-eks-connection", Namespace: namespace}
	return s
}

func (s *fixture) vpcID() string { return "vpc-" + s.namespace + "-" + s.name }
func (s *fixture) endpoint() string {
	return cmp.Or(s.proxy, s.name+"."+s.namespace+".eks.amazonaws.com")
}

// template as one of v1beta1 is read today: it makes cluster-wide Workspaces.
func (s *fixture) template(name string, variables ...string) *infrav1.WorkspaceTemplate {
	template := builder.WorkspaceTemplate(name, builder.WithScope(terraform.ScopeCluster), builder.WithNamespace(s.namespace),
		builder.WithUID(types.UID("WorkspaceTemplate/"+s.namespace+"/"+name)),
		builder.WithParameters(func(parameters *terraform.WorkspaceParameters) {
			parameters.Module, parameters.Vars = "", nil
			for _, variable := range variables {
				parameters.Module += "variable \"" + variable + "\" {}\n"
				parameters.Vars = append(parameters.Vars, terraform.Var{Key: variable, Value: "${" + variable + "}"})
			}
		}))
	if name == "vpc" {
		template.Spec.Template.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${WORKSPACE_NAME}-connection", Namespace: s.namespace}
	}
	return template
}

// apply as CAPT v0.3 left it.
func (s *fixture) apply(name, template string, variables map[string]string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply(name, append([]builder.Option{
		builder.WithNamespace(s.namespace), builder.WithVariables(variables), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		builder.WithUID(types.UID("WorkspaceTemplateApply/" + s.namespace + "/" + name)), builder.WithDeletionPolicy(infrav1.DeletionPolicyDelete),
	}, options...)...)
	apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: template, Namespace: s.namespace}
	apply.Status.WorkspaceName = naming.LegacyWorkspace(name)
	return apply
}

// add puts more objects into the fixture.
func (s *fixture) add(objects ...client.Object) { s.more = append(s.more, objects...) }

// live is the Workspace that CAPT v0.3 rendered for a WorkspaceTemplateApply.
func (s *fixture) live(t *testing.T, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate, outputs map[string]any) *unstructured.Unstructured {
	t.Helper()
	name := naming.LegacyWorkspace(apply.Name)
	rendered, errs := render.Workspace(render.Input{Apply: apply, Template: template, Name: name})
	require.Empty(t, errs)
	live := builder.Workspace(name, builder.AtRest, builder.InClusterScope(), builder.WithOutputs(outputs), builder.WithUID(types.UID("Workspace/"+name)))
	live.Object["spec"] = rendered.Object.Object["spec"]
	return live
}

func (s *fixture) objects() (all []client.Object) {
	for _, object := range append([]client.Object{s.cluster, s.network, s.plane, s.vpc, s.eks, s.vpcTemplate, s.eksTemplate}, s.more...) {
		if !s.gone[object] {
			all = append(all, object)
		}
	}
	return all
}

// snapshot of fixtures. The Workspaces are those of their VPCs and EKS clusters, as they would have been rendered, unless the fixtures
// have others of their names.
func snapshot(t *testing.T, fixtures ...*fixture) *migrate.Snapshot {
	t.Helper()
	snapshot := &migrate.Snapshot{
		ClusterUID: "management-cluster", Taken: now,
	}
	seen := map[string]bool{}
	for _, s := range fixtures {
		snapshot.Namespaces = append(snapshot.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
		for _, object := range s.objects() {
			if id := string(object.GetUID()); id == "" || !seen[id] {
				seen[id] = true
				take(t, snapshot, object)
			}
		}
	}
	return snapshot
}

// withWorkspaces adds the Workspaces of a fixture, as CAPT v0.3 rendered them.
func (s *fixture) withWorkspaces(t *testing.T) *fixture {
	t.Helper()
	s.add(s.live(t, s.vpc, s.vpcTemplate, map[string]any{"vpc_id": s.vpcID()}),
		s.live(t, s.eks, s.eksTemplate, map[string]any{"cluster_endpoint": "https://" + s.endpoint()}))
	return s
}

func take(t *testing.T, snapshot *migrate.Snapshot, object client.Object) {
	t.Helper()
	switch object := object.(type) {
	case *unstructured.Unstructured:
		snapshot.Workspaces = append(snapshot.Workspaces, *object)
		return
	case *clusterv1.Cluster:
		snapshot.Clusters = append(snapshot.Clusters, *object)
		return
	case *infrav1.CAPTCluster:
		snapshot.CAPTClusters = append(snapshot.CAPTClusters, *object)
	case *controlplanev1.CAPTControlPlane:
		snapshot.ControlPlanes = append(snapshot.ControlPlanes, *object)
	case *infrav1.WorkspaceTemplate:
		snapshot.Templates = append(snapshot.Templates, *object)
	case *infrav1.WorkspaceTemplateApply:
		snapshot.Applies = append(snapshot.Applies, *object)
	default:
		t.Fatalf("no place for %T", object)
	}
}

var now = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func planFor(t *testing.T, decisions *migrate.Decisions, fixtures ...*fixture) *plan.Plan {
	t.Helper()
	p, err := planner.New(snapshot(t, fixtures...), decisions)
	require.NoError(t, err)
	requireStates(t, p)
	return p
}

// requireStates proves what holds for every unit of every plan: only an adoptable one has steps, and none is adopted in part.
func requireStates(t *testing.T, p *plan.Plan) {
	t.Helper()
	for i := range p.Units {
		unit := &p.Units[i]
		require.Equal(t, unit.State == plan.Adoptable, len(unit.Steps) > 0, "%s is %s and has %d steps", unit.Name(), unit.State, len(unit.Steps))
		has := func(state migrate.OwnerState) bool {
			return slices.ContainsFunc(unit.Members, func(m plan.Member) bool { return m.State == state })
		}
		require.Equal(t, unit.State == plan.Blocked || unit.State == plan.NeedsDecision, has(migrate.OwnerBlocked) || has(migrate.OwnerAmbiguous), unit.Name())
		undecided := slices.ContainsFunc(p.FindingsOf(unit), func(f migrate.Finding) bool { return f.Undecided() })
		require.Equal(t, unit.State == plan.Blocked || unit.State == plan.NeedsDecision, undecided, "findings say why %s is %s", unit.Name(), unit.State)
	}
}
