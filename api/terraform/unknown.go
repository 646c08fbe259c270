// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// The specs keep unknown fields. A newer provider-terraform may have more fields, and a template that uses one must not lose it, neither
// in the API server nor in CAPT.

// UnmarshalJSON reads the known fields and keeps the others in Unknown.
func (in *WorkspaceSpec) UnmarshalJSON(data []byte) error {
	type known WorkspaceSpec
	if err := json.Unmarshal(data, (*known)(in)); err != nil {
		return err
	}
	var err error
	in.Unknown, err = unknownFields(data, in)
	return err
}

// MarshalJSON writes the known fields and those in Unknown.
func (in WorkspaceSpec) MarshalJSON() ([]byte, error) {
	type known WorkspaceSpec
	return withUnknown(known(in), in.Unknown)
}

// UnmarshalJSON reads the known fields and keeps the others in Unknown.
func (in *WorkspaceParameters) UnmarshalJSON(data []byte) error {
	type known WorkspaceParameters
	if err := json.Unmarshal(data, (*known)(in)); err != nil {
		return err
	}
	var err error
	in.Unknown, err = unknownFields(data, in)
	return err
}

// MarshalJSON writes the known fields and those in Unknown.
func (in WorkspaceParameters) MarshalJSON() ([]byte, error) {
	type known WorkspaceParameters
	return withUnknown(known(in), in.Unknown)
}

// unknownFields returns the fields of a JSON object that a type, given as a pointer to a struct, does not have; nil when there are none.
func unknownFields(data []byte, typed any) (UnknownFields, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	t := reflect.TypeOf(typed).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	unknown := make(UnknownFields, len(all))
	for name, raw := range all {
		unknown[name] = runtime.RawExtension{Raw: raw}
	}
	return unknown, nil
}

// withUnknown returns the JSON of the known fields with the unknown fields added.
func withUnknown(known any, unknown UnknownFields) ([]byte, error) {
	data, err := json.Marshal(known)
	if err != nil || len(unknown) == 0 {
		return data, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, raw := range unknown {
		// A known field takes precedence over an unknown one of the same name.
		if _, ok := all[name]; !ok {
			all[name] = raw.Raw
		}
	}
	return json.Marshal(all)
}
