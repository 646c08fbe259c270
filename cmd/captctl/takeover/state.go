// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
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
	check := func(wrong bool, message string) { errs = append(errs, cli.When(wrong, "%s", message)) }
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
	template, err := cli.Get(ctx, a.client, key, &infrav1.WorkspaceTemplate{})
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
		existing, err := cli.Get(ctx, a.client, client.ObjectKeyFromObject(apply), &infrav1.WorkspaceTemplateApply{})
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
	cluster, err := cli.Get(ctx, a.client, a.key, &clusterv1.Cluster{})
	if err == nil && cluster != nil && (cluster.Spec.ControlPlaneRef.Name != a.key.Name || cluster.Spec.InfrastructureRef.Name != a.key.Name) {
		return decision("Cluster %s exists with other objects: use another name", a.key)
	}
	captCluster, err2 := cli.Get(ctx, a.client, a.key, &infrav1.CAPTCluster{})
	controlPlane, err3 := cli.Get(ctx, a.client, a.key, &controlplanev1.CAPTControlPlane{})
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
		return cli.Get(ctx, a.client, other.TemplateKey(), &infrav1.WorkspaceTemplate{})
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
			return cli.Get(ctx, reader, of.TemplateKey(), &infrav1.WorkspaceTemplate{})
		}
	}
	claim := &states.Claim{Template: templateOf, Read: func(config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return cli.Get(ctx, reader, client.ObjectKeyFromObject(config), config)
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

// run creates the objects, and waits until all states are adopted.
func (a *adoption) run(ctx context.Context) error {
	if err := applyAll(ctx, a.client, a.objects()); err != nil {
		return err
	}
	if a.Cluster != nil && ptr.Deref(a.Cluster.Spec.Paused, false) {
		if err := patch(ctx, a.client, a.Cluster, map[string]any{"spec": map[string]any{"paused": false}}); err != nil {
			return err
		}
	}
	waiting, stop := context.WithTimeout(ctx, a.timeout)
	defer stop()
	if err := a.until(waiting, a.adopted); err != nil {
		return err
	}
	if a.imported != nil {
		if err := a.removeImports(waiting); err != nil {
			return err
		}
	}
	a.Printer().Text("", output.Good, a.title()+" is adopted")
	return nil
}

// patch sends a merge patch. It changes the object, whose UID and version must not matter.
func patch(ctx context.Context, to client.Client, object client.Object, content map[string]any) error {
	return to.Patch(ctx, object, cli.MergePatch(content), client.FieldOwner(fieldManager))
}

// until waits until a function returns true. Its error ends the wait, unless it is of a read: the API server may restart.
func (a *adoption) until(ctx context.Context, reached func(context.Context) (bool, error)) (failed error) {
	done := false
	check := func(ctx context.Context) (bool, error) {
		var outcome *migrate.OutcomeError
		var err error
		if done, err = reached(ctx); errors.As(err, &outcome) {
			done, failed, err = true, err, nil
		}
		return done, err
	}
	if _, err := check(ctx); err != nil {
		return err
	}
	if !done {
		if err := a.Follow(ctx, a.client, cli.Watched{Namespace: a.key.Namespace, Kinds: kinds()}, check); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return failed
	case !done && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return migrate.TimedOut.Errorf("%s: not adopted within %s. Run the command again to continue to wait", a.title(), a.timeout)
	}
	return ctx.Err()
}

// adopted reports whether all states are adopted. The error is what a user must correct.
func (a *adoption) adopted(ctx context.Context) (bool, error) {
	all := true
	for _, wanted := range a.Applies {
		apply, err := cli.Get(ctx, a.client, client.ObjectKeyFromObject(wanted), &infrav1.WorkspaceTemplateApply{})
		switch {
		case err != nil:
			return false, err
		case apply == nil:
			return false, decision("WorkspaceTemplateApply %s was deleted", client.ObjectKeyFromObject(wanted))
		case isNotProven(apply):
			return false, a.showPlan(apply)
		}
		ready := conditions.Get(apply, infrav1.ReadyCondition)
		switch {
		case ready == nil || ready.ObservedGeneration != apply.Generation:
			all = false
		case ready.Reason == infrav1.WorkspaceConflictReason:
			return false, decision("WorkspaceTemplateApply %s: %s", client.ObjectKeyFromObject(apply), ready.Message)
		case ready.Status != metav1.ConditionTrue || states.IsPending(apply):
			all = false
			a.show(apply.Name, a.waitsFor(ctx, apply, ready.Message))
		}
	}
	return all, nil
}

func isNotProven(apply *infrav1.WorkspaceTemplateApply) bool {
	plan := &apply.Status.Preview
	return states.IsPending(apply) && plan.Proof == apply.Annotations[naming.ProveAnnotation] && plan.Result != "" && !states.IsProvenBy(plan) && conditions.GetReason(apply, infrav1.ReadyCondition) == infrav1.NotProvenReason
}

// waitsFor is what an object waits for: its message, or the message of the owner that is to write it.
func (a *adoption) waitsFor(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, message string) string {
	var owner conditions.Getter = &controlplanev1.CAPTControlPlane{}
	if a.Cluster != nil && apply.Name == a.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name {
		owner = &infrav1.CAPTCluster{}
	}
	if !claim.AwaitsOwner(apply) || a.client.Get(ctx, a.key, owner.(client.Object)) != nil { //nolint:forcetypeassert // Both kinds are objects.
		return message
	}
	if conditions.IsTrue(owner, clusterv1.PausedCondition) {
		return ""
	}
	return conditions.GetMessage(owner, infrav1.ReadyCondition)
}

// show prints a line on standard error when it differs from the last one of that object.
func (a *adoption) show(name, text string) {
	if a.last == nil {
		a.last = map[string]string{}
	}
	if text != "" && a.last[name] != text {
		a.last[name] = text
		output.NewPrinter(a.ErrOut, output.Table, a.NoColor).Text("", output.Plain, name+": "+output.OneLine(text))
	}
}

// showPlan prints a plan that changes something, or why there is none, and returns the error.
func (a *adoption) showPlan(apply *infrav1.WorkspaceTemplateApply) error {
	plan := overview.RequestedPlan(apply, &apply.Status.Preview)
	p := a.Printer()
	p.Text("", output.Attention, fmt.Sprintf("WorkspaceTemplateApply %s is not adopted. Plan of Terraform state %s: %s", client.ObjectKeyFromObject(apply), apply.Spec.TerraformState.Name, plan.Summary))
	for _, line := range plan.Lines(output.AllResources) {
		p.Text("  ", output.Plain, line)
	}
	next := "Correct the variables (--var, or spec.variables of the CAPTControlPlane), the template or the state, and run the command again"
	if slices.ContainsFunc(ptr.Deref(apply.Status.Preview.Changes, infrav1.PlannedChanges{}).Counts, func(c infrav1.PlannedCount) bool { return c.Action == infrav1.PlanCreate }) {
		next = "If Terraform would create everything, the name of the state, or the backend of the ProviderConfig, is wrong. " + next
	}
	return decision("Terraform state %s is not adopted, and nothing was applied. %s. captctl adopt release removes the objects", apply.Spec.TerraformState.Name, next)
}

func newImport(environment *cli.Environment) *cobra.Command {
	o := &stateOptions{target: target{Options: cli.Options{Environment: environment}}, isImport: true}
	command := &cobra.Command{
		Use:   "import (--cluster CLUSTER | --apply NAME) --import ADDRESS=ID",
		Short: "Adopt cloud resources that are in no Terraform state",
		Long: `Adopts an EKS cluster, or other resources, that no Terraform state has.

The template is copied as NAME-imported, with import blocks in its module, which must be inline and
in HCL. The plan must show imports, and nothing else. Terraform then imports the resources to a new
state. A second revision of the template removes the blocks; it is assigned when its plan is empty.
The VPC is one that CAPT does not manage, or in a state.

` + stateHelp,
		Example: `  # A node group; a Cluster needs the flags of captctl adopt state
  captctl adopt import --apply team-a/nodes --template nodes --import aws_eks_node_group.a=old:a
  captctl adopt import --apply team-a/nodes --template nodes -f imports.yaml --yes`,
	}
	o.addFlags(command)
	command.Flags().StringArrayVar(&o.importTexts, "import", nil, "Resource to import, as ADDRESS=ID. Can be repeated.")
	command.Flags().StringArrayVarP(&o.Paths, "filename", "f", nil, "File with a list of imports, each with to and id. Can be repeated.")
	cli.CompleteFlag(command, "filename", cli.Files("yaml", "yml", "json"))
	return cli.NewConnected(command, o)
}

// importedName is the name of the template with the import blocks.
func (a *adoption) importedName() types.NamespacedName {
	return types.NamespacedName{Namespace: a.key.Namespace, Name: a.key.Name + "-imported"}
}

// prepareImport makes the copy of the template that an import uses. A copy that exists without import blocks has been imported.
func (a *adoption) prepareImport(ctx context.Context, main *states.Part) error {
	if err := a.readImports(); err != nil {
		return err
	}
	source, err := cli.Get(ctx, a.client, main.Template.Key(a.key.Namespace), &infrav1.WorkspaceTemplate{})
	if err != nil || source == nil {
		return cmp.Or(err, errors.New("the WorkspaceTemplate was deleted"))
	}
	key := a.importedName()
	copied := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: *source.Spec.DeepCopy()}
	copied.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	copied.Spec.Rollout, copied.Spec.AllowedNamespaces = infrav1.WorkspaceTemplateRollout{}, infrav1.AllowedNamespaces{}
	if a.imported, err = states.WithImports(copied, a.imports); err != nil {
		return err
	}
	existing, err := cli.Get(ctx, a.client, key, &infrav1.WorkspaceTemplate{})
	if err != nil {
		return err
	}
	if existing != nil && existing.Spec.Rollout.Strategy != "" { // The import is done, and its blocks are being removed, or are.
		apply, err := cli.Get(ctx, a.client, types.NamespacedName{Namespace: key.Namespace, Name: a.applyName()}, &infrav1.WorkspaceTemplateApply{})
		if err != nil {
			return err
		}
		if apply == nil || states.IsPending(apply) {
			return decision("WorkspaceTemplate %s is left from an earlier import: delete it, and run the command again. What that import has imported is in a state, which captctl adopt state adopts", key)
		}
		a.imported, a.isImported = existing, true
	}
	main.Template = infrav1.WorkspaceTemplateReference{Name: key.Name}
	main.State.Name = cmp.Or(main.State.Name, naming.ExternalName("", types.NamespacedName{Namespace: a.key.Namespace, Name: a.applyName()}))
	return nil
}

// applyName is the name of the WorkspaceTemplateApply that imports.
func (a *adoption) applyName() string {
	if a.stateOptions.apply != "" {
		return a.key.Name
	}
	return naming.ControlPlaneWorkspaceTemplateApply(a.key.Name)
}

// removeImports removes the import blocks by a second revision of the template. It is staged, so that it is assigned only after an empty plan; the policy is
// written first, in a request of its own, so that the first revision is stored.
func (a *adoption) removeImports(ctx context.Context) error {
	module := states.WithoutImports(a.imported.Spec.Template.Spec.ForProvider.Module)
	policy := map[string]any{"strategy": infrav1.RolloutStaged, "preview": infrav1.RolloutPreviewAlways, "approval": infrav1.RolloutApprovalOnChanges}
	template := &infrav1.WorkspaceTemplate{ObjectMeta: *a.imported.ObjectMeta.DeepCopy()}
	if err := patch(ctx, a.client, template, map[string]any{"spec": map[string]any{"rollout": policy}}); err != nil {
		return err
	}
	if err := a.until(ctx, a.hasRevision); err != nil {
		return err
	}
	content := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"forProvider": map[string]any{"module": module}}}}}
	if err := patch(ctx, a.client, template, content); err != nil {
		return err
	}
	return a.until(ctx, a.hasRevision)
}

// hasRevision reports whether the object has the current revision of its template, applied, and the rollout is complete.
func (a *adoption) hasRevision(ctx context.Context) (bool, error) {
	template, err := cli.Get(ctx, a.client, a.importedName(), &infrav1.WorkspaceTemplate{})
	if err != nil || template == nil {
		return false, err
	}
	apply, err := cli.Get(ctx, a.client, types.NamespacedName{Namespace: a.key.Namespace, Name: a.applyName()}, &infrav1.WorkspaceTemplateApply{})
	if err != nil || apply == nil {
		return false, err
	}
	if observed, err := a.followRollout(template); !observed || err != nil {
		return false, err
	}
	hash := rollout.HashOf(template)
	complete := template.Status.Rollout.Stage == infrav1.RolloutComplete && template.Status.Rollout.Revision == hash
	return complete && apply.Status.TemplateRevision == hash && conditions.IsTrue(apply, infrav1.ReadyCondition), nil
}

// followRollout shows what a rollout does. It reports whether the manager has observed the template, and fails if a user must decide.
func (a *adoption) followRollout(template *infrav1.WorkspaceTemplate) (observed bool, err error) {
	valid, rolling := conditions.Get(template, infrav1.ValidCondition), conditions.Get(template, infrav1.RollingOutCondition)
	switch {
	case valid == nil || valid.ObservedGeneration != template.Generation:
		return false, nil
	case rolling != nil && (rolling.Reason == infrav1.RolloutWaitingReason || rolling.Reason == infrav1.RolloutStoppedReason):
		return false, decision("the import blocks cannot be removed yet: %s. captctl template status %s shows the plan", rolling.Message, client.ObjectKeyFromObject(template))
	case rolling != nil && rolling.Status == metav1.ConditionTrue:
		a.show("WorkspaceTemplate "+template.Name, rolling.Message)
	}
	return true, nil
}
