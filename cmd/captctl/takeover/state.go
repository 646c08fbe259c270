// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
)

const defaultTimeout = 30 * time.Minute

// part has the flags of a state.
type part struct {
	template, state string
	variables       map[string]string
}

type stateOptions struct {
	target
	part
	vpc                            part
	vpcID, vpcSecret               string
	region, version, eksName       string
	endpointAccess, providerConfig string
	timeout                        time.Duration

	// import has these, too.
	isImport    bool
	importTexts []string
	imports     []states.Import
}

const stateHelp = `With --cluster, prints a Cluster, its CAPTCluster, CAPTControlPlane and WorkspaceTemplateApplies;
with --apply, one WorkspaceTemplateApply, such as a node group or an add-on. With --yes, it creates
them, and waits.

The template is your module, and its ProviderConfig has the backend. The state (--state-name) is a
Terraform workspace of that backend: "default" if you never selected another one. CAPT plans it with
the variables of the objects, and creates a Workspace for it only if Terraform would change no
resource. Otherwise nothing is applied: the plan is shown, resource by resource. Correct the
variables, the template or the state, and run the command again; it continues where it was.

A state that another Workspace or WorkspaceTemplateApply of the management cluster uses is refused.
The command needs the ClusterRole capt-adopter, with a ClusterRoleBinding. A Cluster and its VPC are
protected from deletion, and a WorkspaceTemplateApply retains its resources.

Exit codes: 0 done; 1 error; 3 not adopted: Terraform would change something, its plan fails, or the
state is in use; 124 no result within --timeout.`

func newState(environment *cli.Environment) *cobra.Command {
	o := &stateOptions{target: target{Options: cli.Options{Environment: environment}}}
	command := &cobra.Command{
		Use:   "state (--cluster CLUSTER | --apply NAME) --state-name STATE",
		Short: "Adopt what a Terraform state has",
		Long:  "Adopts an EKS cluster, or other resources, from a Terraform state that exists.\n\n" + stateHelp,
		Example: `  # An EKS cluster; also needs --region and --version. --yes creates the objects, and waits
  captctl adopt state --cluster shop --control-plane-template eks --state-name shop --vpc-id vpc-0a1

  # With a VPC in a state of its own: instead of --vpc-id
  captctl adopt state --cluster shop --vpc-template vpc --vpc-state-name shop-vpc

  # A node group
  captctl adopt state --apply team-a/shop-nodes --template nodes --state-name shop-nodes --yes`,
	}
	o.addFlags(command)
	return cli.NewConnected(command, o)
}

func (o *stateOptions) addFlags(command *cobra.Command) {
	o.target.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.state, "state-name", "", "The Terraform workspace that has the state.")
	flags.StringVar(&o.template, "control-plane-template", "", "The WorkspaceTemplate of the control plane, as [NAMESPACE/]NAME.")
	flags.StringVar(&o.template, "template", "", "With --apply: the WorkspaceTemplate, as [NAMESPACE/]NAME.")
	flags.StringToStringVar(&o.variables, "var", nil, "Variable of the template, as name=value. A value that begins with [ or { is JSON. Can be repeated.")
	flags.StringVar(&o.vpcID, "vpc-id", "", "The ID of the VPC, if CAPT is not to manage it.")
	flags.StringVar(&o.vpcSecret, "vpc-secret", "", "With --vpc-id: the Secret with the key vpc_config, for templates that need the subnets.")
	flags.StringVar(&o.vpc.template, "vpc-template", "", "The WorkspaceTemplate of the VPC, as [NAMESPACE/]NAME.")
	flags.StringVar(&o.vpc.state, "vpc-state-name", "", "The Terraform workspace that has the state of the VPC.")
	flags.StringToStringVar(&o.vpc.variables, "vpc-var", nil, "Variable of the template of the VPC, as name=value. Can be repeated.")
	flags.StringVar(&o.region, "region", "", "The AWS region.")
	flags.StringVar(&o.version, "version", "", "The Kubernetes version of the EKS cluster.")
	flags.StringVar(&o.eksName, "eks-cluster-name", "", "The name of the EKS cluster; the default is that of the Cluster.")
	flags.StringVar(&o.endpointAccess, "endpoint-access", "both", "From where the API server can be reached: public, private or both.")
	flags.StringVar(&o.providerConfig, "provider-config", "", "The ProviderConfig that the templates must have.")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait, with --yes.")
	for _, name := range []string{"control-plane-template", "template", "vpc-template"} {
		cli.CompleteFlag(command, name, o.Access.CompleteTemplates())
	}
	cli.CompleteFlag(command, "endpoint-access", cobra.FixedCompletions([]cobra.Completion{"public", "private", "both"}, cobra.ShellCompDirectiveNoFileComp))
}

// Validate checks which flags are given: for a Cluster, or for a WorkspaceTemplateApply.
func (o *stateOptions) Validate() error {
	var errs []error
	check := func(wrong bool, message string) {
		if wrong {
			errs = append(errs, errors.New(message))
		}
	}
	check(o.state == "" && !o.isImport, "--state-name is required: it names the Terraform workspace")
	check(o.timeout <= 0, "--timeout must be positive")
	vpc := o.vpcID + o.vpc.template
	if o.apply != "" {
		check(o.template == "", "--template is required: it describes the resources of the state")
		check(vpc+o.vpcSecret+o.vpc.state+o.region+o.version+o.eksName != "", "the flags for the VPC, the region, the version and the EKS cluster are for --cluster")
	} else {
		check(o.template == "", "--control-plane-template is required: it describes the resources of the state")
		check(o.region == "" || o.version == "", "--region and --version are required with --cluster")
		check((o.vpcID == "") == (o.vpc.template == ""), "set one of --vpc-id and --vpc-template")
		check(o.vpc.template != "" && o.vpc.state == "", "--vpc-template needs --vpc-state-name")
		check(o.endpointAccess != "both" && o.endpointAccess != "public" && o.endpointAccess != "private", "--endpoint-access must be public, private or both")
	}
	return errors.Join(append(errs, o.Options.Validate())...)
}

func (o *stateOptions) Run(ctx context.Context, connected client.WithWatch) error {
	a := &adoption{stateOptions: o, client: connected, request: o.Clock.Now().UTC().Format(time.RFC3339Nano)}
	if err := a.read(ctx); err != nil {
		return err
	}
	if o.Asks() {
		if err := o.print(a.objects()); err != nil {
			return err
		}
		fmt.Fprintln(o.ErrOut, "Nothing was written: --yes creates these objects, and waits for the plan. If another tool creates them, set spec.paused of the Cluster to false when all exist.")
		return nil
	}
	return a.run(ctx)
}

// adoption is what a run of captctl adopt state or import does.
type adoption struct {
	*stateOptions
	client  client.WithWatch
	request string
	states.Objects
	// imported is the template with the import blocks; nil without any.
	imported *infrav1.WorkspaceTemplate
	// isImported is true if that exists, and needs no import any more.
	isImported bool
	last       map[string]string
}

func reference(key types.NamespacedName, of string) infrav1.WorkspaceTemplateReference {
	ref := infrav1.WorkspaceTemplateReference{Name: key.Name}
	if key.Namespace != of {
		ref.Namespace = key.Namespace
	}
	return ref
}

// read reads what exists, and decides what is to be created.
func (a *adoption) read(ctx context.Context) error {
	main, err := a.part.read(ctx, a, a.stateOptions.template)
	if err != nil {
		return err
	}
	if a.isImport {
		if err := a.prepareImport(ctx, &main); err != nil {
			return err
		}
	}
	if a.stateOptions.apply != "" {
		apply := main.Apply(a.key)
		apply.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
		a.Applies = append(a.Applies, apply)
		return a.checkExisting(ctx)
	}
	c := states.Cluster{
		Key: a.key, Region: a.region, Version: a.version, EKSName: a.eksName, ControlPlane: main, ExistingVPC: a.vpcID, VPCSecret: a.vpcSecret,
		PublicEndpoint: a.endpointAccess != "private", PrivateEndpoint: a.endpointAccess != "public",
	}
	if a.vpcID == "" {
		if c.VPC, err = a.vpc.read(ctx, a, a.vpc.template); err != nil {
			return err
		}
	}
	a.Objects = *c.Objects()
	return a.checkExisting(ctx)
}

// read reads the template of a state, and parses its variables.
func (p *part) read(ctx context.Context, a *adoption, name string) (states.Part, error) {
	key := a.keyOf(name)
	template, err := get(ctx, a.client, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return states.Part{}, err
	}
	if template == nil {
		return states.Part{}, fmt.Errorf("WorkspaceTemplate %s does not exist. Create it from your module: captctl template init", key)
	}
	if config := states.ConfigOf(template, a.key.Namespace); a.providerConfig != "" && config.GetName() != a.providerConfig {
		return states.Part{}, fmt.Errorf("WorkspaceTemplate %s has ProviderConfig %s, not %s, so its backend may be another one. Correct spec.template.spec.providerConfigRef", key, config.GetName(), a.providerConfig)
	}
	out := states.Part{Template: reference(key, a.key.Namespace), State: infrav1.TerraformState{Name: p.state, ProviderConfig: states.ConfigNameOf(template)}, Variables: infrav1.Variables{}}
	for name, value := range p.variables {
		if out.Variables[name] = infrav1.TextValue(value); strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{") {
			if !json.Valid([]byte(value)) {
				return out, fmt.Errorf("the value of variable %s begins like JSON, and is not valid JSON", name)
			}
			out.Variables[name] = apiextensionsv1.JSON{Raw: []byte(value)}
		}
	}
	return out, nil
}

// objects are all objects in the order in which they are created.
func (a *adoption) objects() (objects []client.Object) {
	if a.imported != nil && !a.isImported {
		objects = append(objects, a.imported)
	}
	if a.Cluster != nil {
		objects = append(objects, a.Cluster)
	}
	for _, apply := range a.Applies {
		objects = append(objects, apply)
	}
	if a.Cluster != nil {
		objects = append(objects, a.CAPTCluster, a.ControlPlane)
	}
	return objects
}

// checkExisting refuses states that are in use, and objects of these names that are not of an earlier run.
func (a *adoption) checkExisting(ctx context.Context) error {
	for _, apply := range a.Applies {
		existing, err := get(ctx, a.client, client.ObjectKeyFromObject(apply), &infrav1.WorkspaceTemplateApply{})
		switch {
		case err != nil:
			return err
		case existing == nil:
			apply.Annotations = map[string]string{naming.ProveAnnotation: a.request}
		case existing.Spec.TerraformState.Name != apply.Spec.TerraformState.Name:
			return decision("WorkspaceTemplateApply %s exists, and does not adopt Terraform state %s: use another name, or delete it", client.ObjectKeyFromObject(apply), apply.Spec.TerraformState.Name)
		case states.IsPending(existing):
			apply.UID, apply.CreationTimestamp = existing.UID, existing.CreationTimestamp
			apply.Annotations = map[string]string{naming.ProveAnnotation: a.request}
		default:
			continue // It has its Workspace.
		}
		user, err := a.userOf(ctx, apply)
		if err != nil {
			return err
		}
		if user != "" {
			return decision("Terraform state %s is in use by %s: nothing was written. Release it there first", apply.Spec.TerraformState.Name, user)
		}
	}
	return a.checkCluster(ctx)
}

func (a *adoption) checkCluster(ctx context.Context) error {
	if a.Cluster == nil {
		return nil
	}
	cluster, err := get(ctx, a.client, a.key, &clusterv1.Cluster{})
	if err == nil && cluster != nil && (cluster.Spec.ControlPlaneRef.Name != a.key.Name || cluster.Spec.InfrastructureRef.Name != a.key.Name) {
		return decision("Cluster %s exists with other objects: use another name", a.key)
	}
	captCluster, err2 := get(ctx, a.client, a.key, &infrav1.CAPTCluster{})
	controlPlane, err3 := get(ctx, a.client, a.key, &controlplanev1.CAPTControlPlane{})
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if a.isOther(captCluster, controlPlane) {
		return decision("CAPTCluster or CAPTControlPlane %s exists, and was not created by captctl adopt: use another name", a.key)
	}
	if cluster != nil && captCluster != nil && controlPlane != nil {
		a.Cluster.Spec.Paused = cluster.Spec.Paused // All exist: the run continues without a pause.
	}
	return nil
}

// isOther reports whether one of the owners exists for another WorkspaceTemplateApply. They may be nil.
func (a *adoption) isOther(captCluster *infrav1.CAPTCluster, controlPlane *controlplanev1.CAPTControlPlane) bool {
	otherVPC := captCluster != nil && captCluster.Spec.WorkspaceTemplateApplyRef != a.CAPTCluster.Spec.WorkspaceTemplateApplyRef
	return otherVPC || controlPlane != nil && controlPlane.Spec.WorkspaceTemplateApplyRef != a.ControlPlane.Spec.WorkspaceTemplateApplyRef
}

// userOf describes who has the state of an object.
func (a *adoption) userOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	templateOf := func(other *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
		if a.imported != nil && other.TemplateKey() == client.ObjectKeyFromObject(a.imported) {
			return a.imported, nil
		}
		return get(ctx, a.client, other.TemplateKey(), &infrav1.WorkspaceTemplate{})
	}
	template, err := templateOf(apply)
	if err != nil || template == nil {
		return "", err
	}
	claim, err := readClaim(ctx, a.client, templateOf)
	if err != nil {
		return "", err
	}
	claim.Apply, claim.Config = apply, states.ConfigOf(template, apply.Namespace)
	return claim.User()
}

// readClaim reads what may have a state. templateOf may be nil.
func readClaim(ctx context.Context, reader client.Reader, templateOf func(*infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error)) (*states.Claim, error) {
	if templateOf == nil {
		templateOf = func(of *infrav1.WorkspaceTemplateApply) (*infrav1.WorkspaceTemplate, error) {
			return get(ctx, reader, of.TemplateKey(), &infrav1.WorkspaceTemplate{})
		}
	}
	claim := &states.Claim{Template: templateOf, Read: func(config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return get(ctx, reader, client.ObjectKeyFromObject(config), config)
	}}
	for _, scope := range terraform.Scopes() {
		workspaces, err := cli.ListWorkspaces(ctx, reader, scope, "")
		if err != nil {
			return nil, err
		}
		claim.Workspaces = append(claim.Workspaces, workspaces...)
	}
	var applies infrav1.WorkspaceTemplateApplyList
	err := reader.List(ctx, &applies)
	claim.Applies = applies.Items
	return claim, err
}

// readImports adds the imports of flags and files.
func (o *stateOptions) readImports() error {
	for _, text := range o.importTexts {
		one, err := states.ParseImport(text)
		if err != nil {
			return fmt.Errorf("--import: %w", err)
		}
		o.imports = append(o.imports, one)
	}
	for _, path := range o.Paths {
		var list []states.Import
		data, err := os.ReadFile(path) //nolint:gosec // Users choose it.
		if err == nil {
			err = yaml.UnmarshalStrict(data, &list)
		}
		if err != nil {
			return fmt.Errorf("%s must have a list of imports, each with to and id: %w", path, err)
		}
		for _, one := range list {
			if err := one.Validate(); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		o.imports = append(o.imports, list...)
	}
	if len(o.imports) == 0 {
		return errors.New("nothing to import: set --import or --filename")
	}
	return nil
}

func decision(format string, args ...any) error { return migrate.NeedsDecision.Errorf(format, args...) }
