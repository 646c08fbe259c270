//go:build unix && !linux

// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import "syscall"

// dieWithProvider has no counterpart outside Linux; there the guard alone ends the command.
func dieWithProvider(*syscall.SysProcAttr) {}
