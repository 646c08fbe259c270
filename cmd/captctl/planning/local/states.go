// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// States lists the Terraform workspaces of the backend of a ProviderConfig, with the credentials of the user. Nothing is changed.
func States(ctx context.Context, environment *cli.Environment, reader client.Reader, config *unstructured.Unstructured, program string) (states []string, err error) {
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		return nil, err
	}
	in := &inputs{state: "default", module: map[string]string{}, files: map[string]string{}, backendFile: spec.BackendFile}
	for name, text := range map[string]*string{configurationFile: spec.Configuration, backendFile: spec.BackendFile} {
		if text != nil {
			in.files[name] = *text
		}
	}
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
	if backend.Type == modules.KubernetesBackend {
		return p.statesInSecrets(ctx, backend) // Terraform would create the state "default".
	}
	return p.listStates(ctx, program, backend.Type)
}

func (p *plan) listStates(ctx context.Context, program, backend string) (states []string, err error) {
	if p.program, err = cli.FindTerraform(ctx, program); err == nil && p.program == nil {
		err = errors.New("neither tofu nor terraform is on PATH: install one of them, or set --terraform")
	}
	if err != nil {
		return nil, err
	}
	arguments := []string{"init", "-input=false", "-lock=false", noColor}
	if p.inputs.backendFile != nil {
		arguments = append(arguments, "-backend-config="+backendFile)
	}
	var listed, stderr bytes.Buffer
	if err = p.terraform(ctx, io.Discard, &stderr, nil, arguments...); err == nil {
		err = p.terraform(ctx, &listed, &stderr, nil, "workspace", "list", noColor)
	}
	if err != nil {
		return nil, fmt.Errorf("the states of the backend %s cannot be listed with your credentials: %w: %s", backend, err, strings.TrimSpace(stderr.String()))
	}
	return strings.Fields(strings.ReplaceAll(listed.String(), "*", " ")), nil
}

// statesInSecrets lists the states that Secrets have.
func (p *plan) statesInSecrets(ctx context.Context, backend *modules.Backend) (states []string, err error) {
	arguments, reader := backend.Arguments(ptr.Deref(p.inputs.backendFile, "")), p.reader
	if file := arguments["config_path"]; file != "" && arguments["in_cluster_config"] != "true" {
		if reader, err = p.readerOf(file, arguments["config_context"]); err != nil {
			return nil, err
		}
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err = reader.List(ctx, &secrets, client.InNamespace(cmp.Or(arguments["namespace"], "default")), client.MatchingLabels{"tfstate": "true", "tfstateSecretSuffix": arguments["secret_suffix"]})
	for i := range secrets.Items {
		states = append(states, secrets.Items[i].Labels["tfstateWorkspace"])
	}
	slices.Sort(states)
	return slices.Compact(states), err
}
