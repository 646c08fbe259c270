// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// certificates decodes the certificate authority of EKS, base64 of PEM, exactly once, and checks every block: clients silently skip
// invalid blocks, so a broken chain would be reported only as an unknown authority.
//
// An expired certificate is not an error: during a rotation a bundle has old and new ones, the clock of this manager may be wrong, and the
// probe of the API server reports when none is valid.
func certificates(ca string) ([]byte, error) {
	bundle, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return nil, errors.New("the certificate authority is not valid base64")
	}
	rest, number := bundle, 0
	for {
		block, after := pem.Decode(rest)
		read := rest[:len(rest)-len(after)]
		if block == nil {
			read = rest
		}
		begins := bytes.Count(read, []byte("-----BEGIN"))
		if block == nil && begins == 0 {
			break
		}
		number++
		// The decoder skips invalid blocks, so the block that it found may not be the first one.
		if block == nil || begins > 1 {
			return nil, fmt.Errorf("block %d of the certificate authority is not complete PEM", number)
		}
		if problem := blockProblem(block); problem != "" {
			return nil, fmt.Errorf("block %d of the certificate authority %s", number, problem)
		}
		rest = after
	}
	if number == 0 {
		return nil, errors.New("the certificate authority is not base64-encoded PEM, the format of EKS")
	}
	return bundle, nil
}

// blockProblem describes an invalid block. The error of the parser is omitted, because it quotes names in the certificate.
func blockProblem(block *pem.Block) string {
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return "is a private key, which must not be published: remove it from the output, and replace the key"
	case block.Type != "CERTIFICATE":
		return "is not a certificate"
	case len(block.Headers) > 0:
		return "has PEM headers, so clients skip it"
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return "has a certificate that cannot be parsed"
	}
	return ""
}
