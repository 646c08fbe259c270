// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Revision is a hash of what Terraform is given: 12 hexadecimal digits. Keys of JSON objects are sorted when they are
// encoded, so it does not depend on the order of maps.
func Revision(content any) (string, error) {
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])[:12], nil
}
