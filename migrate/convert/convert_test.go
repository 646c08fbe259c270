// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate/convert"
)

func newConverter(t *testing.T) *convert.Converter {
	t.Helper()
	c, err := convert.New()
	require.NoError(t, err)
	return c
}

// live reads the objects of testdata/live.yaml.
func live(t *testing.T) func(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "live.yaml"))
	require.NoError(t, err)
	objects := map[string]*unstructured.Unstructured{}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &object.Object))
		objects[fmt.Sprint(object.GroupVersionKind(), object.GetNamespace(), object.GetName())] = object
	}
	return func(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
		return objects[fmt.Sprint(kind, namespace, name)], nil
	}
}

// Each file of testdata/in is converted without a cluster and with one, as the golden files say. UPDATE_GOLDEN=1 writes them.
func TestFilesAreConvertedAsTheGoldenFilesSay(t *testing.T) {
	files, err := filepath.Glob("testdata/in/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	offline, online := newConverter(t), newConverter(t)
	online.Live = live(t)
	for _, file := range files {
		name := filepath.Base(file)
		for suffix, c := range map[string]*convert.Converter{"": offline, ".adopted": online} {
			t.Run(name+suffix, func(t *testing.T) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				result, err := c.Convert(t.Context(), name, data)
				require.NoError(t, err)
				golden(t, name+suffix+".messages", messages(result))
				if len(result.Problems) > 0 {
					assert.Equal(t, string(data), string(result.New), "a file with problems is not touched")
					return
				}
				golden(t, name+suffix, string(result.New))
				again, err := c.Convert(t.Context(), name, result.New)
				require.NoError(t, err)
				assert.False(t, again.Changed(), "a second time changes nothing: %s", again.New)
				assert.Empty(t, again.Problems)
			})
		}
	}
}

func messages(result *convert.Result) string {
	var lines strings.Builder
	for _, message := range result.Problems {
		fmt.Fprintln(&lines, message)
	}
	for _, message := range result.Warnings {
		fmt.Fprintln(&lines, "Warning:", message)
	}
	return lines.String()
}

// golden compares with a file; one that would be empty does not exist.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" && got != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	if got != "" || !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	assert.Equal(t, string(want), got, path)
}
