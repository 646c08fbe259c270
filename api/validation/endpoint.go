// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/terraform"
)

// RepairEndpoint corrects a stored endpoint. CAPT v0.3 wrote the whole URL, including https://, as the host, which clients cannot connect
// to. If the URL cannot be parsed, the result is the zero value, so that the controller writes the endpoint again.
func RepairEndpoint(stored clusterv1.APIEndpoint) clusterv1.APIEndpoint {
	if !strings.Contains(stored.Host, "://") {
		return stored
	}
	host, port, err := terraform.ParseEndpoint(stored.Host)
	if err != nil {
		return clusterv1.APIEndpoint{}
	}
	if stored.Port != 0 {
		port = stored.Port
	}
	return clusterv1.APIEndpoint{Host: host, Port: port}
}
