/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/validation"
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
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, validation.Endpoint(row.stored)) })
	}
}
