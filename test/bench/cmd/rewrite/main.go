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

// The command rewrite does the storage phase of captctl migrate and nothing else, so that its memory can be measured. It prints
// one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
)

// progress counts.
type progress struct{ done, calls atomic.Int64 }

func (p *progress) Phase(string, int) {}

func (p *progress) Add(count int) {
	p.done.Add(int64(count))
	p.calls.Add(1)
}

// result is what is printed.
type result struct {
	storage.Counts
	Objects  int
	Progress int64
	Seconds  float64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("rewrite", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "path")
	qps := flags.Float64("qps", 20, "requests a second")
	workers := flags.Int("workers", 4, "objects at a time")
	_ = flags.Parse(os.Args[1:]) // It ends the program when they are wrong.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(*qps), 1
	c, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	var items []migrate.StorageItem
	for _, kind := range migrate.Kinds() {
		found, err := storage.Items(ctx, c, kind, "")
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	told, began := &progress{}, time.Now()
	counts, err := storage.NewRewriter(c).Run(ctx, items, *workers, told)
	if err != nil {
		return err
	}
	if told.calls.Load() != told.done.Load() {
		return fmt.Errorf("progress was told of %d objects in %d calls", told.done.Load(), told.calls.Load())
	}
	return json.NewEncoder(os.Stdout).Encode(result{counts, len(items), told.done.Load(), time.Since(began).Seconds()})
}
