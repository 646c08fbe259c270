// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func named(name string) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = name })
}

func TestNamesThatEKSRefuses(t *testing.T) {
	const dots, tooLong = `EKS does not accept "team1.blue"`, "at most 100 characters"
	long := strings.Repeat("a", 101)
	using := builder.WithApplyRef("by-hand")
	module := builder.WorkspaceTemplateApply("by-hand", builder.WithVariables(map[string]string{"cluster_name": "team1.blue"}))
	module.Spec.TemplateRef.Name = "eks"
	for title, row := range map[string]struct {
		cluster string
		options []builder.Option
		kind    field.ErrorType
		refused string
	}{
		"a Cluster with a dot":                       {"team1.blue", nil, field.ErrorTypeRequired, dots},
		"a Cluster with a long name":                 {long, nil, field.ErrorTypeRequired, tooLong},
		"of 100 characters":                          {long[1:], nil, "", ""},
		"with another name for EKS":                  {"team1.blue", []builder.Option{named("team1_Blue")}, "", ""},
		"moved or restored":                          {"team1.blue", []builder.Option{builder.WithFinalizers("a/b")}, "", ""},
		"with an endpoint":                           {"team1.blue", []builder.Option{builder.WithEndpoint("eks.example.com", 443)}, "", ""},
		"whose module accepts it":                    {"team1.blue", []builder.Option{using}, "", ""},
		"the name that an adopted one has":           {"team1.blue", []builder.Option{using, named("team1.blue")}, "", ""},
		"another name than the one of what was made": {"team1.blue", []builder.Option{using, named("blue")}, field.ErrorTypeForbidden, "was created with the name team1.blue"},
	} {
		t.Run(title, func(t *testing.T) {
			cluster := builder.Cluster(row.cluster)
			cluster.Spec.ControlPlaneRef.Name = "demo"
			object := builder.CAPTControlPlane("demo", row.options...)
			got, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(cluster, object, complete("eks"), module), object)
			assert.NoError(t, err)
			var found []*field.Error
			for _, e := range got.Errors {
				if e.Field == "spec.eksClusterName" {
					found = append(found, e)
				}
			}
			if row.refused == "" {
				assert.Empty(t, found)
				return
			}
			assertRefused(t, found, finding{"spec.eksClusterName", row.kind, row.refused})
		})
	}
}

func TestNoVPCIsAdmittedForANameThatEKSRefuses(t *testing.T) {
	cluster := builder.Cluster("team1.blue")
	cluster.Spec.InfrastructureRef.Name = "demo"
	cluster.Spec.ControlPlaneRef.Name = "demo"
	captCluster := builder.CAPTCluster("demo")
	check := func(others ...validation.Owner) (validation.Findings, error) {
		return validation.ValidateCAPTCluster(t.Context(), newFakeReader(append(others, cluster, captCluster, complete("vpc"), complete("eks"))...), captCluster)
	}
	expect(t, nil, `metadata.name: EKS does not accept "team1.blue", the name of the Cluster`)(check())
	expect(t, []finding{{"metadata.name", field.ErrorTypeRequired, "Set spec.eksClusterName of CAPTControlPlane demo"}})(check(builder.CAPTControlPlane("demo")))
	expect(t, nil)(check(builder.CAPTControlPlane("demo", named("team1-blue"))))
	captCluster.Finalizers = []string{"moved/or-restored"}
	expect(t, nil)(check(builder.CAPTControlPlane("demo")))
}

func TestWhichControlPlaneHasAnEKSCluster(t *testing.T) {
	old, young := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	create := func(namespace string, at time.Time, options ...builder.Option) *validation.EKSClaim {
		c := builder.CAPTControlPlane("demo", append([]builder.Option{builder.WithNamespace(namespace), builder.WithRegion("eu-west-1")}, options...)...)
		c.CreationTimestamp = metav1.Time{}
		if !at.IsZero() {
			c.CreationTimestamp = metav1.NewTime(at)
		}
		return &validation.EKSClaim{ControlPlane: c, Cluster: "demo", Template: builder.WorkspaceTemplate("eks")}
	}
	with := func(c *validation.EKSClaim, change func(*validation.EKSClaim)) *validation.EKSClaim {
		change(c)
		return c
	}
	inAccount := func(change func(*infrav1.WorkspaceTemplateSpec)) func(*validation.EKSClaim) {
		return func(c *validation.EKSClaim) { change(&c.Template.Spec) }
	}
	config := func(kind, name string) func(*validation.EKSClaim) {
		return inAccount(func(s *infrav1.WorkspaceTemplateSpec) {
			s.Template.Spec.ProviderConfigRef = &terraform.ProviderConfigReference{Kind: kind, Name: name}
		})
	}
	exists := func(c *validation.EKSClaim) {
		c.Apply = builder.WorkspaceTemplateApply("x", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "x"}
		}))
	}
	for title, row := range map[string]struct {
		own, other *validation.EKSClaim
		conflict   bool
	}{
		"the older one precedes":   {create("b", young), create("a", old), true},
		"and not the younger":      {create("b", old), create("a", young), false},
		"one that exists precedes": {create("b", old), with(create("a", young), exists), true},
		"what users write proves nothing": {create("b", old), with(create("a", young), func(c *validation.EKSClaim) {
			c.Apply, c.ControlPlane.Spec.ControlPlaneEndpoint.Host = builder.WorkspaceTemplateApply("x"), "eks.example.com"
		}), false},
		"an existing one is never blocked":   {with(create("b", young), exists), with(create("a", old), exists), false},
		"a new one has no time":              {create("b", time.Time{}), create("a", young), true},
		"of two new ones, the first by name": {create("b", time.Time{}), create("a", time.Time{}), true},
		"itself":                             {create("b", young), create("b", young), false},
		"another name":                       {create("b", young, named("mine")), create("a", old), false},
		"another region":                     {create("b", young, builder.WithRegion("eu-west-2")), create("a", old), false},
		"another ProviderConfig":             {with(create("b", young), config("", "other")), create("a", old), false},
		"ProviderConfigs of two namespaces":  {with(create("b", young), config("ProviderConfig", "aws")), with(create("a", old), config("ProviderConfig", "aws")), false},
		"one of all namespaces":              {with(create("b", young), config("ClusterProviderConfig", "aws")), create("a", old), true},
		"a template that is not known":       {with(create("b", young), func(c *validation.EKSClaim) { c.Template = nil }), create("a", old), false},
		"an adopted one of that name": {create("b", young), with(create("a", old), func(c *validation.EKSClaim) {
			c.Cluster, c.Apply = "x", builder.WorkspaceTemplateApply("x", builder.WithVariables(map[string]string{"cluster_name": "demo", "region": "eu-west-1"}))
		}), true},
	} {
		t.Run(title, func(t *testing.T) {
			conflict := row.own.Conflict([]validation.EKSClaim{*row.other})
			if !row.conflict {
				assert.NoError(t, conflict)
				return
			}
			assert.ErrorContains(t, conflict, "EKS cluster demo in region eu-west-1 with ProviderConfig aws is that of a CAPTControlPlane of another namespace, and AWS has only one of a name. "+
				"Set spec.eksClusterName of CAPTControlPlane demo to another name, or wait until the other is deleted")
		})
	}
}
