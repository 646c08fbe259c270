// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// defaultPort is the port of an endpoint without one: EKS serves on 443.
const defaultPort = 443

// ParseEndpoint splits the output cluster_endpoint, a URL or host[:port], into host and port. The host has neither scheme
// nor brackets. Errors never quote the text, which may contain credentials.
func ParseEndpoint(text string) (host string, port int32, err error) {
	parsed, err := url.Parse(withScheme(strings.TrimSpace(text)))
	if err != nil || parsed.Hostname() == "" || parsed.Scheme != "https" || !hasOnlyHostAndPort(parsed) {
		return "", 0, errors.New("it is neither an https URL nor host[:port]")
	}
	if parsed.Port() == "" {
		return parsed.Hostname(), defaultPort, nil
	}
	number, err := strconv.ParseUint(parsed.Port(), 10, 16)
	if err != nil || number == 0 {
		return "", 0, errors.New("it has no valid port")
	}
	return parsed.Hostname(), int32(number), nil
}

// withScheme returns an address as a URL: host[:port] gets the scheme https.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = "[" + address + "]"
	}
	return "https://" + address
}

// hasOnlyHostAndPort reports whether a URL has only a scheme, a host and a port.
func hasOnlyHostAndPort(u *url.URL) bool {
	return u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}
