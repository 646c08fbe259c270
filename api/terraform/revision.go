// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

const (
	// wholeRevision is how many digits a revision has.
	wholeRevision = 2 * sha256.Size
	// shortRevision is how many of them texts show. Earlier versions recorded no more.
	shortRevision = 12
)

// Revision returns a hash of the spec of a Workspace: SHA-256, as 64 hexadecimal digits. JSON encoding sorts the keys of maps, so the hash does
// not depend on their order. An error means that content cannot be encoded as JSON.
func Revision(content any) (string, error) {
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// ShortRevision returns the first digits of a revision, for texts. Nothing may be decided by them: two contents with the same ones are found in
// half a minute.
func ShortRevision(revision string) string { return revision[:min(len(revision), shortRevision)] }

// IsShortRevision reports whether a value can be a revision as earlier versions recorded it.
func IsShortRevision(value string) bool { return len(value) == shortRevision }

// IsWholeRevision reports whether a value can be a revision with all of its digits.
func IsWholeRevision(value string) bool { return len(value) == wholeRevision }

// IsRecordedAs reports whether a recorded value is a revision, or how earlier versions recorded it. It is only for status that reports, such as times:
// it must not decide which content is applied.
func IsRecordedAs(revision, recorded string) bool {
	return recorded == revision || IsShortRevision(recorded) && recorded == ShortRevision(revision)
}
