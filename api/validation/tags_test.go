// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/test/builder"
)

func TestTags(t *testing.T) {
	for title, row := range map[string]struct {
		key, value string
		refused    []finding
	}{
		"plain":                        {"Environment", "dev", nil},
		"every symbol":                 {"k8s.io/a+b-c=d._:/@e", "+-=._:/@ 1", nil},
		"empty value":                  {"team", "", nil},
		"any script":                   {"部署 環境", "тест ٣ é", nil},
		"a semicolon in the value":     {"team", "a;b", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, "the value has the character ';'. AWS allows letters, digits, spaces and + - = . _ : / @"}}},
		"a star in the key":            {"te*m", "a", []finding{{"spec.additionalTags[te*m]", field.ErrorTypeInvalid, "the key has the character '*'"}}},
		"a line break":                 {"team", "a\nb", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, `the value has the character '\n'`}}},
		"an emoji":                     {"team", "a🙂", []finding{{"spec.additionalTags[team]", field.ErrorTypeInvalid, "the value has the character '🙂'"}}},
		"both":                         {"a#", "#", []finding{{"spec.additionalTags[a#]", field.ErrorTypeInvalid, "the key has the character '#'"}, {"spec.additionalTags[a#]", field.ErrorTypeInvalid, "the value has the character '#'"}}},
		"AWS' own, in capitals":        {"AWS:x", "a", []finding{{"spec.additionalTags[AWS:x]", field.ErrorTypeInvalid, "reserved by AWS"}}},
		"AWS' own, in mixed case":      {"aWs:x", "a", []finding{{"spec.additionalTags[aWs:x]", field.ErrorTypeInvalid, "reserved by AWS"}}},
		"AWS' own, as the schema says": {"aws:x", "a", nil},
		"only like AWS' own":           {"awsx:y", "aws:x", nil},
	} {
		t.Run(title, func(t *testing.T) {
			object := builder.CAPTControlPlane("demo", plane(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{row.key: controlplanev1.TagValue(row.value)}
			}))
			got, err := owners.CAPTControlPlane(t.Context(), newWorld(object, complete("eks")), object)
			require.NoError(t, err)
			assertRefused(t, got.Errors, row.refused...)
		})
	}
}

// The errors become the message of a condition. In another order they would be another message, and a status write.
func TestTagsAreRefusedInTheSameOrderEveryTime(t *testing.T) {
	object := builder.CAPTControlPlane("demo", plane(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"b#": "#", "a#": "#", "AWS:c#": "#"}
	}))
	var want string
	for range 100 {
		got, err := owners.CAPTControlPlane(t.Context(), newWorld(object, complete("eks")), object)
		require.NoError(t, err)
		message := got.Errors.ToAggregate().Error()
		if want == "" {
			want = message
		}
		require.Equal(t, want, message)
	}
	require.Equal(t, 7, strings.Count(want, "spec.additionalTags"))
}
