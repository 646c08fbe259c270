// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cli

import "os/exec"

// ownSession does nothing: only the command itself is killed when its context is done.
func ownSession(*exec.Cmd) (kill func()) { return func() {} }
