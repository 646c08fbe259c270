// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io"
	"os"
	"strings"
)

// tailWindow limits how much of a log is read to find its last lines.
const tailWindow = 256 << 10

// Tail returns the last lines of a log file. It returns no error, because it is used in error messages.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "(no log)"
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > tailWindow {
		_, _ = file.Seek(-tailWindow, io.SeekEnd)
	}
	data, err := io.ReadAll(file)
	if err != nil || len(data) == 0 {
		return "(the log is empty)"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
