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

package execute

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Options say how to carry a plan out.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself; Client by default.
	Reader client.Reader
	// Namespace of the lock and the journal.
	Namespace string
	// BackupDir is where the backup is made, or is already. It is needed until a run has made one.
	BackupDir string
	// JournalDir is where the journal on this host is.
	JournalDir string
	// Canary is NAMESPACE/NAME of an owner or its Cluster, which is adopted alone before all others; empty for none.
	Canary string
	// MaxFailures is how many steps and objects may fail before no more are begun.
	MaxFailures int
	// Workers is how many units are adopted at a time.
	Workers int
	// DryRun sends the patches, and asks the API server to keep none of them. Nothing else is written, here or there.
	DryRun bool
	// LeaseDuration is how long a run that died keeps others waiting.
	LeaseDuration time.Duration
	Clock         clock.Clock
	Progress      migrate.Progress
	// Preflight is asked before the first write. It writes nothing.
	Preflight func(context.Context) error
	// Verify is asked after the canary, about that part of the plan which was carried out.
	Verify func(ctx context.Context, part *migrate.Plan) error
	// OlderManagerRuns is the name of a running manager of the older CAPT, or empty. A rollback asks.
	OlderManagerRuns func(context.Context) (string, error)
	// NewRewriter makes what does the storage phase. It writes with the client that it is given, which stops when the lock is
	// lost, and keeps nothing in a dry run.
	NewRewriter func(client.Client) Rewriter
}

// Rewriter rewrites stored objects.
type Rewriter interface {
	// Rewrite stores an object in today's version. It tells whether there was something to write. An object that is gone needs
	// no write.
	Rewrite(ctx context.Context, item migrate.StorageItem) (changed bool, err error)
	// Restore puts back the owner references that the object had. It tells whether there was something to write.
	Restore(ctx context.Context, item migrate.StorageItem) (changed bool, err error)
}

func (o *Options) complete() error {
	if o.Client == nil || o.Namespace == "" {
		return errors.New("a client and a namespace are needed")
	}
	if o.Reader == nil {
		o.Reader = o.Client
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Progress == nil {
		o.Progress = migrate.Silent{}
	}
	o.Workers = max(o.Workers, 1)
	return nil
}
