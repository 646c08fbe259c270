// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules tests the alerts of config/prometheus and the queries of config/grafana with the engine of Prometheus. It has a module of its own,
// because Prometheus has many dependencies.
package rules
