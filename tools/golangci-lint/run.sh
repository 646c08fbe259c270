#!/usr/bin/env bash
# SPDX-FileCopyrightText: The CAPT Authors
# SPDX-License-Identifier: Apache-2.0

# Runs golangci-lint ("$@") in the current checkout. Its cache takes two minutes to fill, mostly with facts about dependencies, so all checkouts share
# one. The cache records the paths of files, so each checkout is linted through a link with the same path, one at a time. A checkout that finds
# another one there uses a cache of its own (GOLANGCI_LINT_CACHE of the Makefile).
set -euo pipefail

shared=${XDG_CACHE_HOME:-$HOME/.cache}/capt-golangci-lint
lock=$shared/lock # A link to the process ID of the holder.
mkdir -p "$shared"
holder=$(readlink "$lock" || true)
if [[ -n $holder ]] && ! kill -0 "$holder" 2>/dev/null; then
  rm -f "$lock" # The holder was killed.
fi
if ln -s "$$" "$lock" 2>/dev/null; then
  trap 'rm -f "$lock"' EXIT
  rm -f "$shared/checkout"
  ln -s "$PWD" "$shared/checkout"
  cd "$shared/checkout"
  export GOLANGCI_LINT_CACHE=$shared/cache
fi
# With GOGC's default, an empty cache costs a third more CPU time.
GOGC=400 GOMEMLIMIT=8GiB "$@"
