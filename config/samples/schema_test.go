// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	providercrd "github.com/capt-provider/capt/test/provider/config/crd"
)

// TestSamplesPassTheirSchemas checks samples as the API server does. The schemas of Cluster and ClusterClass are Cluster API's own.
func TestSamplesPassTheirSchemas(t *testing.T) {
	schemas, err := schema.New(crd.Definitions, providercrd.FS)
	require.NoError(t, err)
	for _, samples := range load(t) {
		for _, s := range samples {
			data, err := json.Marshal(s.raw)
			require.NoError(t, err)
			sample := &unstructured.Unstructured{}
			require.NoError(t, sample.UnmarshalJSON(data))
			if sample.GroupVersionKind().Group == clusterv1.GroupVersion.Group {
				continue
			}
			t.Run(s.file+"/"+sample.GetName(), func(t *testing.T) {
				definition, err := schemas.Of(sample.GroupVersionKind())
				require.NoError(t, err)
				require.Empty(t, definition.Validate(t.Context(), sample))
			})
		}
	}
}
