// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

// Progress reports how far a long operation is. Implementations are safe for concurrent use.
type Progress interface {
	// Phase begins a phase of a number of objects; 0 if the number is not known.
	Phase(name string, total int)
	// Add reports that so many more objects of the phase are done.
	Add(count int)
}

// Silent reports nothing.
type Silent struct{}

// Phase implements Progress.
func (Silent) Phase(string, int) {}

// Add implements Progress.
func (Silent) Add(int) {}
