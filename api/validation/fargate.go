// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation/modules"
)

// defaultProfileQuota is the default quota of EKS for Fargate profiles per cluster. See "Service quotas" in the user guide of Amazon EKS.
const defaultProfileQuota = 10

// wildcards replaces the wildcards that EKS allows in selectors: * for any number of characters, ? for one. See "Fargate profile
// components" in the user guide of Amazon EKS. With a letter in their place, the rules of Kubernetes for names and labels apply.
var wildcards = strings.NewReplacer("*", "x", "?", "x")

// FargateVariables lists the variables that CAPT sets for the template of a Fargate profile. Users cannot set variables of a profile.
func FargateVariables() []string {
	return []string{
		naming.ClusterVariable, naming.ProfileVariable, naming.RegionVariable, naming.SelectorsVariable, naming.TagsVariable,
		naming.VPCConnectionVariable, naming.EKSConnectionVariable,
	}
}

// validateFargateProfiles checks the profiles of a control plane, or of a template for control planes.
func validateFargateProfiles(ctx context.Context, of templates, profiles []controlplanev1.FargateProfile, path *field.Path) (findings Findings, err error) {
	if len(profiles) > defaultProfileQuota {
		findings.Warn(path, "the default quota of EKS is %d Fargate profiles per cluster. Without a higher quota, Terraform fails", defaultProfileQuota)
	}
	for i := range profiles {
		profile, path := &profiles[i], path.Index(i)
		template, found, err := of.lookUp(ctx, profile.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
		if template != nil {
			findings.Add(of.relaxed(checkProfileTemplate(template, profile.Name, path.Child("workspaceTemplateRef"))))
			_, others := FieldsWithoutEffect(template, FargateFields(path))
			findings.AddWarnings(others)
		}
		// EKS accepts such a name, so it is not an error. Pods can select a profile by the label eks.amazonaws.com/fargate-profile.
		if len(content.IsLabelValue(profile.Name)) > 0 {
			findings.Warn(path.Child("name"), "is not a valid label value, so pods cannot select the profile by name. Use at most 63 characters, beginning and ending with a letter or digit")
		}
		for j := range profile.Selectors {
			findings.Refuse(validateSelector(&profile.Selectors[j], path.Child("selectors").Index(j))...)
		}
		findings.Add(warnOfDuplicateSelectors(profiles, i, path.Child("selectors")))
	}
	return findings, nil
}

// checkProfileTemplate checks that the placeholders in the template of a Fargate profile have a value: without one, the Workspace cannot be rendered with
// substitution Fields. Values that are not allowed at their position are warnings, because the template can be corrected later.
func checkProfileTemplate(template *infrav1.WorkspaceTemplate, profile string, path *field.Path) Findings {
	var findings Findings
	given := FargateVariables()
	_, needed := modules.Placeholders(&template.Spec)
	for _, name := range sets.List(needed.Delete(append(given, modules.WorkspaceNameVariable)...)) {
		findings.Refuse(field.Required(path, fmt.Sprintf("placeholder ${%[3]s} of WorkspaceTemplate %[1]s/%[2]s has no value and is not replaced: templates of Fargate profiles only get %[4]s. Write the value into the template",
			template.Namespace, template.Name, name, strings.Join(given, ", "))))
	}
	if template.Spec.Substitution != infrav1.SubstitutionFields {
		findings.DowngradeToWarnings()
	}
	for _, name := range modules.TemplateInterface(&template.Spec).Pass(nil).Missing {
		if !slices.Contains(given, name) {
			findings.Refuse(field.Required(path, fmt.Sprintf("the module of WorkspaceTemplate %[1]s/%[2]s requires variable %[3]s: templates of Fargate profiles only get %[4]s. Write the value into the template",
				template.Namespace, template.Name, name, strings.Join(given, ", "))))
		}
	}
	values := map[string]string{naming.ProfileVariable: profile, naming.SelectorsVariable: "[{}]", naming.TagsVariable: "{}"}
	for _, e := range validateVariableValues(template, values, path.Key).Errors {
		findings.Warn(path, "WorkspaceTemplate %s/%s: %s", template.Namespace, template.Name, e.Detail)
	}
	return findings
}

// warnOfDuplicateSelectors warns of selectors of a profile that are duplicates of a selector of the same or an earlier profile. Other
// overlaps, through wildcards, may be intended.
func warnOfDuplicateSelectors(profiles []controlplanev1.FargateProfile, index int, path *field.Path) Findings {
	var findings Findings
	own := profiles[index].Selectors
	for j := range own {
		same := func(other controlplanev1.FargateSelector) bool { return equality.Semantic.DeepEqual(other, own[j]) }
		if slices.ContainsFunc(own[:j], same) {
			findings.Warn(path.Index(j), "duplicates another selector of the profile. Remove it")
			continue
		}
		before := slices.IndexFunc(profiles[:index], func(profile controlplanev1.FargateProfile) bool { return slices.ContainsFunc(profile.Selectors, same) })
		if before >= 0 {
			findings.Warn(path.Index(j), "Fargate profile %s has the same selector. EKS chooses one of the two, unless the pod has the label eks.amazonaws.com/fargate-profile", profiles[before].Name)
		}
	}
	return findings
}

// validateSelector checks that a selector can match pods: its namespace and labels are valid.
func validateSelector(selector *controlplanev1.FargateSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(path *field.Path, messages []string) {
		for _, message := range messages {
			errs = append(errs, Invalid(path, "cannot match any pod: %s. The wildcards * and ? are allowed", message))
		}
	}
	refuse(path.Child("namespace"), content.IsDNS1123Label(wildcards.Replace(selector.Namespace)))
	for _, key := range slices.Sorted(maps.Keys(selector.Labels)) {
		refuse(path.Child("labels").Key(key), content.IsLabelKey(wildcards.Replace(key)))
		refuse(path.Child("labels").Key(key), content.IsLabelValue(wildcards.Replace(selector.Labels[key])))
	}
	return errs
}
