// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/validation/owners"
)

func TestWhatAStoredEndpointMeans(t *testing.T) {
	none := clusterv1.APIEndpoint{}
	for name, row := range map[string]struct{ stored, want clusterv1.APIEndpoint }{
		"none":                           {none, none},
		"as it should be":                {clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"an address":                     {clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 443}, clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 443}},
		"a URL":                          {clusterv1.APIEndpoint{Host: "https://a.example.com", Port: 443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"a URL with a slash":             {clusterv1.APIEndpoint{Host: "https://a.example.com/", Port: 6443}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 6443}},
		"a URL that alone has the port":  {clusterv1.APIEndpoint{Host: "https://a.example.com:6443"}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 6443}},
		"a URL without any port":         {clusterv1.APIEndpoint{Host: "https://a.example.com"}, clusterv1.APIEndpoint{Host: "a.example.com", Port: 443}},
		"a URL of no API server":         {clusterv1.APIEndpoint{Host: "http://a.example.com", Port: 443}, none},
		"a scheme and nothing behind it": {clusterv1.APIEndpoint{Host: "https://", Port: 443}, none},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, owners.Endpoint(row.stored)) })
	}
}
