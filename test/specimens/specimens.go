// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package specimens has specs that break, or do not break, each rule of the schemas of CAPT's kinds. Tests of api/validation/schema
// validate them with the library, and test/integration proves that the API server agrees.
package specimens

import (
	_ "embed"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

//go:embed specimens.yaml
var rows string

// Specimen is a spec of a new object or, with an old spec, of one that is changed.
type Specimen struct {
	Kind string `json:"kind"`
	// Version is v1beta2 when it is empty.
	Version string          `json:"version"`
	Spec    json.RawMessage `json:"spec"`
	Old     json.RawMessage `json:"old"`
	// Refused are the fields of all errors.
	Refused []string `json:"refused"`
}

// All returns the specimens in the order of the file.
func All() ([]Specimen, error) {
	text := strings.NewReplacer(
		"PLANE", `version: "1.35", workspaceTemplateRef: {name: x}`, "PROFILE", "selectors: [{namespace: a}], workspaceTemplateRef: {name: x}",
		"REF", "workspaceTemplateApplyRef", "LONG", strings.Repeat("x", 300),
	).Replace(rows)
	var all []Specimen
	err := yaml.UnmarshalStrict([]byte(text), &all)
	return all, err
}

// GroupVersionKind is that of the object.
func (s Specimen) GroupVersionKind() schema.GroupVersionKind {
	kind := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: s.Kind}
	if strings.HasPrefix(s.Kind, "CAPTControlPlane") {
		kind.Group = "controlplane.cluster.x-k8s.io"
	}
	if s.Version != "" {
		kind.Version = s.Version
	}
	return kind
}
