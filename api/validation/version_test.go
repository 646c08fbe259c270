// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/test/builder"
)

func TestVersionsInAllForms(t *testing.T) {
	for text, want := range map[string]versions.KubernetesVersion{
		"1.31":          {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31":         {Semantic: "v1.31.0", EKS: "1.31"},
		"1.31.0":        {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.0":       {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.4":       {Semantic: "v1.31.4", EKS: "1.31"},
		"v1.9.0":        {Semantic: "v1.9.0", EKS: "1.9"},
		"v1.31.2-eks-1": {Semantic: "v1.31.2-eks-1", EKS: "1.31"},
		"1.31+eks.1":    {Semantic: "v1.31.0+eks.1", EKS: "1.31"},
		"v1.31.2-eks_1": {Semantic: "v1.31.2", EKS: "1.31"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := versions.ParseKubernetesVersion(text)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestTextThatIsNotAVersion(t *testing.T) {
	for _, text := range []string{"", "v", "1", "v1", "latest", "1.x", "1.31.x", "-1.31", "vv1.31", "1..31"} {
		t.Run(text, func(t *testing.T) {
			_, err := versions.ParseKubernetesVersion(text)
			require.ErrorContains(t, err, "is not a Kubernetes version. Use for example v1.31.0")
		})
	}
}

// What can be gone to from what runs and what Terraform was given: each text says what is refused, and why.
func TestStepsOfTheVersion(t *testing.T) {
	const (
		applying = " is pending or in progress. Wait until it has completed or failed"
		upwards  = "EKS upgrades one minor version at a time. "
	)
	pending, failed := versions.Versions{Running: "v1.31.0", Given: "1.32"}, versions.Versions{Running: "1.31", Given: "1.32", Failed: true}
	for title, row := range map[string]struct {
		from    versions.Versions
		allowed []string
		refused map[string]string
	}{
		"nothing was given": {from: versions.Versions{}, allowed: []string{"1.20", "1.53", "2.0"}},
		"what was given runs": {from: versions.Versions{Running: "1.31", Given: "1.31"}, allowed: []string{"1.31", "v1.31.7", "1.32", "v1.32.0"},
			refused: map[string]string{
				"1.30": "the cluster runs 1.31 and EKS cannot downgrade it to 1.30",
				"1.33": "the cluster runs 1.31 and " + upwards + "Upgrade to 1.32 first",
				"2.32": "the cluster runs 1.31 and " + upwards + "Upgrade to 1.32 first",
				"0.31": "the cluster runs 1.31 and EKS cannot downgrade it to 0.31",
			}},
		"an upgrade is pending": {from: pending, allowed: []string{"1.32"}, refused: map[string]string{
			"1.30": "the cluster runs 1.31 and EKS cannot downgrade it to 1.30",
			"1.31": "the change to 1.32" + applying,
			"1.33": "the cluster runs 1.31 and " + upwards + "Wait until the upgrade to 1.32 is complete",
		}},
		"an upgrade has failed": {from: failed, allowed: []string{"1.31", "1.32"}, refused: map[string]string{
			"1.30": "the cluster runs 1.31 and EKS cannot downgrade it to 1.30",
			"1.33": "the cluster runs 1.31 and " + upwards + "Wait until the upgrade to 1.32 is complete",
		}},
		"two versions at once have failed": {from: versions.Versions{Running: "1.31", Given: "1.33", Failed: true}, allowed: []string{"1.31", "1.32"},
			refused: map[string]string{"1.33": "the cluster runs 1.31"}},
		"it is not known what runs": {from: versions.Versions{Given: "1.31"}, allowed: []string{"1.31", "1.32"}, refused: map[string]string{
			"1.30": "the change to 1.31" + applying,
			"1.33": "the cluster is being created with 1.31 and " + upwards + "Upgrade to 1.32 first",
		}},
		"it is not known, and it has failed": {from: versions.Versions{Given: "1.31", Failed: true}, allowed: []string{"1.31", "1.32"}, refused: map[string]string{
			"1.30": "the upgrade to 1.31 failed and the running version is unknown. EKS cannot downgrade it to 1.30",
		}},
		"AWS has upgraded by itself": {from: versions.Versions{Running: "1.32", Given: "1.31"}, allowed: []string{"1.32", "1.33"}, refused: map[string]string{
			"1.31": "the cluster runs 1.32 and EKS cannot downgrade it to 1.31", "1.34": "the cluster runs 1.32 and " + upwards + "Upgrade to 1.33 first"}},
		"only what runs is known":            {from: versions.Versions{Running: "1.31"}, allowed: []string{"1.31", "1.32"}, refused: map[string]string{"1.30": "the cluster runs 1.31", "1.33": "Upgrade to 1.32 first"}},
		"not a version":                      {from: versions.Versions{Given: "${version}"}, allowed: []string{"1.30"}},
		"to something that is not a version": {from: pending, allowed: []string{"latest"}},
	} {
		t.Run(title, func(t *testing.T) {
			for _, to := range row.allowed {
				assert.NoError(t, versions.KubernetesVersionStep(row.from, to), to)
			}
			for to, text := range row.refused {
				assert.ErrorContains(t, versions.KubernetesVersionStep(row.from, to), text, to)
			}
		})
	}
}

func TestWhereAStepBegins(t *testing.T) {
	given := builder.WithVariables(map[string]string{"kubernetes_version": "1.32"})
	before := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.LastAppliedRevision = "0123456789ab" })
	outputs := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Outputs = map[string]string{"cluster_version": "1.32"}
	})
	unseen := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Generation++ })
	for title, row := range map[string]struct {
		status string
		apply  []builder.Option // Nil for none.
		want   versions.Versions
	}{
		"no WorkspaceTemplateApply":              {"v1.31.0", nil, versions.Versions{}},
		"nothing is reported yet":                {"", []builder.Option{given}, versions.Versions{Given: "1.32"}},
		"applied":                                {"v1.31.0", []builder.Option{given, builder.UpToDate(nil)}, versions.Versions{Running: "1.32", Given: "1.32"}},
		"applied, and Terraform reports another": {"v1.31.0", []builder.Option{given, builder.UpToDate(map[string]string{"cluster_version": "1.33"})}, versions.Versions{Running: "1.33", Given: "1.32"}},
		"not seen yet":                           {"v1.31.0", []builder.Option{given, builder.UpToDate(nil), unseen}, versions.Versions{Running: "v1.31.0", Given: "1.32"}},
		"at work":                                {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("Provisioning", "")}, versions.Versions{Running: "v1.31.0", Given: "1.32"}},
		"at work, with an output of half of it":  {"v1.31.0", []builder.Option{given, before, outputs, builder.NotUpToDate("Provisioning", "")}, versions.Versions{Running: "v1.31.0", Given: "1.32"}},
		"a version of before this one":           {"v1.31.0", []builder.Option{given, builder.NotUpToDate("Provisioning", "")}, versions.Versions{Given: "1.32"}},
		"failed to apply":                        {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("ApplyFailed", "")}, versions.Versions{Running: "v1.31.0", Given: "1.32", Failed: true}},
		"failed to plan":                         {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("PlanFailed", "")}, versions.Versions{Running: "v1.31.0", Given: "1.32", Failed: true}},
		"what failed was before":                 {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("ApplyFailed", ""), unseen}, versions.Versions{Running: "v1.31.0", Given: "1.32"}},
		"failed for the first time":              {"", []builder.Option{given, builder.NotUpToDate("ApplyFailed", "")}, versions.Versions{}},
		"failed after something was built":       {"", []builder.Option{given, outputs, builder.NotUpToDate("ApplyFailed", "")}, versions.Versions{Given: "1.32", Failed: true}},
	} {
		t.Run(title, func(t *testing.T) {
			controlPlane := builder.CAPTControlPlane("demo")
			controlPlane.Status.Version = row.status
			var apply *infrav1.WorkspaceTemplateApply
			if row.apply != nil {
				apply = builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", row.apply...)
			}
			assert.Equal(t, row.want, versions.VersionsOf(controlPlane, apply))
		})
	}
}
