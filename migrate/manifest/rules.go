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

package manifest

import (
	"slices"
	"strings"
)

// rules say how the fields of one kind are called in either version. What is not mentioned has the same name in both.
type rules struct {
	// renamed leads from fields of v1beta2 to those of v1beta1. Fields within a field that is mentioned go with it.
	renamed map[string]string
	// required are fields of v1beta1 that every whole object has, requiredToday those of v1beta2. Of fields separated by a bar,
	// one is enough. A document without them is a part of an object.
	required, requiredToday []string
	// defaults are those of v1beta2's CRD. Conversion writes them; a manifest need not.
	defaults map[string]any
	// free are texts that may hold anything, also two braces: they are not of the manifest's own language.
	free []string
}

const (
	applyRef, applyName = "workspaceTemplateApplyRef.name", "workspaceTemplateApplyName"
	module              = "spec.template.spec.forProvider.module"
)

var kinds = map[string]rules{
	"CAPTCluster": {
		renamed: map[string]string{
			"spec.vpc.existingID":              "spec.existingVpcId",
			"spec.vpc.template.ref":            "spec.vpcTemplateRef",
			"spec.vpc.template.name":           "spec.vpcConfig.name",
			"spec.vpc.template.deletionPolicy": "spec.retainVpcOnDelete",
			"spec." + applyRef:                 "spec." + applyName,
		},
		required:      []string{"spec.region", "spec.vpcTemplateRef|spec.existingVpcId"},
		requiredToday: []string{"spec.region", "spec.vpc"},
		defaults:      map[string]any{"spec.vpc.template.deletionPolicy": "Delete"},
	},
	"CAPTControlPlane": {
		renamed:       controlPlaneFields("spec."),
		required:      []string{"spec.version", "spec.workspaceTemplateRef.name"},
		requiredToday: []string{"spec.version", "spec.workspaceTemplateRef.name"},
		defaults:      controlPlaneDefaults("spec."),
	},
	template: {
		renamed:       controlPlaneFields("spec.template.spec."),
		required:      []string{"spec.template.spec.workspaceTemplateRef.name"},
		requiredToday: []string{"spec.template.spec.workspaceTemplateRef.name"},
		defaults:      controlPlaneDefaults("spec.template.spec."),
	},
	"CAPTClusterTemplate": {requiredToday: []string{"spec.template.spec"}},
	"WorkspaceTemplate": {
		required:      []string{"spec.template.spec.forProvider.source", module},
		requiredToday: []string{"spec.template.spec.forProvider.source", module},
		free:          []string{module},
	},
	"WorkspaceTemplateApply": {
		renamed:       map[string]string{"spec.deletionPolicy": "spec.retainWorkspaceOnDelete"},
		required:      []string{"spec.templateRef.name"},
		requiredToday: []string{"spec.templateRef.name"},
		defaults:      map[string]any{"spec.deletionPolicy": "Delete"},
	},
}

func controlPlaneFields(prefix string) map[string]string {
	fields := map[string]string{
		"region":                       "controlPlaneConfig.region",
		"endpointAccess":               "controlPlaneConfig.endpointAccess",
		"addons":                       "controlPlaneConfig.addons",
		"timeouts":                     "controlPlaneConfig.timeouts",
		"timeouts.controlPlaneSeconds": "controlPlaneConfig.timeouts.controlPlaneTimeout",
		"timeouts.vpcReadySeconds":     "controlPlaneConfig.timeouts.vpcReadyTimeout",
		"fargateProfiles":              "additionalFargateProfiles",
		applyRef:                       applyName,
	}
	prefixed := make(map[string]string, len(fields))
	for today, before := range fields {
		prefixed[prefix+today] = prefix + before
	}
	return prefixed
}

func controlPlaneDefaults(prefix string) map[string]any {
	return map[string]any{
		prefix + "endpointProbe":                "BestEffort",
		prefix + "endpointAccess.private":       false,
		prefix + "timeouts.controlPlaneSeconds": "1800",
		prefix + "timeouts.vpcReadySeconds":     "900",
		prefix + "timeouts.secretSeconds":       "300",
	}
}

// before is where a field of v1beta2 was in v1beta1.
func (r rules) before(path []string) []string {
	for n := len(path); n > 0; n-- {
		if name, found := r.renamed[strings.Join(path[:n], ".")]; found {
			return append(strings.Split(name, "."), path[n:]...)
		}
	}
	return path
}

// lacks names a required field that an object does not have.
func (r rules) lacks(object map[string]any, required []string) string {
	for _, choice := range required {
		has := slices.ContainsFunc(strings.Split(choice, "|"), func(path string) bool {
			value, found := lookUp(object, strings.Split(path, "."))
			return found && value != nil && value != ""
		})
		if !has {
			return strings.ReplaceAll(choice, "|", " or ")
		}
	}
	return ""
}

func lookUp(object map[string]any, path []string) (any, bool) {
	var value any = object
	for _, name := range path {
		table, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = table[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// hasDirectives tells whether an object is a strategic merge patch.
func hasDirectives(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if name == "$patch" || name == "$retainKeys" || strings.HasPrefix(name, "$deleteFromPrimitiveList/") ||
				strings.HasPrefix(name, "$setElementOrder/") || hasDirectives(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasDirectives)
	}
	return false
}

// braces are what programs such as Helm replace.
const braces = "{{"

// refuseTemplates refuses a document with two braces in it, which some program is to replace: nobody knows by what. Comments
// count, since Helm does not know that they are comments. The text of a module is left as it is in any case.
func (d *document) refuseTemplates(o object, rules rules) error {
	line, count := 0, 0
	for i := len(d.lines) - 1; i >= 0; i-- {
		if found := strings.Count(d.lines[i], braces); found > 0 {
			line, count = d.first+i, count+found
		}
	}
	for _, path := range rules.free {
		_, node := at(o.node, strings.Split(path, ".")...)
		count -= strings.Count(text(node), braces)
	}
	if count > 0 {
		return notUnderstood(line, "this is a template of Helm or another program (%s): rewrite it by hand", braces)
	}
	return nil
}
