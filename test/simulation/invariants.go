// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import "github.com/capt-provider/capt/test/provider/executor"

func (w *World) applied(*run, executor.RunOptions) {}

func (w *World) destroyed(*run) {}
