// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func fargate(selectors ...controlplanev1.FargateSelector) builder.Option {
	return plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{
			{Name: "fp", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}, Selectors: selectors},
		}
	})
}

func selecting(namespace string, pairs ...string) controlplanev1.FargateSelector {
	selector := controlplanev1.FargateSelector{Namespace: namespace, Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		selector.Labels[pairs[i]] = pairs[i+1]
	}
	return selector
}

func TestSelectorsOfFargateProfiles(t *testing.T) {
	const labels = "spec.fargateProfiles[0].selectors[0].labels"
	invalid := func(path, text string) []finding { return []finding{{path, field.ErrorTypeInvalid, text}} }
	for title, row := range map[string]row{
		"a namespace":                     {object: []builder.Option{fargate(selecting("kube-system"))}},
		"any namespace":                   {object: []builder.Option{fargate(selecting("*"))}},
		"namespaces with a common prefix": {object: []builder.Option{fargate(selecting("team-?-*"))}},
		"labels":                          {object: []builder.Option{fargate(selecting("a", "app.kubernetes.io/name", "web-1", "empty", ""))}},
		"labels with wildcards":           {object: []builder.Option{fargate(selecting("a", "k*", "v?*"))}},
		"a namespace in capitals":         {object: []builder.Option{fargate(selecting("Team"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "cannot match any pod")},
		"a namespace that begins with -":  {object: []builder.Option{fargate(selecting("-*"))}, refused: invalid("spec.fargateProfiles[0].selectors[0].namespace", "The wildcards * and ? are allowed")},
		"a key with a space":              {object: []builder.Option{fargate(selecting("a", "a b", "c"))}, refused: invalid(labels+"[a b]", "name part")},
		"a value with a space":            {object: []builder.Option{fargate(selecting("a", "k", "b c"))}, refused: invalid(labels+"[k]", "cannot match any pod")},
		"a value that is too long":        {object: []builder.Option{fargate(selecting("a", "k", strings.Repeat("v", 64)))}, refused: invalid(labels+"[k]", "cannot match any pod")},
		"the second of them":              {object: []builder.Option{fargate(selecting("a"), selecting("B"))}, refused: invalid("spec.fargateProfiles[0].selectors[1].namespace", "cannot match any pod")},
		"a key with two slashes":          {object: []builder.Option{fargate(selecting("a", "x/y/z", "v"))}, refused: invalid(labels+"[x/y/z]", "cannot match any pod")},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

// profile returns a Fargate profile with a unique selector.
func profile(name string) controlplanev1.FargateProfile {
	return controlplanev1.FargateProfile{
		Name: name, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		Selectors: []controlplanev1.FargateSelector{selecting("a", "app", "x"), selecting("b-" + strings.ToLower(strings.Trim(name, "-_")[:1]))},
	}
}

func TestFargateProfiles(t *testing.T) {
	with := func(profiles ...controlplanev1.FargateProfile) []builder.Option {
		return []builder.Option{plane(func(c *controlplanev1.CAPTControlPlane) { c.Spec.FargateProfiles = profiles })}
	}
	selecting := func(profile controlplanev1.FargateProfile, selectors ...controlplanev1.FargateSelector) controlplanev1.FargateProfile {
		profile.Selectors = selectors
		return profile
	}
	ten := func() (profiles []controlplanev1.FargateProfile) {
		for i := range 10 {
			name := string(rune('a' + i))
			profiles = append(profiles, selecting(profile(name), controlplanev1.FargateSelector{Namespace: name}))
		}
		return profiles
	}
	of := func(ref infrav1.WorkspaceTemplateReference) controlplanev1.FargateProfile {
		other := selecting(profile("b"), controlplanev1.FargateSelector{Namespace: "b"})
		other.WorkspaceTemplateRef = ref
		return other
	}
	const nameless = "is not a valid label value, so pods cannot select the profile by name"
	for title, row := range map[string]row{
		"its template, with the namespace": {object: with(profile("a"), of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "default"}))},
		"its template does not exist yet": {object: with(profile("a"), of(infrav1.WorkspaceTemplateReference{Name: "later"})),
			warnings: []string{"spec.fargateProfiles[1].workspaceTemplateRef: WorkspaceTemplate later does not exist yet"}},
		"its template does not allow the namespace": {existing: []validation.Owner{complete("fargate", builder.WithNamespace("shared"))},
			object:   with(profile("a"), of(infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "shared"})),
			warnings: []string{"spec.fargateProfiles[1].workspaceTemplateRef: WorkspaceTemplate shared/fargate does not exist, or does not allow namespace default"}},
		"as many as EKS allows": {object: with(ten()...)},
		"one more": {object: with(append(ten(), selecting(profile("z"), controlplanev1.FargateSelector{Namespace: "z"}))...),
			warnings: []string{"spec.fargateProfiles: the default quota of EKS is 10 Fargate profiles per cluster"}},
		"a name in capitals":            {object: with(profile("Batch_1-a"))},
		"a name that begins with -":     {object: with(profile("-a")), warnings: []string{"spec.fargateProfiles[0].name: " + nameless}},
		"a name that ends with _":       {object: with(profile("a_")), warnings: []string{nameless}},
		"a name that labels just allow": {object: with(profile(strings.Repeat("n", 63)))},
		"a name that labels do not":     {object: with(profile(strings.Repeat("n", 64))), warnings: []string{nameless}},
		"the same selector twice": {object: with(selecting(profile("a"), profile("a").Selectors[0], profile("b").Selectors[1], profile("a").Selectors[0])),
			warnings: []string{"spec.fargateProfiles[0].selectors[2]: duplicates another selector of the profile. Remove it"}},
		"the same selector, without labels": {object: with(selecting(profile("a"), controlplanev1.FargateSelector{Namespace: "a"}, controlplanev1.FargateSelector{Namespace: "a", Labels: map[string]string{}})),
			warnings: []string{"spec.fargateProfiles[0].selectors[1]: duplicates another selector of the profile"}},
		"selectors of one namespace": {object: with(selecting(profile("a"), profile("a").Selectors[0], controlplanev1.FargateSelector{Namespace: "a"}))},
		"two profiles of the same selector": {object: with(profile("a"), profile("b")),
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile a has the same selector. EKS chooses"}},
		"three": {object: with(profile("a"), profile("b"), profile("a1")),
			warnings: []string{"spec.fargateProfiles[1].selectors[0]: Fargate profile a ", "spec.fargateProfiles[2].selectors[0]: Fargate profile a ", "spec.fargateProfiles[2].selectors[1]: Fargate profile a "}},
	} {
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestVariablesOfFargateTemplates(t *testing.T) {
	vars := func(pairs ...string) builder.Option {
		return builder.WithParameters(func(params *terraform.WorkspaceParameters) {
			for i := 0; i < len(pairs); i += 2 {
				params.Vars = append(params.Vars, terraform.Var{Key: pairs[i], Value: pairs[i+1]})
			}
		})
	}
	var all []string
	for _, name := range validation.FargateVariables() {
		all = append(all, name, "${"+name+"}")
	}
	files := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.VarFiles = []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: &terraform.KeyReference{Name: "${vpc_connection_secret}", Key: "vpc_config"}}}
	})
	const path = "spec.fargateProfiles[0].workspaceTemplateRef: "
	for title, row := range map[string]struct {
		template []builder.Option
		warnings []string
	}{
		"all that CAPT gives":        {[]builder.Option{vars(all...)}, nil},
		"no variables":               {[]builder.Option{builder.WithModule("")}, nil},
		"a Secret that CAPT names":   {[]builder.Option{files}, nil},
		"variable of control planes": {[]builder.Option{vars("version", "${kubernetes_version}")}, []string{path + "placeholder ${kubernetes_version} of WorkspaceTemplate default/fargate has no value and is not replaced: templates of Fargate profiles only get cluster_name, profile_name, region, selectors, tags, vpc_connection_secret, eks_connection_secret"}},
		"a tag by itself":            {[]builder.Option{vars("team", "${tags_team}")}, []string{"placeholder ${tags_team}"}},
		"a mistake":                  {[]builder.Option{vars("a", "${cluster_nam}", "b", "${regoin}")}, []string{"placeholder ${cluster_nam}", "placeholder ${regoin}"}},
		"a name within the module":   {[]builder.Option{builder.WithModule("output \"a\" { value = \"${profile_name} in ${region}\" }\n")}, nil},
		"a list within the module":   {[]builder.Option{builder.WithModule("locals { s = jsondecode(\"${selectors}\") }\n")}, []string{path + "WorkspaceTemplate default/fargate: the value of variable \"selectors\" has characters that could change the module. Declare a Terraform variable"}},
		"an object in the address": {[]builder.Option{builder.WithParameters(func(params *terraform.WorkspaceParameters) {
			params.Source, params.Module, params.Vars = terraform.SourceRemote, "git::https://example.com/${tags}", nil
		})}, []string{path + "WorkspaceTemplate default/fargate: the value of variable \"tags\""}},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", fargate(selecting("a")))
			expect(t, nil, row.warnings...)(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(complete("eks"), complete("fargate", row.template...), object), object))
		})
	}
}

func TestVersionsInAllForms(t *testing.T) {
	for text, want := range map[string]validation.KubernetesVersion{
		"1.31":          {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31":         {Semantic: "v1.31.0", EKS: "1.31"},
		"1.31.0":        {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.0":       {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.4":       {Semantic: "v1.31.4", EKS: "1.31"},
		"v1.9.0":        {Semantic: "v1.9.0", EKS: "1.9"},
		"v1.31.2-eks-1": {Semantic: "v1.31.2-eks-1", EKS: "1.31"},
		"1.31+eks.1":    {Semantic: "v1.31.0+eks.1", EKS: "1.31"},
		"v1.31.2-eks_1": {Semantic: "v1.31.2", EKS: "1.31"},
		// These are invalid.
		"": {}, "v": {}, "1": {}, "v1": {}, "latest": {}, "1.x": {}, "1.31.x": {}, "-1.31": {}, "vv1.31": {}, "1..31": {},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := validation.ParseKubernetesVersion(text)
			assert.Equal(t, want, got)
			if want.EKS == "" {
				require.ErrorContains(t, err, "is not a Kubernetes version. Use for example v1.31.0")
				return
			}
			require.NoError(t, err)
		})
	}
}

// Rows list the allowed versions for a running and a requested version; texts are the errors of others.
func TestValidateVersionChange(t *testing.T) {
	const (
		applying = " is pending or in progress. Wait until it has completed or failed"
		upwards  = "EKS upgrades one minor version at a time. "
	)
	pending, failed := validation.Versions{Running: "v1.31.0", Requested: "1.32"}, validation.Versions{Running: "1.31", Requested: "1.32", Failed: true}
	for title, row := range map[string]struct {
		from    validation.Versions
		allowed []string
		back    string // Back is allowed with a warning.
		refused map[string]string
	}{
		"no versions": {from: validation.Versions{}, allowed: []string{"1.20", "1.53", "2.0"}},
		"requested version runs": {from: validation.Versions{Running: "1.31", Requested: "1.31"}, allowed: []string{"1.31", "v1.31.7", "1.32", "v1.32.0"}, back: "1.30",
			refused: map[string]string{
				"1.29": "the cluster runs 1.31 and EKS rolls back by one minor version at most, not to 1.29",
				"1.33": "the cluster runs 1.31 and " + upwards + "Upgrade to 1.32 first",
				"2.32": "the cluster runs 1.31 and " + upwards + "Upgrade to 1.32 first",
				"0.31": "the cluster runs 1.31 and EKS rolls back",
			}},
		"an upgrade is pending": {from: pending, allowed: []string{"1.32"}, refused: map[string]string{
			"1.29": "the cluster runs 1.31 and EKS rolls back",
			"1.30": "the change to 1.32" + applying,
			"1.31": "the change to 1.32" + applying,
			"1.33": "the cluster runs 1.31 and " + upwards + "Wait until the upgrade to 1.32 is complete",
		}},
		"an upgrade has failed": {from: failed, allowed: []string{"1.31", "1.32"}, back: "1.30", refused: map[string]string{
			"1.29": "the cluster runs 1.31 and EKS rolls back",
			"1.33": "the cluster runs 1.31 and " + upwards + "Wait until the upgrade to 1.32 is complete",
		}},
		"two versions at once have failed": {from: validation.Versions{Running: "1.31", Requested: "1.33", Failed: true}, allowed: []string{"1.31", "1.32"}, back: "v1.30.0",
			refused: map[string]string{"1.33": "the cluster runs 1.31"}},
		"a rollback has failed": {from: validation.Versions{Running: "1.32", Requested: "1.31", Failed: true}, allowed: []string{"1.32", "1.33"}, back: "1.31"},
		"running version unknown": {from: validation.Versions{Requested: "1.31"}, allowed: []string{"1.31", "1.32"}, refused: map[string]string{
			"1.30": "the change to 1.31" + applying,
			"1.33": "the cluster is being created with 1.31 and " + upwards + "Upgrade to 1.32 first",
		}},
		"running version unknown, failed": {from: validation.Versions{Requested: "1.31", Failed: true}, allowed: []string{"1.31", "1.32"}, refused: map[string]string{
			"1.30": "the upgrade to 1.31 failed and the running version is unknown. EKS cannot downgrade it to 1.30",
		}},
		"AWS has upgraded by itself":         {from: validation.Versions{Running: "1.32", Requested: "1.31"}, allowed: []string{"1.32", "1.33"}, back: "1.31", refused: map[string]string{"1.34": "the cluster runs 1.32 and " + upwards + "Upgrade to 1.33 first"}},
		"only running version known":         {from: validation.Versions{Running: "1.31"}, allowed: []string{"1.31", "1.32"}, back: "1.30", refused: map[string]string{"1.33": "Upgrade to 1.32 first"}},
		"not a version":                      {from: validation.Versions{Requested: "${version}"}, allowed: []string{"1.30"}},
		"to something that is not a version": {from: pending, allowed: []string{"latest"}},
	} {
		t.Run(title, func(t *testing.T) {
			for _, to := range row.allowed {
				warning, err := validation.ValidateVersionChange(row.from, to)
				assert.NoError(t, err, to)
				assert.Empty(t, warning, to)
			}
			if row.back != "" {
				warning, err := validation.ValidateVersionChange(row.from, row.back)
				assert.NoError(t, err)
				assert.Contains(t, warning, "only within seven days")
			}
			for to, text := range row.refused {
				_, err := validation.ValidateVersionChange(row.from, to)
				assert.ErrorContains(t, err, text, to)
			}
		})
	}
}

func TestCurrentVersions(t *testing.T) {
	given := builder.WithVariables(map[string]string{"kubernetes_version": "1.32"})
	before := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.LastAppliedRevision = "0123456789ab" })
	outputs := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Outputs = map[string]string{"cluster_version": "1.32"}
	})
	unseen := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Generation++ })
	for title, row := range map[string]struct {
		status string
		apply  []builder.Option // Nil for no WorkspaceTemplateApply.
		want   validation.Versions
	}{
		"no WorkspaceTemplateApply":              {"v1.31.0", nil, validation.Versions{}},
		"nothing is reported yet":                {"", []builder.Option{given}, validation.Versions{Requested: "1.32"}},
		"applied":                                {"v1.31.0", []builder.Option{given, builder.UpToDate(nil)}, validation.Versions{Running: "1.32", Requested: "1.32"}},
		"applied, and Terraform reports another": {"v1.31.0", []builder.Option{given, builder.UpToDate(map[string]string{"cluster_version": "1.33"})}, validation.Versions{Running: "1.33", Requested: "1.32"}},
		"not seen yet":                           {"v1.31.0", []builder.Option{given, builder.UpToDate(nil), unseen}, validation.Versions{Running: "v1.31.0", Requested: "1.32"}},
		"at work":                                {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("Provisioning", "")}, validation.Versions{Running: "v1.31.0", Requested: "1.32"}},
		"at work, with an output of half of it":  {"v1.31.0", []builder.Option{given, before, outputs, builder.NotUpToDate("Provisioning", "")}, validation.Versions{Running: "v1.31.0", Requested: "1.32"}},
		"a version of before this one":           {"v1.31.0", []builder.Option{given, builder.NotUpToDate("Provisioning", "")}, validation.Versions{Requested: "1.32"}},
		"failed to apply":                        {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("ApplyFailed", "")}, validation.Versions{Running: "v1.31.0", Requested: "1.32", Failed: true}},
		"failed to plan":                         {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("PlanFailed", "")}, validation.Versions{Running: "v1.31.0", Requested: "1.32", Failed: true}},
		"earlier apply failed":                   {"v1.31.0", []builder.Option{given, before, builder.NotUpToDate("ApplyFailed", ""), unseen}, validation.Versions{Running: "v1.31.0", Requested: "1.32"}},
		"failed for the first time":              {"", []builder.Option{given, builder.NotUpToDate("ApplyFailed", "")}, validation.Versions{}},
		"failed after something was built":       {"", []builder.Option{given, outputs, builder.NotUpToDate("ApplyFailed", "")}, validation.Versions{Requested: "1.32", Failed: true}},
	} {
		t.Run(title, func(t *testing.T) {
			controlPlane := builder.CAPTControlPlane("demo")
			controlPlane.Status.Version = row.status
			var apply *infrav1.WorkspaceTemplateApply
			if row.apply != nil {
				apply = builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", row.apply...)
			}
			assert.Equal(t, row.want, validation.CurrentVersions(controlPlane, apply))
		})
	}
}

func TestConfigurationValuesOfAddons(t *testing.T) {
	const path = "spec.addons[1].configurationValues"
	for title, r := range map[string]struct{ document, refused string }{
		"none":                  {"", ""},
		"JSON":                  {`{"replicaCount": 2, "tolerations": [{"key": "a"}]}`, ""},
		"YAML":                  {"replicaCount: 2\ntolerations:\n- key: a\n", ""},
		"an empty object":       {"{}", ""},
		"JSON that is cut":      {`{"password": "hunter2", `, "is neither JSON nor YAML"},
		"YAML with a bad line":  {"a: b\npassword: hunter2: x\n", "is neither JSON nor YAML (line 2)"},
		"undefined alias":       {"a: *hunter2", "is neither JSON nor YAML"},
		"a list":                {`[1, 2]`, `must be a JSON or YAML object, for example {"replicaCount": 2}`},
		"a word":                {"hunter2", "must be a JSON or YAML object"},
		"nothing but a comment": {"# none\n", "must be a JSON or YAML object"},
		"a document of aliases": {"a: &a [x,x,x,x,x,x,x,x,x]\n" + aliases(), "is neither JSON nor YAML"},
	} {
		t.Run(title, func(t *testing.T) {
			test := row{object: []builder.Option{plane(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.Addons = []controlplanev1.Addon{{Name: "vpc-cni"}, {Name: "coredns", ConfigurationValues: r.document}}
			})}}
			if r.refused != "" {
				test.refused = []finding{{path, field.ErrorTypeInvalid, r.refused}}
			}
			test.controlPlane(t)
		})
	}
}

// aliases is a small document that would need all memory if its aliases were expanded.
func aliases() string {
	var text strings.Builder
	for c := 'b'; c < 'k'; c++ {
		before := "*" + string(c-1)
		text.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat(before+",", 9) + before + "]\n")
	}
	return text.String()
}

func TestTags(t *testing.T) {
	for title, row := range map[string]struct {
		key, value string
		refused    []finding
	}{
		"plain":                    {"Environment", "dev", nil},
		"every symbol":             {"k8s.io/a+b-c=d._:/@e", "+-=._:/@ 1", nil},
		"empty value":              {"team", "", nil},
		"any script":               {"部署 環境", "тест ٣ é", nil},
		"a semicolon in the value": {"team", "a;b", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, "the value has the character ';'. AWS allows letters, digits, spaces and + - = . _ : / @"}}},
		"a star in the key":        {"te*m", "a", []finding{{"spec.additionalTags[te*m]", field.ErrorTypeInvalid, "the key has the character '*'"}}},
		"a line break":             {"team", "a\nb", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, `the value has the character '\n'`}}},
		"an emoji":                 {"team", "a🙂", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, "the value has the character '🙂'"}}},
		"both":                     {"a#", "#", []finding{{"spec.additionalTags[a#]", field.ErrorTypeInvalid, "the key has the character '#'"}, {"spec.additionalTags[a#]", field.ErrorTypeInvalid, "the value has the character '#'"}}},
		"AWS' own, in capitals":    {"AWS:x", "a", []finding{{"spec.additionalTags[AWS:x]", field.ErrorTypeInvalid, "reserved by AWS"}}},
		"AWS' own, in mixed case":  {"aWs:x", "a", []finding{{"spec.additionalTags[aWs:x]", field.ErrorTypeInvalid, "reserved by AWS"}}},
		"reserved prefix, rejected by the schema": {"aws:x", "a", nil},
		"only like AWS' own":                      {"awsx:y", "aws:x", nil},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", plane(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{row.key: controlplanev1.TagValue(row.value)}
			}))
			expect(t, row.refused)(validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(object, complete("eks")), object))
		})
	}
}
