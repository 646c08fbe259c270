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

package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"slices"

	"github.com/capt-provider/capt/migrate"
)

const (
	// partSize keeps a ConfigMap, in base64, well below the 1 MiB that the API server takes.
	partSize = 512 << 10
	partKey  = "plan.json.gz"
)

func partName(planID string, i int) string { return fmt.Sprintf("capt-migrate-%s-plan-%d", planID, i) }

// split is the plan, compressed, in parts that fit into ConfigMaps.
func split(plan *migrate.Plan) ([][]byte, error) {
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := plan.Write(writer); err != nil {
		return nil, fmt.Errorf("compressing the plan: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing the plan: %w", err)
	}
	return slices.Collect(slices.Chunk(compressed.Bytes(), partSize)), nil
}

// Plan reads a plan back that was begun in this cluster, and proves that it is the same.
func (s Store) Plan(ctx context.Context, planID string) (*migrate.Plan, error) {
	state, err := s.State(ctx, planID)
	switch {
	case err != nil:
		return nil, err
	case state == nil:
		return nil, fmt.Errorf("plan %s was never begun in this cluster: there is no ConfigMap %s/%s", planID, s.Namespace, stateName(planID))
	}
	var compressed bytes.Buffer
	for i := range state.Parts {
		configMap, err := s.configMap(ctx, partName(planID, i))
		switch {
		case err != nil:
			return nil, err
		case configMap == nil:
			return nil, fmt.Errorf("ConfigMap %s/%s is gone; apply the plan from its file instead", s.Namespace, partName(planID, i))
		}
		compressed.Write(configMap.BinaryData[partKey])
	}
	reader, err := gzip.NewReader(&compressed)
	if err != nil {
		return nil, fmt.Errorf("reading plan %s from the cluster: %w", planID, err)
	}
	plan, err := migrate.ReadPlan(reader)
	if err != nil {
		return nil, fmt.Errorf("reading plan %s from the cluster: %w", planID, err)
	}
	if plan.Checksum != state.Checksum {
		return nil, fmt.Errorf("the plan in the cluster has checksum %s, and %s was begun", plan.Checksum, state.Checksum)
	}
	return plan, nil
}
