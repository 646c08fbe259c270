// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage is the former name of package fixture.
package stage

import "github.com/capt-provider/capt/test/fixture"

// Stage is a control plane.
type Stage = fixture.Server

// Activity is what the manager's metrics report.
type Activity = fixture.Activity
