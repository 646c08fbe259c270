// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type kubeconfigOptions struct {
	cli.Options
	merge   bool
	context string
}

// NewKubeconfig returns captctl kubeconfig.
func NewKubeconfig(environment *cli.Environment) *cobra.Command {
	o := &kubeconfigOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "kubeconfig [NAMESPACE/]CLUSTER",
		Short: "Print the kubeconfig of a Cluster, or merge it into yours",
		Long: `Prints the kubeconfig for users of a Cluster: it runs "aws eks get-token" with your own AWS
credentials. If there is none, because the module has no output cluster_certificate_authority_data,
the one that Cluster API uses is printed, with a warning: its token may expire soon.
docs/kubeconfig.md describes both. A kubeconfig that runs another command, or reads files, is not
used: who may write Secrets in the namespace could run programs as you.

With --merge, it is added to the kubeconfig of --kubeconfig, of KUBECONFIG, or to ~/.kube/config, as
one context with its cluster and user. The current context does not change. An entry of the same
name is replaced only if it is for the same API server. Afterwards only you can read the file.

You need the right to get the Secret CLUSTER-user-kubeconfig. The ClusterRole capt-tenant does not
include it.`,
		Example: `  captctl kubeconfig team-a/demo > demo.kubeconfig

  # Use it from now on
  captctl kubeconfig team-a/demo --merge --context-name demo
  kubectl --context demo get nodes`,
	}
	flags := command.Flags()
	flags.BoolVar(&o.merge, "merge", false, "Add it to your kubeconfig.")
	flags.StringVar(&o.context, "context-name", "", "With --merge: the name of the context (NAMESPACE/CLUSTER by default).")
	cli.CompleteFlag(command, "context-name", cobra.NoFileCompletions)
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	return cli.NewConnected(command, o)
}

func (o *kubeconfigOptions) Validate() error {
	return cmp.Or(cli.When(!o.merge && o.context != "", "--context-name is for --merge"), o.Options.Validate())
}

func (o *kubeconfigOptions) Run(ctx context.Context, reader client.WithWatch) error {
	if _, err := ObjectsOf(ctx, &o.Options, reader); err != nil {
		return err
	}
	data, err := o.read(logr.NewContext(ctx, logr.Discard()), reader) // A high log level would show the Secret.
	if err != nil {
		return err
	}
	if o.merge {
		return o.mergeInto(data)
	}
	_, err = o.Out.Write(data)
	return err
}

// read returns the kubeconfig for users, or else that of Cluster API.
func (o *kubeconfigOptions) read(ctx context.Context, reader client.Reader) ([]byte, error) {
	for _, name := range []string{naming.UserKubeconfigSecret(o.Name), naming.KubeconfigSecret(o.Name)} {
		found := &corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, found)
		isOwn := found.Labels[clusterv1.ClusterNameLabel] == o.Name // Cluster API's Secret of Cluster a-user has the name of that for users of Cluster a.
		if data := found.Data[secret.KubeconfigDataName]; err == nil && isOwn && len(data) > 0 {
			if name != naming.UserKubeconfigSecret(o.Name) {
				o.Warn("the Cluster has no kubeconfig for users. This is the one of Cluster API, whose credentials may expire soon")
			}
			if config, err := clientcmd.Load(data); err == nil && !isSelfContained(config) {
				return nil, fmt.Errorf("the kubeconfig in Secret %s of namespace %s is not used: it runs a command other than aws eks get-token, or reads files of yours. CAPT publishes none like it: find out who wrote it", name, o.Namespace)
			}
			return data, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the Cluster %s has no kubeconfig yet; captctl describe %s/%[1]s shows why", o.Name, o.Namespace)
}

// isSelfContained reports whether a kubeconfig neither reads files nor runs a command other than that of CAPT: its Secret can be written by many.
func isSelfContained(config *clientcmdapi.Config) bool {
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return false
		}
	}
	for _, user := range config.AuthInfos {
		runs := user.Exec != nil && (user.Exec.Command != "aws" || len(user.Exec.Env) > 0 || !slices.Equal(user.Exec.Args[:min(2, len(user.Exec.Args))], []string{"eks", "get-token"}))
		if runs || user.AuthProvider != nil || user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" {
			return false
		}
	}
	return true
}

// mergeInto adds the current context of a kubeconfig, with its cluster and user, to that of the user.
func (o *kubeconfigOptions) mergeInto(data []byte) error {
	found, err := clientcmd.Load(data)
	if err != nil {
		return errors.New("the kubeconfig of the Cluster cannot be read") // The error may quote it.
	}
	current := found.Contexts[found.CurrentContext]
	if current == nil || found.Clusters[current.Cluster] == nil || found.AuthInfos[current.AuthInfo] == nil {
		return errors.New("the kubeconfig of the Cluster has no current context with a cluster and a user")
	}
	access := o.Access.ToRawKubeConfigLoader().ConfigAccess()
	config, err := access.GetStartingConfig()
	if err != nil {
		return err
	}
	name, cluster := cmp.Or(o.context, o.Namespace+"/"+o.Name), found.Clusters[current.Cluster]
	if isTaken(config, name, cluster.Server) {
		return fmt.Errorf("your kubeconfig has entries with the name %s for another API server: choose another --context-name, or delete them with kubectl config", name)
	}
	config.Clusters[name], config.AuthInfos[name] = cluster, found.AuthInfos[current.AuthInfo]
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: current.Namespace}
	if err := clientcmd.ModifyConfig(access, *config, false); err != nil {
		return err
	}
	file := access.GetDefaultFilename()
	if access.IsExplicitFile() {
		file = access.GetExplicitFile()
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return err
	}
	o.Printer().Text("", output.Plain, fmt.Sprintf("Context %s was added to %s. Use it with: kubectl --context %[1]s", name, file))
	return nil
}

// isTaken reports whether a name has an entry of something else than this API server.
func isTaken(config *clientcmdapi.Config, name, server string) bool {
	cluster, context := config.Clusters[name], config.Contexts[name]
	if cluster == nil {
		return context != nil || config.AuthInfos[name] != nil
	}
	return cluster.Server != server || context != nil && (context.Cluster != name || context.AuthInfo != name)
}
