// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/builder"
)

// countingReader counts reads.
type countingReader struct {
	client.Reader
	reads int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.reads++
	return r.Reader.Get(ctx, key, object, options...)
}

func TestSecretsAreReadAgainWhenTheCacheHasAnotherVersion(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "demo"}, Data: map[string][]byte{"key": []byte("one")}}
	live := builder.Clients(secret).Build()
	server, key := &countingReader{Reader: live}, client.ObjectKeyFromObject(secret)
	secrets := NewSecrets(live, server)
	read := func() string {
		found, err := secrets.Get(t.Context(), key)
		require.NoError(t, err)
		if found == nil {
			return ""
		}
		return string(found.Data["key"])
	}
	assert.Equal(t, "one", read())
	assert.Equal(t, "one", read())
	assert.Equal(t, 1, server.reads, "the version in the cache was read before")

	require.NoError(t, live.Get(t.Context(), key, secret))
	secret.Data["key"] = []byte("two")
	require.NoError(t, live.Update(t.Context(), secret))
	assert.Equal(t, "two", read())
	assert.Equal(t, 2, server.reads)

	secrets.Forget(key)
	assert.Equal(t, "two", read())
	assert.Equal(t, 3, server.reads, "this process has written it")

	require.NoError(t, live.Delete(t.Context(), secret))
	assert.Empty(t, read(), "it was deleted")
	assert.Equal(t, 4, server.reads)
}

// The cache lags behind: a Secret that is not in it may exist.
func TestSecretsThatAreNotInTheCacheAreRead(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "demo"}}
	server := &countingReader{Reader: builder.Clients(secret).Build()}
	secrets := NewSecrets(builder.Clients().Build(), server)
	for range 2 {
		found, err := secrets.Get(t.Context(), client.ObjectKeyFromObject(secret))
		require.NoError(t, err)
		assert.NotNil(t, found)
	}
	assert.Equal(t, 2, server.reads)
}
