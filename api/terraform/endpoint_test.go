// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
)

func TestValidEndpoints(t *testing.T) {
	for name, row := range map[string]struct {
		text, host string
		port       int32
	}{
		"endpoint of EKS":       {"https://ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com", "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com", 443},
		"URL with a slash":      {"https://eks.example.com/", "eks.example.com", 443},
		"URL with a port":       {"https://eks.example.com:6443", "eks.example.com", 6443},
		"host":                  {"eks.example.com", "eks.example.com", 443},
		"host and port":         {"eks.example.com:6443", "eks.example.com", 6443},
		"highest port":          {"eks.example.com:65535", "eks.example.com", 65535},
		"IPv4":                  {"192.0.2.1", "192.0.2.1", 443},
		"IPv4 and port":         {"192.0.2.1:6443", "192.0.2.1", 6443},
		"IPv6":                  {"2001:db8::1", "2001:db8::1", 443},
		"IPv6 in brackets":      {"[2001:db8::1]", "2001:db8::1", 443},
		"IPv6 and port":         {"[2001:db8::1]:6443", "2001:db8::1", 6443},
		"URL of an IPv6":        {"https://[2001:db8::1]:6443", "2001:db8::1", 6443},
		"blanks and line break": {" eks.example.com\n", "eks.example.com", 443},
	} {
		t.Run(name, func(t *testing.T) {
			host, port, err := terraform.ParseEndpoint(row.text)
			require.NoError(t, err)
			assert.Equal(t, row.host, host)
			assert.Equal(t, row.port, port)
		})
	}
}

func TestInvalidEndpoints(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"blank":              "  ",
		"http":               "http://eks.example.com",
		"another scheme":     "ftp://eks.example.com",
		"path":               "https://eks.example.com/api",
		"path of a host":     "eks.example.com/api",
		"query":              "https://eks.example.com?a=b",
		"fragment":           "https://eks.example.com#a",
		"user":               "https://user@eks.example.com",
		"user and password":  "https://user:password@eks.example.com",
		"port 0":             "eks.example.com:0",
		"port too high":      "eks.example.com:65536",
		"port below 0":       "eks.example.com:-1",
		"port is a word":     "eks.example.com:https",
		"port only":          ":443",
		"scheme only":        "https://",
		"scheme of a scheme": "https://https://eks.example.com",
		"list":               "eks.example.com,eks2.example.com:443:444",
		"blank in the host":  "eks example com",
		"JSON":               `["eks.example.com"]`,
		"line break inside":  "eks.example.com\nmore",
	} {
		t.Run(name, func(t *testing.T) {
			host, port, err := terraform.ParseEndpoint(text)
			require.Error(t, err)
			assert.Empty(t, host)
			assert.Zero(t, port)
		})
	}
}
