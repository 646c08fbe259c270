// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestTextsAreEncodedAsTheEncoderDoes(t *testing.T) {
	for _, text := range []string{"", "a", "eu-central-1", `a"b`, `a\b`, "a\nb", "größer", "<&>", "\u2028", "\x7f", "\xff", `[{"name":"x"}]`, "null", "1"} {
		want, err := json.Marshal(text)
		assert.NoError(t, err)
		assert.Equal(t, string(want), string(TextValue(text).Raw))
		var back string
		assert.NoError(t, json.Unmarshal(want, &back))
		assert.Equal(t, back, Variables{"a": TextValue(text)}.Text("a"))
	}
	for raw, want := range map[string]string{`true`: "true", `1.5`: "1.5", `["a"]`: `["a"]`, `"a\u0062"`: "ab", ``: "", `"`: `"`, `""`: ""} {
		assert.Equal(t, want, Variables{"a": apiextensionsv1.JSON{Raw: []byte(raw)}}.Text("a"), raw)
	}
}
