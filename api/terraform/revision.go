// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Revision returns a hash of the spec of a Workspace: 12 hexadecimal digits. JSON encoding sorts the keys of maps, so the hash does not
// depend on their order. An error means that content cannot be encoded as JSON.
func Revision(content any) (string, error) {
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])[:12], nil
}
