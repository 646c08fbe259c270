// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/eks"
)

// clusterTimeout limits how long a cluster may take to start or stop.
const clusterTimeout = 5 * time.Minute

// eksOptions are the options of eks start and eks stop.
type eksOptions struct {
	genericiooptions.IOStreams
	server  eks.Server
	version string
	start   bool
}

// newEKSCommand returns the commands that the sandbox's Terraform modules call in place of the EKS API.
func newEKSCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eks",
		Short: "Manage simulated EKS clusters; called by the sandbox's Terraform modules",
	}
	cmd.AddCommand(
		newEKSVerb(streams, true, "start", "Start a cluster or change its version"),
		newEKSVerb(streams, false, "stop", "Stop a cluster and remove its data"),
		newFargateVerb(streams, true, "create-fargate-profile", "Create a Fargate profile of a cluster"),
		newFargateVerb(streams, false, "delete-fargate-profile", "Delete a Fargate profile of a cluster"),
	)
	return cmd
}

func newEKSVerb(streams genericiooptions.IOStreams, start bool, verb, short string) *cobra.Command {
	o := &eksOptions{IOStreams: streams, start: start}
	cmd := newDirCommand(verb, short, &o.server.Dir, o.validate, o.run)
	cmd.Flags().StringVar(&o.server.Name, "name", "", "name of the cluster")
	if start {
		cmd.Flags().StringVar(&o.version, "version", "", "Kubernetes version, for example 1.35")
	}
	return cmd
}

func (o *eksOptions) validate(context.Context) error {
	if o.start && o.version == "" {
		return errors.New("--version is required")
	}
	return o.server.Validate()
}

// run starts or stops the cluster.
func (o *eksOptions) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if !o.start {
		if err := o.server.Stop(ctx); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "stopped cluster %s\n", o.server.Name)
		return nil
	}
	if err := o.server.Start(ctx, o.version); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "cluster %s runs Kubernetes %s at %s\n", o.server.Name, o.version, o.server.Endpoint())
	return nil
}

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
	cmd := newDirCommand(verb, short, &o.server.Dir, o.complete, o.run)
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
