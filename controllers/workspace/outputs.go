// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"encoding/json"

	"github.com/capt-provider/capt/api/terraform"
)

// outputs returns the outputs that may be published.
func outputs(workspace *terraform.Workspace, published []string) map[string]string {
	var out map[string]string
	for _, name := range published {
		value, ok := workspace.Status.AtProvider.Outputs[name]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = outputText(value.Raw)
	}
	return out
}

// outputText returns the value of a string output, and compact JSON for any other output, as in the connection Secret.
func outputText(raw []byte) string {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		return s
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return string(raw)
	}
	return compact.String()
}
