// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/eks"
)

// fargateTakes is how long a profile takes to come or to go. EKS needs minutes; without any time, two could never meet.
const fargateTakes = time.Second

// fargateOptions are the options of eks create-fargate-profile and eks delete-fargate-profile.
type fargateOptions struct {
	genericiooptions.IOStreams
	server    eks.Server
	profile   eks.FargateProfile
	selectors string
	subnets   string
	takes     time.Duration
	create    bool
}

func newFargateVerb(streams genericiooptions.IOStreams, create bool, verb, short string) *cobra.Command {
	o := &fargateOptions{IOStreams: streams, create: create}
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.server.Dir, "dir", defaultDir, "folder of the sandbox")
	cmd.Flags().StringVar(&o.server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&o.profile.Name, "profile", "", "name of the Fargate profile")
	cmd.Flags().DurationVar(&o.takes, "takes", fargateTakes, "how long it takes")
	if create {
		cmd.Flags().StringVar(&o.selectors, "selectors", "[]", "JSON: objects with namespace, and perhaps labels")
		cmd.Flags().StringVar(&o.subnets, "subnets", "[]", "JSON: ids of private subnets")
	}
	return cmd
}

// Complete makes the folder absolute and reads what is given in JSON.
func (o *fargateOptions) Complete([]string) (err error) {
	if o.server.Dir, err = filepath.Abs(o.server.Dir); err != nil || !o.create {
		return err
	}
	if err := json.Unmarshal([]byte(o.selectors), &o.profile.Selectors); err != nil {
		return fmt.Errorf("--selectors: %w", err)
	}
	if err := json.Unmarshal([]byte(o.subnets), &o.profile.Subnets); err != nil {
		return fmt.Errorf("--subnets: %w", err)
	}
	return nil
}

// Validate checks the names.
func (o *fargateOptions) Validate() error {
	if err := o.server.Validate(); err != nil {
		return err
	}
	return o.profile.Validate()
}

// Run creates or deletes the profile.
func (o *fargateOptions) Run(ctx context.Context) error {
	if o.create {
		return o.server.CreateFargateProfile(ctx, o.profile, o.takes)
	}
	return o.server.DeleteFargateProfile(ctx, o.profile.Name, o.takes)
}
