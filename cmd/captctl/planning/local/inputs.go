// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
)

// Names of files of provider-terraform.
const (
	configurationFile  = "crossplane-provider-config.tf"
	backendFile        = "crossplane.remote.tfbackend"
	variablesFile      = "crossplane-provider-terraform-%d.tfvars"
	gitCredentialsFile = ".git-credentials"
	cliConfigFile      = ".terraformrc"
)

// inputs are what provider-terraform uses for a Workspace.
type inputs struct {
	// state is the name of the Terraform workspace.
	state string
	// remote is the address of the module; empty if it is in files.
	remote string
	// module has the files of the module, and files those of the directory in which Terraform runs, which is entrypoint within the module.
	module, files map[string]string
	entrypoint    string
	// gitCredentials are the credentials for Git, and cliConfig is true if files has a configuration of Terraform itself.
	gitCredentials string
	cliConfig      bool
	backendFile    *string
	// env are environment variables, and initArgs and planArgs arguments, each as NAME=VALUE or as Terraform takes it.
	env, initArgs, planArgs []string
	// notes are what users should know about the plan.
	notes []string
}

func (p *plan) read(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*inputs, error) {
	if apply.Status.WorkspaceRef == nil {
		return nil, errors.New("it has no Workspace yet; captctl describe shows what it waits for")
	}
	live, workspace, err := fleet.WorkspaceOf(ctx, p.reader, apply)
	if err != nil {
		return nil, err
	}
	if !render.IsRecorded(live, apply) {
		return nil, fmt.Errorf("the Workspace %s was recreated by another client, so it may be that of another object. captctl describe shows what to do", live.GetName())
	}
	config := render.ProviderConfigObject(live)
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", config.GetKind(), config.GetName(), err)
	}
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		return nil, err
	}
	parameters := &workspace.Spec.ForProvider
	in := &inputs{
		state: cmp.Or(live.GetAnnotations()[render.ExternalNameAnnotation], live.GetName()), entrypoint: parameters.Entrypoint,
		module: map[string]string{}, files: map[string]string{}, backendFile: spec.BackendFile,
	}
	if err := in.setModule(parameters); err != nil {
		return nil, err
	}
	if err := p.addCredentials(ctx, in, config, spec); err != nil {
		return nil, err
	}
	in.addConfiguration(spec)
	values := values{p.reader, live.GetNamespace()}
	if err := values.addEnvironment(ctx, in, parameters.Env); err != nil {
		return nil, err
	}
	return in, values.addVariables(ctx, in, parameters)
}

func (in *inputs) addConfiguration(spec *terraform.ProviderConfigSpec) {
	for name, text := range map[string]*string{configurationFile: spec.Configuration, backendFile: spec.BackendFile} {
		if text != nil {
			in.files[name] = *text
		}
	}
}

func (in *inputs) setModule(parameters *terraform.WorkspaceParameters) error {
	switch parameters.Source {
	case terraform.SourceRemote:
		in.remote = parameters.Module
	case terraform.SourceInline:
		name := "main.tf"
		if parameters.InlineFormat == terraform.FormatJSON {
			name = "main.tf.json"
		}
		in.module[name] = parameters.Module
	default:
		return fmt.Errorf("the module comes from %s (source %s), which only provider-terraform can reach: plan it without --local", parameters.Module, parameters.Source)
	}
	return nil
}

// addCredentials adds the files with credentials. Without --provider-credentials they are empty: a provider that is configured with such a file
// then uses its environment, and the function file does not fail.
func (p *plan) addCredentials(ctx context.Context, in *inputs, config *unstructured.Unstructured, spec *terraform.ProviderConfigSpec) error {
	var names []string
	for _, credentials := range spec.Credentials {
		name, text := filepath.Base(credentials.Filename), ""
		if p.providerCredentials {
			var err error
			if text, err = p.credentials(ctx, config, credentials); err != nil {
				return err
			}
			if name == gitCredentialsFile {
				in.gitCredentials = text
			}
			in.cliConfig = in.cliConfig || name == cliConfigFile
		} else if names = append(names, name); name == gitCredentialsFile || name == cliConfigFile {
			continue // Git and Terraform have their own in the home directory.
		}
		in.files[name] = text
	}
	if len(names) > 0 {
		in.notes = append(in.notes, fmt.Sprintf("Terraform uses the credentials of your environment, not those of %s %s (%s): --provider-credentials changes that",
			config.GetKind(), config.GetName(), strings.Join(names, ", ")))
	}
	return nil
}

func (p *plan) credentials(ctx context.Context, config *unstructured.Unstructured, c terraform.Credentials) (string, error) {
	title := fmt.Sprintf("the file %s of %s %s", c.Filename, config.GetKind(), config.GetName())
	switch {
	case c.Source == "None":
		return "", nil
	case c.Source != "Secret" || c.SecretRef == nil:
		return "", fmt.Errorf("%s has source %s, which is in the Pod of provider-terraform: leave out --provider-credentials, and set credentials in your environment", title, c.Source)
	}
	text, found, err := values{p.reader, ""}.key(ctx, nil, c.SecretRef)
	switch {
	case err != nil:
		return "", fmt.Errorf("--provider-credentials: %s cannot be read; without this flag, Terraform uses the credentials of your environment: %w", title, err)
	case !found:
		return "", fmt.Errorf("--provider-credentials: %s: the Secret %s/%s has no key %s", title, c.SecretRef.Namespace, c.SecretRef.Name, c.SecretRef.Key)
	}
	return text, nil
}

// values reads ConfigMaps and Secrets, of its namespace only if it has one.
type values struct {
	client.Reader
	namespace string
}

// key reads the key of a ConfigMap, or else of a Secret.
func (v values) key(ctx context.Context, configMap, secret *terraform.KeyReference) (text string, found bool, err error) {
	ref, kind, object := secret, "Secret", client.Object(&corev1.Secret{})
	if configMap != nil {
		ref, kind, object = configMap, "ConfigMap", &corev1.ConfigMap{}
	}
	key := client.ObjectKey{Namespace: cmp.Or(v.namespace, ref.Namespace), Name: ref.Name}
	if err := v.Get(ctx, key, object); err != nil {
		return "", false, fmt.Errorf("reading %s %s: %w", kind, key, err)
	}
	switch object := object.(type) {
	case *corev1.ConfigMap:
		text, found = object.Data[ref.Key]
	case *corev1.Secret:
		var data []byte
		data, found = object.Data[ref.Key]
		text = string(data)
	}
	return text, found, nil
}

// addEnvironment adds environment variables: a value, or else a key of a ConfigMap, or else of a Secret.
func (v values) addEnvironment(ctx context.Context, in *inputs, variables []terraform.EnvVar) error {
	for _, variable := range variables {
		text := variable.Value
		if text == "" && (variable.ConfigMapKeyRef != nil || variable.SecretKeyRef != nil) {
			value, found, err := v.key(ctx, variable.ConfigMapKeyRef, variable.SecretKeyRef)
			if err == nil && !found {
				err = errors.New("the key does not exist")
			}
			if err != nil {
				return fmt.Errorf("environment variable %s: %w", variable.Name, err)
			}
			text = value
		}
		if isReserved(variable.Name) || writesElsewhere(variable.Name) {
			in.notes = append(in.notes, "The environment variable "+variable.Name+" of the Workspace is not used: it could change more than the plan")
			continue
		}
		in.env = append(in.env, variable.Name+"="+text)
	}
	return nil
}

// addVariables adds the arguments of plan, in the order of provider-terraform: of a variable that is set twice, Terraform takes the last value.
func (v values) addVariables(ctx context.Context, in *inputs, parameters *terraform.WorkspaceParameters) error {
	for _, variable := range parameters.Vars {
		in.planArgs = append(in.planArgs, "-var="+variable.Key+"="+variable.Value)
	}
	count := 0
	add := func(text string, format terraform.FileFormat) {
		name := fmt.Sprintf(variablesFile, count)
		if count++; format == terraform.FormatJSON {
			name += ".json"
		}
		in.files[name], in.planArgs = text, append(in.planArgs, "-var-file="+name)
	}
	for _, file := range parameters.VarFiles {
		configMap, secret := file.ConfigMapKeyRef, file.SecretKeyRef
		if file.Source == "SecretKey" {
			configMap = nil
		}
		if configMap == nil && secret == nil {
			return fmt.Errorf("a file of variables has source %s without its reference", file.Source)
		}
		text, _, err := v.key(ctx, configMap, secret) // Without the key, provider-terraform writes an empty file.
		if err != nil {
			return fmt.Errorf("variables: %w", err)
		}
		add(text, file.Format)
	}
	if parameters.VarMap != nil && len(parameters.VarMap.Raw) > 0 {
		add(string(parameters.VarMap.Raw), terraform.FormatJSON)
	}
	planArgs, left := without(parameters.PlanArgs, "out", "generate-config-out", "json")
	initArgs, more := without(parameters.InitArgs, "force-copy", "migrate-state")
	in.planArgs, in.initArgs = append(in.planArgs, planArgs...), initArgs
	if left = append(left, more...); len(left) > 0 {
		in.notes = append(in.notes, fmt.Sprintf("The arguments %v of the Workspace are not used", left))
	}
	return nil
}

// State is a Terraform state of a backend.
type State struct {
	Name string
	// User is the object that uses it; empty if none does. Empty is true if it has no resources.
	User  string
	Empty bool
}

// States lists the Terraform states of the backend of a ProviderConfig, with the credentials of the user. Without used, those with a user are not read. Nothing
// is changed.
func States(ctx context.Context, environment *cli.Environment, reader client.Reader, config *unstructured.Unstructured, program string, used bool, user func(state string) (string, error)) (states []State, err error) {
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		return nil, err
	}
	in := &inputs{state: "default", module: map[string]string{}, files: map[string]string{}, backendFile: spec.BackendFile}
	in.addConfiguration(spec)
	p := &plan{Options: &Options{}, Environment: environment, reader: reader, inputs: in}
	if p.root, err = os.MkdirTemp("", "captctl-states-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.root)) }()
	if err := errors.Join(p.addCredentials(ctx, in, config, spec), p.prepare(ctx)); err != nil {
		return nil, err
	}
	backend, err := p.backend()
	if err != nil {
		return nil, err
	}
	list := p.listStates
	if backend.Type == modules.KubernetesBackend { // Terraform would create the state "default".
		list = p.statesInSecrets
	}
	names, isEmpty, err := list(ctx, backend, program)
	if err != nil {
		return nil, err
	}
	return statesOf(names, used, user, isEmpty)
}

func statesOf(names []string, used bool, user func(string) (string, error), isEmpty func(string) (bool, error)) (states []State, err error) {
	for _, name := range names {
		state := State{Name: name}
		if state.User, err = user(name); err == nil && (used || state.User == "") {
			state.Empty, err = isEmpty(name)
		}
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

func (p *plan) listStates(ctx context.Context, backend *modules.Backend, program string) (names []string, isEmpty func(string) (bool, error), err error) {
	if p.program, err = cli.FindTerraform(ctx, program); err == nil && p.program == nil {
		err = errors.New("neither tofu nor terraform is on PATH: install one of them, or set --terraform")
	}
	if err != nil {
		return nil, nil, err
	}
	run := func(arguments ...string) (string, error) {
		var stdout, stderr bytes.Buffer
		if err := p.terraform(ctx, &stdout, &stderr, nil, arguments...); err != nil {
			return "", fmt.Errorf("the states of the backend %s cannot be read with your credentials: %w: %s", backend.Type, err, strings.TrimSpace(stderr.String()))
		}
		return stdout.String(), nil
	}
	arguments := []string{"init", "-input=false", "-lock=false", noColor}
	if p.inputs.backendFile != nil {
		arguments = append(arguments, "-backend-config="+backendFile)
	}
	if _, err = run(arguments...); err != nil {
		return nil, nil, err
	}
	listed, err := run("workspace", "list", noColor)
	for line := range strings.Lines(listed) { // Terraform may print warnings, too.
		if name := strings.Fields(strings.TrimPrefix(line, "*")); len(name) == 1 && strings.IndexAny(line, "* ") == 0 {
			names = append(names, name[0])
		}
	}
	return names, func(name string) (bool, error) {
		if _, err := run("workspace", "select", noColor, name); err != nil {
			return false, err
		}
		pulled, err := run("state", "pull")
		return err == nil && hasNoResources([]byte(pulled)), err
	}, err
}

// hasNoResources reports whether a state has no resources. A state that was never written is empty.
func hasNoResources(state []byte) bool {
	var content struct {
		Resources []struct{ Mode string } `json:"resources"`
	}
	if start := bytes.IndexByte(state, '{'); start >= 0 && json.Unmarshal(state[start:], &content) != nil { // Terraform may print warnings before it.
		return false
	}
	return !slices.ContainsFunc(content.Resources, func(resource struct{ Mode string }) bool { return resource.Mode != "data" })
}

// statesInSecrets lists the states that Secrets have.
func (p *plan) statesInSecrets(ctx context.Context, backend *modules.Backend, _ string) (names []string, isEmpty func(string) (bool, error), err error) {
	arguments, reader := backend.Arguments(ptr.Deref(p.inputs.backendFile, "")), p.reader
	if file := arguments["config_path"]; file != "" && arguments["in_cluster_config"] != "true" {
		if reader, err = p.readerOf(file, arguments["config_context"]); err != nil {
			return nil, nil, err
		}
	}
	of := func(labels client.MatchingLabels) []client.ListOption {
		labels["tfstate"], labels["tfstateSecretSuffix"] = "true", arguments["secret_suffix"]
		return []client.ListOption{client.InNamespace(cmp.Or(arguments["namespace"], "default")), labels}
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err = reader.List(ctx, &secrets, of(client.MatchingLabels{})...)
	for i := range secrets.Items {
		names = append(names, secrets.Items[i].Labels["tfstateWorkspace"])
	}
	slices.Sort(names)
	return slices.Compact(names), func(name string) (bool, error) {
		var found corev1.SecretList
		err := reader.List(ctx, &found, of(client.MatchingLabels{"tfstateWorkspace": name})...)
		return err == nil && len(found.Items) == 1 && hasNoResources(unpacked(found.Items[0].Data["tfstate"])), err
	}, err
}

// unpacked returns the state that a Secret has; what cannot be read is returned as it is.
func unpacked(data []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data
	}
	state, err := io.ReadAll(reader)
	if err != nil {
		return data
	}
	return state
}
