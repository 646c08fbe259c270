// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
)

// summary finds the line in which the CLI names the first error.
var summary = regexp.MustCompile(`Error: (.+)\n`)

// Failure is the error of a CLI run that ended with a non-zero exit code: the one-line summary, and behind it the
// whole of stderr, compressed, in the shape of a shell command that shows it. The wording is provider-terraform's,
// since readers of conditions classify on it. Stderr can hold secrets, and so can the error.
func Failure(stderr string) error {
	var line string
	if m := summary.FindStringSubmatch(stderr); m != nil {
		line = m[1]
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(stderr)); err != nil {
		return errors.Join(errors.New("cannot compress the error output"), err)
	}
	if err := w.Close(); err != nil {
		return errors.Join(errors.New("cannot compress the error output"), err)
	}
	return fmt.Errorf("Terraform encountered an error. Summary: %s. To see the full error run: echo %q | base64 -d | gunzip", //nolint:staticcheck // the real provider's words
		line, base64.StdEncoding.EncodeToString(packed.Bytes()))
}
