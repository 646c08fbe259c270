// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planning/local"
)

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
	if o.config == "" {
		return errors.New("--provider-config is required: it has the backend")
	}
	return o.Options.Validate()
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
