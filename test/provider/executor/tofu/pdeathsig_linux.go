//go:build linux

// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import "syscall"

// dieWithProvider has the kernel kill the command the moment the provider dies. The guard does the same a little
// later, for the whole group.
func dieWithProvider(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
