// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spans collects from the API server's own tracing how long it waited for webhooks. Its metrics are too coarse: the bounds of
// their buckets are at 5 and 25 milliseconds. An API server sends spans with OTLP, which is protocol buffers over gRPC; this
// understands as much of both as it takes to read names and times.
type spans struct {
	address string

	// lock guards everything below.
	lock sync.Mutex
	// waited is how long a request waited for all its webhooks together, by the number of its trace.
	waited map[string]time.Duration
}

// newSpans listens, and returns the argument that makes an API server send all its spans here.
func newSpans(b *testing.B) (s *spans, argument string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s = &spans{address: listener.Addr().String(), waited: map[string]time.Duration{}}
	server := &http.Server{Handler: s, Protocols: &http.Protocols{}, ReadHeaderTimeout: time.Minute}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })

	path := filepath.Join(b.TempDir(), "tracing.yaml")
	config := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", s.address)
	require.NoError(b, os.WriteFile(path, []byte(config), 0o600))
	return s, "--tracing-config-file=" + path
}

// reset forgets what was seen so far.
func (s *spans) reset() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waited = map[string]time.Duration{}
}

// requests returns how long each request waited.
func (s *spans) requests() []time.Duration {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := make([]time.Duration, 0, len(s.waited))
	for _, waited := range s.waited {
		all = append(all, waited)
	}
	return all
}

// ServeHTTP implements the one call of the service: it takes spans and answers with an empty message.
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := "0"
	if err := s.export(r.Body); err != nil {
		status = "3" // INVALID_ARGUMENT.
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(make([]byte, 5))
	w.Header().Set("Grpc-Status", status)
}

func (s *spans) export(body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	// A message of gRPC begins with a byte that is set when it is compressed, and four of length.
	if len(data) < 5 || data[0] != 0 {
		return errors.New("not a plain message")
	}
	// Resources have scopes, which have spans.
	return within(data[5:], 1, func(resource []byte) error {
		return within(resource, 2, func(scope []byte) error {
			return within(scope, 2, s.add)
		})
	})
}

func (s *spans) add(span []byte) error {
	var name, trace string
	var start, end uint64
	err := fields(span, func(number int, value []byte) error {
		switch number {
		case 1:
			trace = string(value)
		case 5:
			name = string(value)
		case 7:
			start = binary.LittleEndian.Uint64(value)
		case 8:
			end = binary.LittleEndian.Uint64(value)
		}
		return nil
	})
	if err != nil || !strings.HasPrefix(name, "Call ") || !strings.HasSuffix(name, "ing webhook") {
		return err // Neither "Call mutating webhook" nor "Call validating webhook".
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waited[trace] += time.Duration(end - start)
	return nil
}

// within visits the fields of one number.
func within(message []byte, wanted int, visit func([]byte) error) error {
	return fields(message, func(number int, value []byte) error {
		if number != wanted {
			return nil
		}
		return visit(value)
	})
}

// fields visits the fields of a message. The value of a variable-length number is empty.
func fields(message []byte, visit func(number int, value []byte) error) error {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return errors.New("a field without a key")
		}
		message = message[n:]
		skip, size := 0, 0
		switch key & 7 {
		case 0:
			_, skip = binary.Uvarint(message)
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(message)
			skip, size = n, int(length)
		case 5:
			size = 4
		default:
			return fmt.Errorf("a field of type %d", key&7)
		}
		if skip < 0 || size < 0 || len(message) < skip+size {
			return errors.New("a field that is cut off")
		}
		if err := visit(int(key>>3), message[skip:skip+size]); err != nil {
			return err
		}
		message = message[skip+size:]
	}
	return nil
}
