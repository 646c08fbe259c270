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

package legacy

import (
	_ "embed" // definitions.yaml
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

//go:embed definitions.yaml
var definitions []byte

// Definitions are those of the older CAPT.
func Definitions() ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Decode(definitions)
	if err != nil {
		return nil, fmt.Errorf("definitions of the older CAPT: %w", err)
	}
	return objects, nil
}
