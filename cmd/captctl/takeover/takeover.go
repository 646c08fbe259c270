// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover is captctl adopt, backup, restore and evacuate: it brings clusters under CAPT whose Terraform state, or whose cloud resources, exist. The
// objects that it creates hold themselves until Terraform has planned them; api/states has the rules.
package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planning/local"
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

type listOptions struct {
	cli.Options
	config, program string
	used            bool
}

func newList(environment *cli.Environment) *cobra.Command {
	o := &listOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "list --provider-config KIND/NAME",
		Short: "List the Terraform states of a backend that nothing uses",
		Long: `Lists the Terraform workspaces of the backend of a ProviderConfig that no object of the management
cluster uses; with --used, all, and who has each of them, and the Workspaces whose state does not
exist. A state without resources is marked "empty".

It uses your credentials: terraform workspace list and state pull on this machine or, for the
backend kubernetes, the right to list its Secrets. Nothing is changed.`,
		Example: `  captctl adopt list --provider-config ClusterProviderConfig/aws
  captctl adopt list --provider-config aws --used      # of cluster-wide Workspaces`,
	}
	flags := command.Flags()
	flags.StringVar(&o.config, "provider-config", "", "ClusterProviderConfig/NAME, ProviderConfig/NAME in the namespace of --namespace, or NAME for cluster-wide Workspaces.")
	flags.BoolVar(&o.used, "used", false, "Also list states that are in use, and by what.")
	flags.StringVar(&o.program, "terraform", "", "Path of tofu or terraform. The default is the first of them on PATH.")
	return cli.NewConnected(command, o)
}

func (o *listOptions) Validate() error {
	return cmp.Or(cli.When(o.config == "", "--provider-config is required: it has the backend"), o.Options.Validate())
}

func (o *listOptions) Run(ctx context.Context, connected client.WithWatch) error {
	config := &unstructured.Unstructured{}
	kind, name, namespaced := strings.Cut(o.config, "/")
	scope := terraform.ScopeNamespaced
	if !namespaced {
		scope, kind, name = terraform.ScopeCluster, "ProviderConfig", o.config
	}
	config.SetGroupVersionKind(scope.GroupVersionKind().GroupVersion().WithKind(kind))
	config.SetName(name)
	if namespaced && kind == "ProviderConfig" {
		namespace, _, err := o.Access.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		config.SetNamespace(namespace)
	}
	if err := connected.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return err
	}
	claim, err := readClaim(ctx, connected, nil)
	if err != nil {
		return err
	}
	claim.Config, claim.Discloses = config, true
	found, err := local.States(ctx, o.Environment, connected, config, o.program, o.used, func(state string) (string, error) {
		claim.Apply = &infrav1.WorkspaceTemplateApply{Spec: infrav1.WorkspaceTemplateApplySpec{TerraformState: infrav1.TerraformState{Name: state}}}
		return claim.User()
	})
	if err != nil {
		return err
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Name
	}
	missing, err := claim.Missing(names)
	if err == nil {
		o.show(found, missing)
	}
	return err
}

func (o *listOptions) show(found []local.State, missing []string) {
	p := o.Printer()
	shown := 0
	for _, state := range found {
		if state.User != "" && !o.used {
			continue
		}
		line := state.Name
		if state.Empty {
			line += "  empty"
		}
		if state.User != "" {
			line += "  in use by " + state.User
		}
		shown++
		p.Text("", output.Plain, line)
	}
	if o.used {
		for _, line := range missing {
			p.Text("", output.Attention, line+", but does not exist: Terraform would create everything")
		}
	}
	if shown == 0 {
		p.Text("", output.Plain, fmt.Sprintf("No such state: the backend has %s", output.Count(len(found), "state")))
	}
}
