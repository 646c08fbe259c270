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

// Package look has those commands of captctl migrate that write nothing into a cluster.
package look

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
)

// fleet is which part of the cluster to look at.
type fleet struct {
	everywhere bool
}

func (f *fleet) add(command *cobra.Command) {
	command.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false, "Look at all namespaces. This is the default, whatever the namespace of the context is; --namespace looks at one.")
}

func (f *fleet) validate(environment *cli.Environment) error {
	if f.everywhere && environment.Access.Only() != "" {
		return errors.New("--all-namespaces and --namespace exclude each other; use one of them")
	}
	return nil
}

// read takes a snapshot of the cluster.
func read(ctx context.Context, environment *cli.Environment) (*migrate.Snapshot, error) {
	reader, err := environment.Access.Client()
	if err != nil {
		return nil, err
	}
	return migrate.Read(ctx, reader, environment.Access.Only(), environment.Clock.Now())
}
