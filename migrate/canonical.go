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
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// whole is up to how many bytes a part of a JSON document is held in memory decoded, which takes many times as much.
const whole = 1 << 16

// canonical writes a JSON document compact and with sorted keys. A long one is taken to pieces, so that a plan for a large fleet
// needs little memory beside itself.
func canonical(to io.Writer, document []byte) error {
	document = bytes.TrimSpace(document)
	switch {
	case len(document) > whole && document[0] == '{':
		return canonicalObject(to, document)
	case len(document) > whole && document[0] == '[':
		return canonicalList(to, document)
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	_, err = to.Write(data)
	return err
}

func canonicalObject(to io.Writer, document []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	if _, err := io.WriteString(to, "{"); err != nil {
		return err
	}
	separator := ""
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, err := json.Marshal(name)
		if err != nil {
			return fmt.Errorf("encoding JSON: %w", err)
		}
		if _, err := fmt.Fprintf(to, "%s%s:", separator, key); err != nil {
			return err
		}
		if err := canonical(to, members[name]); err != nil {
			return err
		}
		separator = ","
	}
	_, err := io.WriteString(to, "}")
	return err
}

// canonicalList reads one element at a time.
func canonicalList(to io.Writer, document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	if _, err := io.WriteString(to, "["); err != nil {
		return err
	}
	separator := ""
	for decoder.More() {
		var element json.RawMessage
		if err := decoder.Decode(&element); err != nil {
			return fmt.Errorf("reading JSON: %w", err)
		}
		if _, err := io.WriteString(to, separator); err != nil {
			return err
		}
		if err := canonical(to, element); err != nil {
			return err
		}
		separator = ","
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	_, err := io.WriteString(to, "]")
	return err
}
