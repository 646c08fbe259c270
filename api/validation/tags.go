// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

const (
	// reservedTag is the prefix of tags that AWS reserves, in upper or lower case. See TagResource in the API reference of Amazon EKS.
	reservedTag = "aws:"
	tagSymbols  = "+-=._:/@"
)

// validateTags checks the requirements of AWS for tags that the schema does not check: characters that every AWS service accepts, and the
// reserved prefix with upper-case letters. See "Tag your Amazon EC2 resources" in the user guide of Amazon EC2.
func validateTags(tags map[string]controlplanev1.TagValue, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if hasReservedPrefix(key) && !strings.HasPrefix(key, reservedTag) { // The schema rejects the prefix in lower case.
			errs = append(errs, Invalid(path.Key(key), "tag keys with the prefix aws:, in upper or lower case, are reserved by AWS. Rename the tag"))
		}
		for _, part := range []struct{ name, text string }{{"key", key}, {"value", string(tags[key])}} {
			if r, found := notInTags(part.text); found {
				errs = append(errs, Invalid(path.Key(key), "the %s has the character %s. AWS allows letters, digits, spaces and + - = . _ : / @",
					part.name, strconv.QuoteRune(r)))
			}
		}
	}
	return errs
}

func hasReservedPrefix(key string) bool {
	return len(key) >= len(reservedTag) && strings.EqualFold(key[:len(reservedTag)], reservedTag)
}

// notInTags finds the first character that tags cannot have. Letters, digits and spaces may be of any script.
func notInTags(text string) (rune, bool) {
	for _, r := range text {
		if !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune(tagSymbols, r) {
			return r, true
		}
	}
	return 0, false
}
