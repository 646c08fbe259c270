// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheBackendOfAModule(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"terraform {\n}": "",
		"terraform {\n  required_version = \"1\"\n  backend \"s3\" {\n  }\n}\nresource \"a\" \"b\" {}\n": "s3",
		"terraform {\n  cloud {\n  }\n}":                            "cloud",
		`{"terraform": [{"backend": {"kubernetes": {"a": true}}}]}`: "kubernetes",
		`{"locals": {}}`: "",
	} {
		name := "main.tf"
		if text != "" && text[0] == '{' {
			name += ".json"
		}
		backend, err := BackendOf(name, []byte(text))
		require.NoError(t, err, text)
		if want == "" {
			assert.Nil(t, backend, text)
			continue
		}
		assert.Equal(t, want, backend.Type, text)
	}
	for _, name := range []string{"main.tf", "main.tf.json"} {
		_, err := BackendOf(name, []byte("a"))
		assert.ErrorContains(t, err, name+":1,1-2: ")
	}
	backend, err := BackendOf("main.tf", []byte("terraform {\n  backend \"kubernetes\" {\n    in_cluster_config = true\n    a = \"b\"\n    c = var.c\n    d = [1]\n    labels {}\n  }\n}\n"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"in_cluster_config": "true", "a": "b"}, backend.Arguments(""))
	assert.Equal(t, map[string]string{"in_cluster_config": "false", "a": "b", "e": "f"}, backend.Arguments("in_cluster_config = false\ne = \"f\"\n"))
}
