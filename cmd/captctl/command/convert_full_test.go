// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package command

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// fullDisk names the manifest that a child process converts while it can write only half of it.
const fullDisk = "CAPT_TEST_FULL_DISK"

// Before, the file was truncated first: a full disk left a part of the manifest.
func TestConvertKeepsAManifestThatItCannotWrite(t *testing.T) {
	if file := os.Getenv(fullDisk); file != "" {
		signal.Ignore(syscall.SIGXFSZ) // The write fails, as on a full disk.
		var limit syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(len(legacyApply) / 2), Max: limit.Max}))
		_, _, err := run(t, name, "convert", "-f", file, "--write")
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)) // Coverage is written at the end.
		require.ErrorIs(t, err, syscall.EFBIG)
		return
	}
	root := repository(t, map[string]string{"apply.yaml": legacyApply})
	limited := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	limited.Env = append(os.Environ(), fullDisk+"="+filepath.Join(root, "apply.yaml"))
	out, err := limited.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())

	assert.Equal(t, legacyApply, content(t, root, "apply.yaml"))
	files, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, file := range files {
		assert.False(t, strings.HasPrefix(file.Name(), ".apply"), "%s is left", file.Name())
	}
}

func TestConvertKeepsModesAndLinks(t *testing.T) {
	root := repository(t, map[string]string{"base/apply.yaml": legacyApply, "empty/readme.md": ""})
	target, link := filepath.Join(root, "base", "apply.yaml"), filepath.Join(root, "link.yaml")
	require.NoError(t, os.Chmod(target, 0o640))
	require.NoError(t, os.Symlink(filepath.Join("base", "apply.yaml"), link))

	_, _, err := run(t, name, "convert", "-f", link, "--write")
	require.NoError(t, err)
	assert.Equal(t, convertedApply, content(t, root, "base", "apply.yaml"))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(target)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
}

// As root, /dev/null would become a file.
func TestADeviceIsWrittenAndNotReplaced(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close() //nolint:errcheck // Nothing was written to it.
	require.NoError(t, cli.Save(pipe, func(out io.Writer) error {
		_, err := out.Write([]byte("plan"))
		return err
	}))
	got := make([]byte, 4)
	_, err = io.ReadFull(reader, got)
	require.NoError(t, err)
	assert.Equal(t, "plan", string(got))
}
