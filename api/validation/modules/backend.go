// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Types of backends.
const (
	LocalBackend      = "local"      // LocalBackend keeps the state in a directory.
	KubernetesBackend = "kubernetes" // KubernetesBackend keeps the state in a Secret.
	cloudBackend      = "cloud"      // cloudBackend has a block of its own.
)

// Backend is where Terraform keeps the state.
type Backend struct {
	Type string
	body hcl.Body
}

var backendSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "backend", LabelNames: []string{"type"}}, {Type: cloudBackend}}}

// BackendOf returns the backend that a file of a module sets; nil if it sets none.
func BackendOf(name string, text []byte) (found *Backend, err error) {
	body, err := parseFile(name, text)
	for _, block := range blocksOf(body, &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}) {
		for _, inner := range blocksOf(block.Body, backendSchema) {
			if found = (&Backend{inner.Type, inner.Body}); len(inner.Labels) > 0 {
				found.Type = inner.Labels[0]
			}
		}
	}
	return found, err
}

// parseFile returns an empty body for a file that is not valid.
func parseFile(name string, text []byte) (hcl.Body, error) {
	parse := func() (*hcl.File, hcl.Diagnostics) { return hclsyntax.ParseConfig(text, name, hcl.InitialPos) }
	if strings.HasSuffix(name, ".json") {
		parse = func() (*hcl.File, hcl.Diagnostics) { return json.Parse(text, name) }
	}
	file, diagnostics := parse()
	if diagnostics.HasErrors() {
		return hcl.EmptyBody(), diagnostics
	}
	return file.Body, nil
}

// blocksOf returns the blocks of a schema. What is not valid, Terraform reports.
func blocksOf(body hcl.Body, schema *hcl.BodySchema) hcl.Blocks {
	content, _, _ := body.PartialContent(schema)
	return content.Blocks
}

// Arguments are the arguments of the backend that are constant, as text. file has further ones, which take precedence.
func (b *Backend) Arguments(file string) map[string]string {
	found := map[string]string{}
	further, _ := parseFile("backend", []byte(file)) // Terraform reports what is not valid.
	for _, body := range []hcl.Body{b.body, further} {
		attributes, _ := body.JustAttributes() // Others are nested blocks.
		for name, attribute := range attributes {
			value, _ := attribute.Expr.Value(nil)
			if text, err := convert.Convert(value, cty.String); err == nil && !text.IsNull() && text.IsWhollyKnown() {
				found[name] = text.AsString()
			}
		}
	}
	return found
}
