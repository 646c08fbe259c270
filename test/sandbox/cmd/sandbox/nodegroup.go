// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/eks"
)

// newNodeGroupCommands returns the commands of Terraform modules, and those that change or break what Terraform has created.
func newNodeGroupCommands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{
		newApplyNodeGroupCommand(),
		newDeleteNodeGroupCommand(),
		newDescribeNodeGroupsCommand(streams),
		newScaleNodeGroupCommand(),
		newBreakNodeGroupCommand(),
		newBreakNodeCommand(true, "break-node", "Make a node NotReady until it is repaired"),
		newBreakNodeCommand(false, "repair-node", "Make a broken node Ready again"),
	}
}

func newNodeGroupCommand(verb, short string, do func(ctx context.Context, server eks.Server, name string) error) *cobra.Command {
	var server eks.Server
	var name string
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		if err := errors.Join(server.Validate(), eks.NodeGroup{Name: name}.Validate()); err != nil {
			return err
		}
		return do(ctx, server, name)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&name, "nodegroup", "", "name of the node group")
	return cmd
}

func addTakes(cmd *cobra.Command, takes *time.Duration) {
	cmd.Flags().DurationVar(takes, "takes", profileDuration, "duration of a step: all nodes are created or removed at once, but replaced one by one")
}

func newApplyNodeGroupCommand() *cobra.Command {
	var input string
	var takes time.Duration
	cmd := newNodeGroupCommand("create-or-update-nodegroup", "Create or update a managed node group of a cluster, and wait for its nodes",
		func(ctx context.Context, server eks.Server, name string) error {
			group := eks.NodeGroup{}
			if err := json.Unmarshal([]byte(input), &group); err != nil {
				return fmt.Errorf("--cli-input-json: %w", err)
			}
			group.Name = name
			return server.ApplyNodeGroup(ctx, group, takes)
		})
	addTakes(cmd, &takes)
	cmd.Flags().StringVar(&input, "cli-input-json", `{"scalingConfig":{"minSize":1,"maxSize":1,"desiredSize":1}}`,
		"JSON object with the fields of EKS; without a version, the nodes have that of the cluster")
	return cmd
}

func newDeleteNodeGroupCommand() *cobra.Command {
	var takes time.Duration
	cmd := newNodeGroupCommand("delete-nodegroup", "Delete a managed node group and its nodes", func(ctx context.Context, server eks.Server, name string) error {
		return server.DeleteNodeGroup(ctx, name, takes)
	})
	addTakes(cmd, &takes)
	return cmd
}

func newDescribeNodeGroupsCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var server eks.Server
	cmd := newDirCommand("describe-nodegroups", "Print the node groups of a cluster as JSON", &server.Dir, func(context.Context) error {
		if err := server.Validate(); err != nil {
			return err
		}
		groups, err := server.NodeGroups()
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(groups)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	return cmd
}

func newScaleNodeGroupCommand() *cobra.Command {
	var scaling eks.Scaling
	cmd := newNodeGroupCommand("update-nodegroup-config", "Change the size of a node group without Terraform, as an autoscaler does",
		func(ctx context.Context, server eks.Server, name string) error {
			return server.Rescale(ctx, name, scaling)
		})
	const unchanged = -1
	cmd.Flags().IntVar(&scaling.Min, "min-size", unchanged, "minimum number of nodes, if it changes")
	cmd.Flags().IntVar(&scaling.Max, "max-size", unchanged, "maximum number of nodes, if it changes")
	cmd.Flags().IntVar(&scaling.Desired, "desired-size", unchanged, "number of nodes, if it changes")
	return cmd
}

func newBreakNodeGroupCommand() *cobra.Command {
	var failure string
	cmd := newNodeGroupCommand("break-nodegroup", "Make operations on a node group fail or hang, or the node group DEGRADED",
		func(ctx context.Context, server eks.Server, name string) error {
			if !slices.Contains(eks.Failures(), eks.Failure(failure)) {
				return fmt.Errorf("--failure: %q is not one of %v", failure, eks.Failures())
			}
			return server.BreakNodeGroup(ctx, name, eks.Failure(failure))
		})
	cmd.Flags().StringVar(&failure, "failure", "", "what fails from now on: create, update (of the version), hang (an operation does not end), or health (DEGRADED); none repairs it")
	return cmd
}

func newBreakNodeCommand(broken bool, verb, short string) *cobra.Command {
	var server eks.Server
	var node string
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		if err := server.Validate(); err != nil {
			return err
		}
		return server.BreakNode(ctx, node, broken)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&node, "node", "", "name of the node")
	return cmd
}

func nodeGroups(out io.Writer, server eks.Server) error {
	all, err := server.NodeGroups()
	for _, group := range all {
		fmt.Fprintf(out, "%-26s %s, version %s, %d nodes (%d to %d)\n", "  node group "+group.Name, group.Status, group.Version,
			group.Scaling.Desired, group.Scaling.Min, group.Scaling.Max)
	}
	return err
}
