// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/pki"
)

func TestCertificateRotationUnderTraffic(t *testing.T) {
	f, replicas := newFleet(newWorld(t), 2)
	traffic := newTraffic(f)
	traffic.goOn(t)

	f.story("new certificates are served", func(w *world) {
		for range 2 {
			f.rotate(w.T, traffic, f.authority.Bundle(), replicas...)
		}
	})
	// As cert-manager does it with config/certmanager, which does not wait until all certificates are gone that the authority
	// signed before, and the two sides see the change in any order.
	f.story("the authority is renewed with the same key, and the API server is faster", func(w *world) {
		f.renew()
		w.point(w.Context(), trusting(f.authority.Bundle()))
		traffic.goOn(w.T)
		f.rotate(w.T, traffic, f.authority.Bundle(), replicas...)
	})
	f.story("the authority is renewed with the same key, and the replicas are faster", func(w *world) {
		old := f.authority.Bundle()
		f.renew()
		f.rotate(w.T, traffic, old, replicas...)
		w.point(w.Context(), trusting(f.authority.Bundle()))
		traffic.goOn(w.T)
	})
	f.story("the authority is replaced, and both are trusted in between", func(w *world) {
		next, err := pki.NewAuthority(authorityName)
		require.NoError(w, err)
		both := bytes.Join([][]byte{f.authority.Bundle(), next.Bundle()}, []byte("\n"))
		w.point(w.Context(), trusting(both))
		traffic.goOn(w.T)
		f.authority = next
		f.rotate(w.T, traffic, both, replicas...)
		w.point(w.Context(), trusting(next.Bundle()))
		traffic.goOn(w.T)
	})

	traffic.rest()
	for name, balancer := range f.balancers {
		for _, r := range replicas {
			require.Positive(t, balancer.connections(r.webhook), "%s gives work to both replicas", name)
		}
	}
}

// rotate gives every replica a new certificate, one after the other, as the kubelets of their nodes update it, and shows
// that it is served.
func (f *fleet) rotate(t *testing.T, traffic *traffic, bundle []byte, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		certificate := f.sign()
		r.volume.write(t, certificate)
		r.serves(t, bundle, certificate)
		traffic.goOn(t)
	}
}
