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

package migrate

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Patched is an object with a JSON Patch applied. It fails when a test of the patch does.
func Patched(object *unstructured.Unstructured, operations []Operation) (*unstructured.Unstructured, error) {
	document, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	patched, err := Document(document).Patched(operations)
	if err != nil {
		return nil, fmt.Errorf("patching %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return patched, nil
}

// Patched is a document with a JSON Patch applied. It fails when a test of the patch does.
func (d Document) Patched(operations []Operation) (*unstructured.Unstructured, error) {
	operationsJSON, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(operationsJSON)
	if err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	document, err := patch.Apply(d)
	if err != nil {
		return nil, err
	}
	return Document(document).Object()
}
