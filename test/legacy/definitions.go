// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	_ "embed" // definitions.yaml
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

//go:embed definitions.yaml
var definitions []byte

// Definitions are those of CAPT v0.3.
func Definitions() ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Decode(definitions)
	if err != nil {
		return nil, fmt.Errorf("definitions of CAPT v0.3: %w", err)
	}
	return objects, nil
}
