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

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/validation"
)

func TestVersionsInAllForms(t *testing.T) {
	for text, want := range map[string]validation.KubernetesVersion{
		"1.31":          {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31":         {Semantic: "v1.31.0", EKS: "1.31"},
		"1.31.0":        {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.0":       {Semantic: "v1.31.0", EKS: "1.31"},
		"v1.31.4":       {Semantic: "v1.31.4", EKS: "1.31"},
		"v1.9.0":        {Semantic: "v1.9.0", EKS: "1.9"},
		"v1.31.2-eks-1": {Semantic: "v1.31.2", EKS: "1.31"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := validation.ParseKubernetesVersion(text)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestWhatIsNoVersion(t *testing.T) {
	for _, text := range []string{"", "v", "1", "v1", "latest", "1.x", "1.31.x", "-1.31", "vv1.31", "1..31"} {
		t.Run(text, func(t *testing.T) {
			_, err := validation.ParseKubernetesVersion(text)
			require.ErrorContains(t, err, "is not a Kubernetes version; write for example v1.31.0")
		})
	}
}
