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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestALongDocumentHasTheSumThatItHasInOnePiece, whatever is long in it, and however it is laid out.
func TestALongDocumentHasTheSumThatItHasInOnePiece(t *testing.T) {
	element := map[string]any{"z": json.Number("1.50"), "a": "<b> & \u2028 \"", "list": []any{true, nil, []any{}, map[string]any{}}}
	var many []any
	object := map[string]any{}
	for i := range 2000 {
		many = append(many, element, i, "text")
		object[fmt.Sprintf("%d\"key", 2000-i)] = element
	}
	long := map[string]any{
		"object": object, "many": many, "nested": []any{many, object, "short"}, "short": 1, "text": strings.Repeat("é\n", whole), "none": []any{},
	}
	for name, content := range map[string]any{"object": long, "list": many, "short": element, "text": strings.Repeat("x", 2*whole)} {
		t.Run(name, func(t *testing.T) {
			compact, err := json.Marshal(content)
			require.NoError(t, err)
			sum := sha256.Sum256(compact)
			indented, err := json.MarshalIndent(content, " ", "\t")
			require.NoError(t, err)
			for _, document := range [][]byte{compact, indented, append([]byte("\n\n"), compact...)} {
				got, err := Sum(document)
				require.NoError(t, err)
				assert.Equal(t, hex.EncodeToString(sum[:]), got)
			}
		})
	}
	for _, empty := range []string{"{%s}", "[%s]"} {
		got, err := Sum([]byte(fmt.Sprintf(empty, strings.Repeat(" ", 2*whole))))
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(fmt.Sprintf(empty, "")))
		assert.Equal(t, hex.EncodeToString(sum[:]), got)
	}
}

func TestALongDocumentThatIsNoJSONHasNoSum(t *testing.T) {
	for _, document := range []string{"", "[" + strings.Repeat("1,", whole), "[" + strings.Repeat("1,", whole) + "}", "{" + strings.Repeat(`"a":1,`, whole)} {
		_, err := Sum([]byte(document))
		require.ErrorContains(t, err, "reading JSON")
	}
}
