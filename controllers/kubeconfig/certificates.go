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

// certificates decodes a certificate authority as EKS gives it, base64 of PEM, exactly once, and checks every block: a
// client skips the blocks that it can not use without a word, so a broken chain would show only as an unknown authority.
//
// An end of validity that has passed is no error here. Whether one certificate of a bundle still counts is for the client
// that verifies with it (during a rotation an old one beside a new one is usual), a wrong clock of this manager would
// refuse a good one, and the probe of the API server tells when none serves any more.
func certificates(ca string) ([]byte, error) {
	bundle, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		return nil, errors.New("the certificate authority is not base64")
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
		// The decoder passes over what it can not read, and what it found then is not the first block that began.
		if block == nil || begins > 1 {
			return nil, fmt.Errorf("block %d of the certificate authority is not whole PEM", number)
		}
		if problem := problemOf(block); problem != "" {
			return nil, fmt.Errorf("block %d of the certificate authority %s", number, problem)
		}
		rest = after
	}
	if number == 0 {
		return nil, errors.New("the certificate authority is not base64 of PEM, as EKS gives it")
	}
	return bundle, nil
}

// problemOf says what is wrong with a block. What the parser says is left out, since it quotes names in the certificate.
func problemOf(block *pem.Block) string {
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return "is a private key, which must not be published: take it out of the output, and replace it"
	case block.Type != "CERTIFICATE":
		return "is something else than a certificate"
	case len(block.Headers) > 0:
		return "has PEM headers, and clients pass over such blocks"
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return "holds no certificate that can be parsed"
	}
	return ""
}
