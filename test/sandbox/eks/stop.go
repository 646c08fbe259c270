// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/capt-provider/capt/test/sandbox/state"
)

// Stop stops the cluster and removes its process, its keys in etcd and its directory. A missing cluster is not an error, so
// that a destroy can be repeated. A cluster with Fargate profiles is not stopped.
func (s Server) Stop(ctx context.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if _, err := os.Stat(s.Folder()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.requireNoProfiles(); err != nil {
		return err
	}
	id, err := s.Process()
	if err != nil {
		return err
	}
	if err := id.Stop(stopGrace); err != nil {
		return err
	}
	sandbox, err := state.Load(s.Dir)
	if err != nil {
		return fmt.Errorf("found no sandbox in %s: %w", s.Dir, err)
	}
	if err := deletePrefix(ctx, sandbox.EtcdEndpoint, s.etcdPrefix()+"/"); err != nil {
		return err
	}
	// The lock file stays: removing it would let a third command lock a new file while a second waits on this one.
	return os.RemoveAll(s.Folder())
}

// StopAll kills all servers of a sandbox that is being removed, without removing their data.
func StopAll(dir string) error {
	servers, err := List(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, server := range servers {
		id, err := server.Process()
		if err == nil {
			err = id.Stop(0)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("cluster %s: %w", server.Name, err))
		}
	}
	return errors.Join(failed...)
}

// deletePrefix deletes all keys with a prefix through etcd's JSON gateway, which needs no client library.
func deletePrefix(ctx context.Context, endpoint, prefix string) error {
	// The end of the range is exclusive: the prefix with its last byte incremented.
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": end})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/v3/kv/deleterange", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("deleting %s from etcd: %w", prefix, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("deleting %s from etcd: %s", prefix, response.Status)
	}
	return nil
}
