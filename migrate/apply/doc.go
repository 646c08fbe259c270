// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package apply applies plans and rolls them back, one unit after the other, while the manager runs. It decides nothing: the plan says which
// fields to write, and each live field says whether it is written already. A run that was killed is resumed by running it again, from any host.
package apply
