// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package local plans the Workspaces of a Cluster with Terraform on this machine. Unlike the log of provider-terraform, Terraform's own text has
// values. The package builds the directory in which Terraform runs as provider-terraform does, and has no code that applies.
package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

const (
	temporary     = "tmp"        // temporary files of Terraform are below the directory that is removed, too.
	dataDirectory = ".terraform" // dataDirectory is where Terraform keeps which workspace is selected.
	noColor       = "-no-color"
)

// changes is the exit code of plan -detailed-exitcode if Terraform would change something.
const changes = 2

// plan is the plan of one Workspace.
type plan struct {
	*Options
	*cli.Environment
	reader  client.Reader
	program *cli.Terraform
	colored bool

	// root is the temporary directory, and dir the one in which Terraform runs.
	root, dir string
	inputs    *inputs
}

func (p *plan) run(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (differs bool, err error) {
	if p.inputs, err = p.read(ctx, apply); err != nil {
		return false, err
	}
	for _, note := range p.inputs.notes {
		p.Warn("%s", note)
	}
	if p.root, err = os.MkdirTemp("", "captctl-plan-"); err != nil { // With mode 0700.
		return false, err
	}
	defer func() {
		if failed := os.RemoveAll(p.root); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove %s, which may contain credentials: %w", p.root, failed))
		}
	}()
	if err := p.prepare(ctx); err != nil {
		return false, err
	}
	if err := p.initialize(ctx); err != nil {
		return false, err
	}
	arguments := slices.Concat([]string{"plan"}, p.inputs.planArgs, []string{"-input=false", "-detailed-exitcode", "-lock=false"})
	if !p.colored {
		arguments = append(arguments, noColor)
	}
	err = p.terraform(ctx, p.Out, p.ErrOut, nil, arguments...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, nil
	case errors.As(err, &exit) && exit.ExitCode() == changes:
		return true, nil
	}
	return false, fmt.Errorf("%s plan failed, see above: %w", p.program.Title, err)
}

// prepare builds the directory of the module. What a module contains cannot make it write outside of it.
func (p *plan) prepare(ctx context.Context) error {
	in, module := p.inputs, filepath.Join(p.root, "module")
	for _, name := range []string{module, filepath.Join(p.root, temporary)} {
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	if in.gitCredentials != "" {
		if err := os.WriteFile(filepath.Join(p.root, gitCredentialsFile), []byte(in.gitCredentials), 0o600); err != nil {
			return err
		}
	}
	if p.dir = module; in.remote != "" {
		if err := p.quietly(ctx, nil, "init", "-from-module="+in.remote, "-backend=false", "-get=false", "-input=false", noColor); err != nil {
			return fmt.Errorf("the module %s cannot be downloaded: %w", redact.Text(in.remote, nil), err)
		}
	}
	root, err := os.OpenRoot(module)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // Nothing is written to the directory itself.
	// As provider-terraform does it.
	entrypoint := filepath.Join(".", strings.ReplaceAll(in.entrypoint, "../", ""))
	data := filepath.Join(entrypoint, dataDirectory)
	if err := errors.Join(root.RemoveAll(data), root.MkdirAll(data, 0o700)); err != nil {
		return fmt.Errorf("entrypoint %s: %w", in.entrypoint, err)
	}
	write := func(directory string, files map[string]string) (err error) {
		for name, text := range files {
			err = errors.Join(err, root.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
		}
		return err
	}
	p.dir = filepath.Join(module, entrypoint)
	// Without a selected workspace, init reads the state of "default", and some backends create it if it does not exist.
	return errors.Join(write(".", in.module), write(entrypoint, in.files), write(data, map[string]string{"environment": in.state}))
}

// initialize runs init, and selects the Terraform workspace. Neither creates it in the backend: select never does, and init selects
// another one, or fails, if it does not exist. That is why "workspace select -or-create", "workspace new" and TF_WORKSPACE are not used.
func (p *plan) initialize(ctx context.Context) error {
	in := p.inputs
	backend, err := p.backend()
	if err != nil {
		return err
	}
	arguments := []string{"init"}
	if in.backendFile != nil {
		arguments = append(arguments, "-backend-config="+backendFile)
	}
	arguments = append(arguments, in.initArgs...)
	own, err := p.stateInSecret(ctx, backend)
	if err != nil {
		return err
	}
	var env []string
	if in.cliConfig {
		env = append(env, "TF_CLI_CONFIG_FILE="+cliConfigFile)
	}
	err = p.quietly(ctx, env, append(append(arguments, own...), "-input=false", "-lock=false", noColor)...)
	if err == nil {
		err = p.quietly(ctx, nil, "workspace", "select", noColor, in.state)
	}
	if errors.Is(err, errNoState) {
		return fmt.Errorf("the backend %s has %w %s, which captctl does not create. Either provider-terraform has not initialized the Workspace yet, or the state is "+
			"elsewhere, for example on the disk of its Pod", backend.Type, err, in.state)
	}
	return err
}

// backend finds the backend in the directory in which Terraform runs.
func (p *plan) backend() (found *modules.Backend, err error) {
	entries, err := os.ReadDir(p.dir)
	for _, entry := range entries {
		if name := entry.Name(); slices.ContainsFunc([]string{".tf", ".tf.json", ".tofu", ".tofu.json"}, func(end string) bool { return strings.HasSuffix(name, end) }) {
			text, err := os.ReadFile(filepath.Join(p.dir, name)) //nolint:gosec // captctl made the directory.
			if err != nil {
				return nil, err
			}
			backend, err := modules.BackendOf(name, text)
			if err != nil {
				return nil, fmt.Errorf("the module is not valid: %w", err)
			}
			found = cmp.Or(backend, found)
		}
	}
	if found == nil && err == nil {
		err = errors.New("neither the module nor the ProviderConfig has a backend, so the state is on the disk of the Pod of provider-terraform, which only " +
			"provider-terraform can read. Add a backend, such as s3, or plan it without --local")
	}
	return found, err
}

// stateInSecret checks that a state in a Secret exists, because init creates that of "default" if no state does. It returns the arguments of init for
// the cluster in which Terraform runs, which exists in the Pod of provider-terraform only: they replace it by the cluster of the kubeconfig.
func (p *plan) stateInSecret(ctx context.Context, backend *modules.Backend) (found []string, err error) {
	arguments, reader := backend.Arguments(ptr.Deref(p.inputs.backendFile, "")), p.reader
	file := cmp.Or(arguments["config_path"], os.Getenv("KUBE_CONFIG_PATH"))
	switch {
	case backend.Type != modules.KubernetesBackend:
		return nil, nil
	case arguments["in_cluster_config"] == "true":
		found, err = p.ownKubeconfig()
	case file == "", strings.HasPrefix(file, "~"):
		return nil, nil // Only Terraform knows the cluster.
	default:
		reader, err = p.readerOf(file, arguments["config_context"])
	}
	if err != nil {
		return nil, err
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := client.ObjectKey{Namespace: cmp.Or(arguments["namespace"], "default"), Name: "tfstate-" + p.inputs.state + "-" + arguments["secret_suffix"]}
	switch err := reader.Get(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no state, which would be in Secret %s: provider-terraform has not initialized the Workspace yet", key)
	case err != nil:
		return nil, fmt.Errorf("the state is in Secret %s, and Terraform needs the rights to get and list the Secrets of this namespace: %w", key, err)
	}
	return found, nil
}

// ownKubeconfig writes a kubeconfig with the context of captctl only. Without one, captctl itself runs in the cluster.
func (p *plan) ownKubeconfig() ([]string, error) {
	config, err := p.Access.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(config.Contexts) == 0 {
		return nil, err
	}
	config.CurrentContext = cmp.Or(ptr.Deref(p.Access.Context, ""), config.CurrentContext)
	file := filepath.Join(p.root, "kubeconfig")
	return []string{"-backend-config=in_cluster_config=false", "-backend-config=config_path=" + file},
		errors.Join(clientcmdapi.MinifyConfig(&config), clientcmdapi.FlattenConfig(&config), clientcmd.WriteToFile(config, file))
}

// readerOf returns a reader of the cluster of a kubeconfig, whose path is relative to the directory in which Terraform runs.
func (p *plan) readerOf(file, context string) (client.Reader, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.dir, file)
	}
	rules, overrides := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{CurrentContext: context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the state is in a Secret of a cluster whose kubeconfig (config_path of the backend) cannot be used: %w", err)
	}
	return client.New(config, client.Options{})
}

// errNoState means that the selected Terraform workspace does not exist.
var errNoState = errors.New("no Terraform workspace")

// quietly runs Terraform, and prints only its errors.
func (p *plan) quietly(ctx context.Context, env []string, arguments ...string) error {
	var stderr bytes.Buffer
	err := p.terraform(ctx, io.Discard, &stderr, env, arguments...)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case strings.Contains(stderr.String(), fmt.Sprintf("orkspace %q does", p.inputs.state)): // "does not exist", or "doesn't".
		return errNoState
	}
	fmt.Fprintln(p.ErrOut, stderr.String())
	return fmt.Errorf("%s %s failed, see above: %w", p.program.Title, arguments[0], err)
}

func (p *plan) terraform(ctx context.Context, stdout, stderr io.Writer, env []string, arguments ...string) error {
	return p.program.Run(ctx, func(command *exec.Cmd) {
		command.Dir, command.Stdout, command.Stderr = p.dir, stdout, stderr
		command.Env = slices.Concat(p.environment(), env)
	}, arguments...)
}

// environment is the environment of captctl, without what changes what Terraform does in this directory, and what the Workspace sets.
func (p *plan) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return isReserved(name) || strings.HasPrefix(name, "TF_VAR_") || name == "PWD"
	})
	env = append(env, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "GIT_TERMINAL_PROMPT=0", "TMPDIR="+filepath.Join(p.root, temporary))
	if p.inputs.gitCredentials != "" {
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper", "GIT_CONFIG_VALUE_0=store --file='"+filepath.Join(p.root, gitCredentialsFile)+"'")
	}
	return append(env, p.inputs.env...)
}

// isReserved reports whether an environment variable could let Terraform use another directory or workspace, or give it further arguments.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "TF_CLI_ARGS") || slices.Contains([]string{"TF_WORKSPACE", "TF_DATA_DIR", "TF_REATTACH_PROVIDERS", "TMPDIR"}, name)
}

// writesElsewhere reports whether an environment variable names a file or directory to which Terraform writes. Users may set it for themselves.
func writesElsewhere(name string) bool { return name == "TF_LOG_PATH" || name == "TF_PLUGIN_CACHE_DIR" }

// without returns arguments without those of the names, and these.
func without(arguments []string, names ...string) (kept, left []string) {
	for i := 0; i < len(arguments); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(arguments[i], "-"), "=")
		if !strings.HasPrefix(arguments[i], "-") || !slices.Contains(names, name) {
			kept = append(kept, arguments[i])
			continue
		}
		if left = append(left, arguments[i]); strings.HasSuffix(name, "out") && !hasValue {
			i++ // Its value is the next argument.
		}
	}
	return kept, left
}

// Help is what users must know before they run it.
const Help = `With --local, runs terraform plan on this machine for each Workspace of a Cluster, as it is in the
management cluster, and prints Terraform's own text, which has values. Values that the module marks
as sensitive are hidden.

It needs tofu or terraform, access to the state, and the right to read the Workspaces, their
ProviderConfig, and the ConfigMaps and Secrets from which they take variables. With another version
of Terraform or of a provider than provider-terraform has (Terraform ` + modules.BundledTerraform + `), the plan may differ.

Terraform uses the credentials of your environment, for example AWS_PROFILE; the files that the
ProviderConfig has for credentials are empty. With --provider-credentials, captctl reads these files
from their Secrets. A state that is in a Secret of the management cluster (backend kubernetes with
in_cluster_config) is read with your kubeconfig.

Nothing is applied, and the state is neither locked nor changed: captctl runs init, workspace select
and plan -lock=false, and creates no Terraform workspace. The directory with the module, values and
credentials is removed at the end, also after an interruption. Planning runs code of the module and
of its providers on this machine, with your credentials: plan only templates that you trust.`

// Example has commands for the help.
const Example = `  # With values, and your own credentials
  captctl plan team-a/demo --local
  captctl plan team-a/demo --local --role controlplane --provider-credentials`

// Options of a local plan.
type Options struct {
	role, apply         string
	providerCredentials bool
	program             string
}

// AddFlags adds their flags.
func (o *Options) AddFlags(command *cobra.Command) {
	var roles []cobra.Completion
	for _, role := range overview.Roles() {
		roles = append(roles, string(role))
	}
	flags := command.Flags()
	flags.StringVar(&o.role, "role", "", "With --local: plan only what has this role in the Cluster: vpc, controlplane, fargate, machinepool or addon.")
	flags.StringVar(&o.apply, "workspacetemplateapply", "", "With --local: plan only the Workspace of the WorkspaceTemplateApply of this name.")
	flags.BoolVar(&o.providerCredentials, "provider-credentials", false, "With --local: use the credentials of the ProviderConfig, from its Secrets.")
	flags.StringVar(&o.program, "terraform", "", "With --local: path of tofu or terraform. The default is the first of them on PATH.")
	cli.CompleteFlag(command, "role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(command, "workspacetemplateapply", cobra.NoFileCompletions)
}

// Unused is the error of a command without --local that has flags which need it.
func (o *Options) Unused() error {
	if *o != (Options{}) {
		return errors.New("--role, --workspacetemplateapply, --provider-credentials and --terraform are for --local")
	}
	return nil
}

// Validate checks the flags.
func (o *Options) Validate() error {
	return cli.When(o.role != "" && !slices.Contains(overview.Roles(), overview.Role(o.role)), "--role must be one of %v, not %q", overview.Roles(), o.role)
}

// Run plans the Workspaces of a Cluster, and returns in how many of them Terraform would change something. An error of one does not keep it from
// planning the others.
func (o *Options) Run(ctx context.Context, environment *cli.Environment, reader client.Reader, objects *overview.Objects) (changed int, err error) {
	// Further signals, or an output that is closed, must not end the process before the directory is removed.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	program, err := cli.FindTerraform(ctx, o.program)
	if err == nil && program == nil {
		err = errors.New("neither tofu nor terraform is on PATH: install one of them, or set --terraform")
	}
	selected := o.selected(objects)
	if err == nil && len(selected) == 0 {
		err = fmt.Errorf("the Cluster %s has no such WorkspaceTemplateApply; captctl describe lists them", objects.Cluster.Name)
	}
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, apply := range selected {
		p := &plan{Options: o, Environment: environment, reader: reader, program: program}
		p.colored = !environment.NoColor && printers.AllowsColorOutput(environment.Out)
		title := fmt.Sprintf("WorkspaceTemplateApply %s (%s)", apply.Name, objects.RoleOf(apply))
		output.NewPrinter(environment.Out, output.Table, environment.NoColor).Text("", output.Strong, "# "+title)
		differs, err := p.run(ctx, apply)
		switch {
		case err != nil && ctx.Err() != nil:
			return changed, err
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", title, err))
		case differs:
			changed++
		}
	}
	return changed, errors.Join(failed...)
}

func (o *Options) selected(objects *overview.Objects) (found []*infrav1.WorkspaceTemplateApply) {
	for _, apply := range objects.Applies {
		if (o.role == "" || string(objects.RoleOf(apply)) == o.role) && (o.apply == "" || apply.Name == o.apply) {
			found = append(found, apply)
		}
	}
	return found
}
