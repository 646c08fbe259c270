// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/provider/config/crd"
)

// The CRDs of the real provider are not part of this repository. Where a copy lies beside it, or where CAPT_REFERENCE
// says, ours must not differ from them in anything but words.
func TestCRDsEqualTheRealProviders(t *testing.T) {
	reference := os.Getenv("CAPT_REFERENCE")
	if reference == "" {
		reference = filepath.Join("..", "..", "..", "..", "..", "shared", "reference")
	}
	folder := filepath.Join(reference, "provider-terraform-crds")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the CRDs of provider-terraform are not at %s; set CAPT_REFERENCE to the folder that holds provider-terraform-crds to compare with them", folder)
	}

	names, err := fs.Glob(crd.FS, "*.yaml")
	require.NoError(t, err)
	references, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, references, len(names), "as many CRDs as the real provider has")

	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			ours, err := crd.FS.ReadFile(name)
			require.NoError(t, err)
			theirs, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			require.Equal(t, withoutWords(t, theirs), withoutWords(t, ours))
		})
	}
}

// withoutWords parses a CRD and drops descriptions and annotations.
func withoutWords(t *testing.T, data []byte) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var d apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(data, &d))
	d.Annotations = nil
	for _, v := range d.Spec.Versions {
		if v.Schema != nil {
			dropDescriptions(v.Schema.OpenAPIV3Schema)
		}
	}
	return d
}

func dropDescriptions(p *apiextensionsv1.JSONSchemaProps) {
	if p == nil {
		return
	}
	p.Description = ""
	for name, field := range p.Properties {
		dropDescriptions(&field)
		p.Properties[name] = field
	}
	if p.Items != nil {
		dropDescriptions(p.Items.Schema)
	}
	if p.AdditionalProperties != nil {
		dropDescriptions(p.AdditionalProperties.Schema)
	}
}
