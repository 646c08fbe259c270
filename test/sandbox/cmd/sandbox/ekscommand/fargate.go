// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ekscommand

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/eks"
)

// profileDuration is how long creating or deleting a Fargate profile takes. It takes minutes in EKS. It must not be zero
// here: otherwise two operations would never overlap.
const profileDuration = time.Second

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
			if err := cli.Prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.server.Dir, "dir", cli.DefaultDir, "directory of the sandbox")
	cmd.Flags().StringVar(&o.server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&o.profile.Name, "profile", "", "name of the Fargate profile")
	cmd.Flags().DurationVar(&o.takes, "takes", profileDuration, "duration of the operation")
	if create {
		cmd.Flags().StringVar(&o.selectors, "selectors", "[]", "JSON list of objects with a namespace and optional labels")
		cmd.Flags().StringVar(&o.subnets, "subnets", "[]", "JSON list of private subnet IDs")
	}
	return cmd
}

// Complete makes the directory absolute and parses the JSON flags.
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
