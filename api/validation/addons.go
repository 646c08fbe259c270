// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// lineNumber matches the line number in an error of the YAML parser. The rest of the error may quote the document, which may have secrets.
var lineNumber = regexp.MustCompile(`line [0-9]+`)

// validateAddons checks the configuration values of add-ons. The schema checks their names and their number.
func validateAddons(addons []controlplanev1.Addon, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range addons {
		text := addons[i].ConfigurationValues
		if text == "" {
			continue
		}
		path := path.Index(i).Child("configurationValues")
		var document any
		err := yaml.Unmarshal([]byte(text), &document)
		if err != nil {
			where := ""
			if line := lineNumber.FindString(err.Error()); line != "" {
				where = " (" + line + ")"
			}
			errs = append(errs, Invalid(path, "is neither JSON nor YAML%s. Write a JSON or YAML object, for example {\"replicaCount\": 2}", where))
			continue
		}
		if _, ok := document.(map[string]any); !ok {
			errs = append(errs, Invalid(path, "must be a JSON or YAML object, for example {\"replicaCount\": 2}"))
		}
	}
	return errs
}
