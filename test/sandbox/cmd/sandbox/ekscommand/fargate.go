// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ekscommand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	cmd := cli.NewCommand(verb, short, &o.server.Dir, o.complete, o.run)
	cmd.Flags().StringVar(&o.server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&o.profile.Name, "profile", "", "name of the Fargate profile")
	cmd.Flags().DurationVar(&o.takes, "takes", profileDuration, "duration of the operation")
	if create {
		cmd.Flags().StringVar(&o.selectors, "selectors", "[]", "JSON list of objects with a namespace and optional labels")
		cmd.Flags().StringVar(&o.subnets, "subnets", "[]", "JSON list of private subnet IDs")
	}
	return cmd
}

// complete parses the JSON flags and checks the names.
func (o *fargateOptions) complete(context.Context) error {
	if o.create {
		if err := json.Unmarshal([]byte(o.selectors), &o.profile.Selectors); err != nil {
			return fmt.Errorf("--selectors: %w", err)
		}
		if err := json.Unmarshal([]byte(o.subnets), &o.profile.Subnets); err != nil {
			return fmt.Errorf("--subnets: %w", err)
		}
	}
	return errors.Join(o.server.Validate(), o.profile.Validate())
}

// run creates or deletes the profile.
func (o *fargateOptions) run(ctx context.Context) error {
	if o.create {
		return o.server.CreateFargateProfile(ctx, o.profile, o.takes)
	}
	return o.server.DeleteFargateProfile(ctx, o.profile.Name, o.takes)
}
