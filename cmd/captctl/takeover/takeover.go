// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover is captctl adopt, backup, restore and evacuate: it brings clusters under CAPT whose Terraform state, or whose cloud resources, exist. The
// objects that it creates hold themselves until Terraform has planned them; api/states has the rules.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// fieldManager of what captctl adopt applies.
const fieldManager = "captctl-adopt"

// New returns captctl adopt.
func New(environment *cli.Environment) *cobra.Command {
	return cli.NewGroup(environment, &cobra.Command{
		Use:   "adopt",
		Short: "Adopt clusters that Terraform, or something else, has created",
		Long: `Brings EKS clusters, node groups and add-ons under CAPT that exist already: state if they are in a
Terraform state, import if they are in none. Nothing is applied before a plan has shown that
Terraform would change no resource. release takes them out again, without touching cloud or state.

Objects of CAPT v0.3 are adopted with captctl migrate.`,
		Example: `  # Print what would be created for an EKS cluster in the Terraform state shop; also needs --region
  # and --version
  captctl adopt state --cluster shop --control-plane-template eks --state-name shop --vpc-id vpc-0a1

  # Take it out again
  captctl adopt release --cluster team-a/shop --yes`,
	}, newState, newImport, newRelease, newList)
}

// target is what is adopted or released: a Cluster, or one WorkspaceTemplateApply.
type target struct {
	cli.Options
	cli.Writes
	cluster, apply string
	key            types.NamespacedName
	// backup is the file of captctl restore.
	backup string
}

func (o *target) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "The Cluster, as [NAMESPACE/]NAME.")
	flags.StringVar(&o.apply, "apply", "", "Instead of a Cluster: one WorkspaceTemplateApply, as [NAMESPACE/]NAME, for example of a node group.")
	cli.CompleteFlag(command, "cluster", o.Access.CompleteClusters())
	cli.CompleteFlag(command, "apply", cobra.NoFileCompletions)
	o.AddYes(command)
}

func (o *target) Complete([]string) error {
	keys, err := o.Keys([]string{o.cluster + o.apply})
	if (o.cluster == "") == (o.apply == "") {
		return errors.New("set one of --cluster and --apply")
	}
	if err == nil {
		o.key = keys[0]
	}
	return err
}

func (o *target) title() string {
	if o.backup != "" {
		return "The backup " + o.backup
	}
	if o.apply != "" {
		return "WorkspaceTemplateApply " + o.key.String()
	}
	return "Cluster " + o.key.String()
}

func (o *target) print(objects []client.Object) error {
	for _, object := range objects {
		content, err := ssa.Unstructured(object)
		if err != nil {
			return err
		}
		data, err := yaml.Marshal(content.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "---\n%s", data)
	}
	return nil
}

// applyAll applies objects in their order. The order matters: a Cluster that is paused comes first, so that nothing is created for what is still missing.
func applyAll(ctx context.Context, to client.Client, objects []client.Object) error {
	for _, object := range objects {
		content, err := ssa.Unstructured(object)
		if err == nil {
			err = to.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), client.FieldOwner(fieldManager), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w. Run the command again to continue", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	return nil
}

func (o *target) keyOf(text string) types.NamespacedName {
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		return types.NamespacedName{Namespace: o.key.Namespace, Name: text}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// kinds are those whose changes a command waits for.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
		infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
	}
}
