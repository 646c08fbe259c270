// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cputime measures CPU time for tests of limits. Unlike elapsed time, it does not depend on what else the machine does.
package cputime

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of returns the CPU time of the process while a function runs. Tests that run in parallel are included.
func Of(t testing.TB, run func()) time.Duration {
	t.Helper()
	began := used(t)
	run()
	return used(t) - began
}

func used(t testing.TB) time.Duration {
	t.Helper()
	usage := syscall.Rusage{}
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
