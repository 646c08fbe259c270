/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package validation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// wildcards are what EKS allows in selectors besides what names and labels consist of: * for any number of characters, ?
// for one. See "Fargate profile components" in the user guide of Amazon EKS. A letter in their place leaves a text to which
// the rules of Kubernetes apply.
var wildcards = strings.NewReplacer("*", "x", "?", "x")

// fargateProfiles checks the profiles of a control plane, or of a template for control planes.
func fargateProfiles(ctx context.Context, profiles []controlplanev1.FargateProfile, path *field.Path, look templateLookup) (Findings, error) {
	var findings Findings
	for i := range profiles {
		profile, path := &profiles[i], path.Index(i)
		_, found, err := look(ctx, profile.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
		for j := range profile.Selectors {
			findings.Refuse(selector(&profile.Selectors[j], path.Child("selectors").Index(j))...)
		}
	}
	return findings, nil
}

// selector checks that there can be pods that a selector matches.
func selector(selector *controlplanev1.FargateSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(path *field.Path, messages []string) {
		for _, message := range messages {
			errs = append(errs, invalid(path, "no pod can match this: %s; * and ? may stand for characters", message))
		}
	}
	refuse(path.Child("namespace"), content.IsDNS1123Label(wildcards.Replace(selector.Namespace)))
	for _, key := range slices.Sorted(maps.Keys(selector.Labels)) {
		refuse(path.Child("labels").Key(key), content.IsLabelKey(wildcards.Replace(key)))
		refuse(path.Child("labels").Key(key), content.IsLabelValue(wildcards.Replace(selector.Labels[key])))
	}
	return errs
}
