// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is the reconcile skeleton that all kinds share: observe, act on a decision, compute status, finish. A
// kind brings the parts; the order, the single status write, events and the three outcomes live here, once.
package engine
