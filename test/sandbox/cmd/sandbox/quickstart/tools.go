// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package quickstart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// tools runs kubectl and clusterctl and prints the command lines.
type tools struct {
	genericiooptions.IOStreams
	dir   string
	state *state.State
}

func newTools(streams genericiooptions.IOStreams, dir string) (*tools, error) {
	recorded, err := state.Load(dir)
	if err != nil {
		return nil, err
	}
	return &tools{IOStreams: streams, dir: dir, state: recorded}, nil
}

// client returns a client of the sandbox's API server with administrator rights.
func (t *tools) client() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", t.state.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(t.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return client.New(config, client.Options{})
}

// show prints a command line and runs it.
func (t *tools) show(ctx context.Context, name string, args ...string) error {
	fmt.Fprintf(t.Out, "\n$ %s %s\n", name, commandLine(args))
	cmd := t.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = t.Out, t.ErrOut
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// special are the characters that a shell would interpret.
var special = regexp.MustCompile(`[^\w./,:=@%+-]`)

// commandLine quotes arguments so that they can be pasted into a shell.
func commandLine(args []string) string {
	quoted := make([]string, 0, len(args))
	for _, arg := range args {
		if arg == "" || special.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted = append(quoted, arg)
	}
	return strings.Join(quoted, " ")
}

// output returns the standard output of a command.
func (t *tools) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := t.command(ctx, name, args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errors.String()))
	}
	return output, nil
}

func (t *tools) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.state.Binaries[name], args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+t.state.Kubeconfig,
		// Otherwise clusterctl looks for a newer release on the internet.
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	return cmd
}

// saveKubeconfig writes the kubeconfig that clusterctl returns for a cluster and returns its path.
func (t *tools) saveKubeconfig(ctx context.Context, cluster string) (string, error) {
	kubeconfig, err := t.output(ctx, binaries.Clusterctl, "get", "kubeconfig", cluster)
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.dir, cluster+".kubeconfig")
	return path, state.WriteFile(path, kubeconfig)
}
