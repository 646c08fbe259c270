// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestSettingsOfAddons(t *testing.T) {
	const path = "spec.addons[1].configurationValues"
	for title, r := range map[string]struct{ document, refused string }{
		"none":                  {"", ""},
		"JSON":                  {`{"replicaCount": 2, "tolerations": [{"key": "a"}]}`, ""},
		"YAML":                  {"replicaCount: 2\ntolerations:\n- key: a\n", ""},
		"an empty object":       {"{}", ""},
		"JSON that is cut":      {`{"password": "hunter2", `, "is neither JSON nor YAML"},
		"YAML with a bad line":  {"a: b\npassword: hunter2: x\n", "is neither JSON nor YAML (line 2)"},
		"an alias of nothing":   {"a: *hunter2", "is neither JSON nor YAML"},
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

// aliases is a document that is small, and would take all memory when its aliases were followed.
func aliases() string {
	var text strings.Builder
	for c := 'b'; c < 'k'; c++ {
		before := "*" + string(c-1)
		text.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat(before+",", 9) + before + "]\n")
	}
	return text.String()
}
