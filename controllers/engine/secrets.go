// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxSecrets limits how many Secrets are kept: those of the clusters that change now, not those of a whole fleet.
const maxSecrets = 256

// Secrets reads Secrets. The cache has only their metadata, so they are read from the API server. The last ones are kept, and used while the cache has the
// same version: the changes of one cluster cause several reconciles within seconds.
type Secrets struct {
	// cached is a reader of the cache alone: a client reads metadata of Secrets from the API server.
	cached, uncached client.Reader
	last             *lru.Cache
}

// NewSecrets returns Secrets for a cache and for a reader of the API server.
func NewSecrets(cached, uncached client.Reader) *Secrets {
	return &Secrets{cached, uncached, lru.New(maxSecrets)}
}

// Get returns a Secret, which must not be changed; nil when it does not exist.
func (s *Secrets) Get(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	metadata, err := s.Metadata(ctx, key)
	if err != nil {
		return nil, err
	}
	if last, ok := s.last.Get(key); ok && metadata != nil {
		if last := last.(*corev1.Secret); last.UID == metadata.UID && last.ResourceVersion == metadata.ResourceVersion {
			return last, nil
		}
	}
	secret, err := Get(ctx, s.uncached, key, &corev1.Secret{})
	if s.last.Remove(key); secret != nil {
		s.last.Add(key, secret)
	}
	return secret, err
}

// Metadata returns the metadata of a Secret from the cache, which may lag behind; nil when the cache has none. Of managedFields, it has the keys of the data.
func (s *Secrets) Metadata(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	return Get(ctx, s.cached, key, Metadata("Secret"))
}

// Forget must be called after a write: the cache may still have the version before.
func (s *Secrets) Forget(key client.ObjectKey) { s.last.Remove(key) }
