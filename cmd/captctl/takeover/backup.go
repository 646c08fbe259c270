// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

type backupOptions struct {
	cli.Options
	file       string
	secrets    bool
	recipients []string
}

// NewBackup returns captctl backup.
func NewBackup(environment *cli.Environment) *cobra.Command {
	o := &backupOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "backup --file FILE",
		Short: "Write what is needed to rebuild this management cluster",
		Long: `Writes one file with the objects of all clusters (or of those in --namespace), without status, and
the Terraform state of each WorkspaceTemplateApply: its name, ProviderConfig and backend. captctl
restore creates them in another management cluster. The file has versions and a checksum.

It has no Secrets. --secrets adds those that ProviderConfigs and templates may read, and the states
of the backend kubernetes, which are lost with the management cluster; then the file must be
encrypted, with --recipient (age). States in other backends need a backup of their own.

config/backup has a CronJob for it.`,
		Example: `  captctl backup --file capt-backup.json.gz

  # With Secrets; age-keygen creates the key
  captctl backup --file capt-backup.age --secrets --recipient age1...`,
	}
	flags := command.Flags()
	flags.StringVar(&o.file, "file", "", "The file to write. An existing one is replaced when the new one is complete.")
	flags.BoolVar(&o.secrets, "secrets", false, "Also back up Secrets.")
	flags.StringArrayVar(&o.recipients, "recipient", nil, "Encrypt the file for this public key of age (age1...). Can be repeated.")
	cli.CompleteFlag(command, "file", cli.Files("gz", "age"))
	return cli.NewConnected(command, o)
}

func (o *backupOptions) Validate() error {
	switch {
	case o.file == "":
		return errors.New("--file is required")
	case o.secrets && len(o.recipients) == 0:
		return errors.New("--secrets requires --recipient: a file with Secrets is encrypted")
	}
	return o.Options.Validate()
}

func (o *backupOptions) Run(ctx context.Context, connected client.WithWatch) error {
	w := &backupWriter{backupOptions: o, reader: migrate.RetryingReader(connected)}
	if err := w.read(ctx); err != nil {
		return err
	}
	if err := w.backup.Seal(); err != nil {
		return err
	}
	if err := writeBackup(o.file, &w.backup, o.recipients); err != nil {
		return fmt.Errorf("writing %s: %w", o.file, err)
	}
	p := o.Printer()
	p.Text("", output.Good, fmt.Sprintf("%s has %s and %s", o.file, output.Count(len(w.backup.Objects), "object"), output.Count(len(w.backup.States), "Terraform state")))
	for _, line := range w.notes {
		p.Text("  ", output.Attention, line)
	}
	return nil
}

// backupWriter collects a backup.
type backupWriter struct {
	*backupOptions
	reader     client.Reader
	backup     states.Backup
	workspaces []unstructured.Unstructured
	// namespaces have WorkspaceTemplateApplies or templates, and credentials are the Secrets of ProviderConfigs, as namespace/name.
	namespaces, credentials map[string]bool
	notes                   []string
}

func (w *backupWriter) read(ctx context.Context) error {
	system, err := cli.Get(ctx, w.reader, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	if err != nil {
		return err
	}
	config, err := w.Access.ToRESTConfig()
	if err != nil {
		return err
	}
	w.backup = states.Backup{
		TypeMeta: metav1.TypeMeta{APIVersion: naming.GuardGroup + "/v1", Kind: states.BackupKind}, Taken: metav1.NewTime(w.Clock.Now().UTC()), Captctl: cli.BuildVersion().Version,
		Server: config.Host, States: map[string]states.BackedUpState{},
	}
	if system != nil {
		w.backup.ClusterUID = system.UID
	}
	for _, scope := range terraform.Scopes() {
		list, err := cli.ListWorkspaces(ctx, w.reader, scope, w.Only())
		if err != nil {
			return err
		}
		w.workspaces = append(w.workspaces, list...)
	}
	if err := errors.Join(w.readNamespaces(ctx), w.readCredentials(ctx)); err != nil {
		return err
	}
	for _, kind := range states.BackupKinds(w.secrets) {
		if err := w.readKind(ctx, kind); err != nil {
			return err
		}
	}
	w.noteStates()
	return nil
}

// noteStates names the states that the file does not have, and that may be lost with the management cluster.
func (w *backupWriter) noteStates() {
	count := map[string]int{}
	for _, state := range w.backup.States {
		count[state.Backend["type"]]++
	}
	if n := count["kubernetes"]; n > 0 && !w.secrets {
		w.notes = append(w.notes, output.Count(n, "Terraform state")+" of the backend kubernetes: the content is in Secrets, which this file does not have. "+
			"If they are in this management cluster, they are lost with it: use --secrets --recipient age1...")
	}
	if n := count[""]; n > 0 {
		w.notes = append(w.notes, output.Count(n, "Terraform state")+": the ProviderConfig has no backend that CAPT knows. A state in the Pod of provider-terraform is lost with the management cluster")
	}
}

// readNamespaces finds the namespaces whose objects are backed up, and reads the states.
func (w *backupWriter) readNamespaces(ctx context.Context) error {
	var applies infrav1.WorkspaceTemplateApplyList
	var templates infrav1.WorkspaceTemplateList
	if err := errors.Join(w.reader.List(ctx, &applies, client.InNamespace(w.Only())), w.reader.List(ctx, &templates, client.InNamespace(w.Only()))); err != nil {
		return err
	}
	w.namespaces = map[string]bool{}
	configOf := map[types.NamespacedName]string{}
	for i := range templates.Items {
		w.namespaces[templates.Items[i].Namespace] = true
		configOf[client.ObjectKeyFromObject(&templates.Items[i])] = states.ConfigNameOf(&templates.Items[i])
	}
	for i := range applies.Items {
		apply := &applies.Items[i]
		w.namespaces[apply.Namespace] = true
		if state := states.StateOf(apply, w.workspaceOf(apply)); state.Name != "" {
			state.ProviderConfig = cmp.Or(state.ProviderConfig, configOf[apply.TemplateKey()])
			w.backup.States[client.ObjectKeyFromObject(apply).String()] = states.BackedUpState{TerraformState: state}
		}
	}
	return nil
}

func (w *backupWriter) workspaceOf(apply *infrav1.WorkspaceTemplateApply) *unstructured.Unstructured {
	for i := range w.workspaces {
		if ref := apply.Status.WorkspaceRef; ref != nil && ref.UID != "" && ref.UID == w.workspaces[i].GetUID() {
			return &w.workspaces[i]
		}
	}
	return nil
}

// list lists the objects of a kind; none if it is not installed.
func (w *backupWriter) list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	var options []client.ListOption
	if kind.Kind == "ControllerRevision" {
		options = append(options, client.HasLabels{naming.TemplateRevisionLabel})
	}
	err := w.reader.List(ctx, list, options...)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

func (w *backupWriter) readKind(ctx context.Context, kind schema.GroupVersionKind) error {
	objects, err := w.list(ctx, kind)
	for i := range objects {
		if object := &objects[i]; w.includes(object) {
			w.add(object)
		}
	}
	return err
}

// includes reports whether an object is backed up. What is being deleted would be created again.
func (w *backupWriter) includes(object *unstructured.Unstructured) bool {
	namespace := object.GetNamespace()
	if object.GetKind() == "Namespace" {
		namespace = object.GetName()
	}
	isIncluded := namespace == "" || w.namespaces[namespace]
	if object.GetKind() == "Secret" { // Secrets with an owner are written again by it.
		secretType, _, _ := unstructured.NestedString(object.Object, "type")
		isPlain := secretType == string(corev1.SecretTypeOpaque) && len(object.GetOwnerReferences()) == 0
		return object.GetLabels()["tfstate"] == "true" || w.credentials[namespace+"/"+object.GetName()] || isIncluded && isPlain
	}
	if !isIncluded {
		return false
	}
	if !object.GetDeletionTimestamp().IsZero() {
		w.notes = append(w.notes, states.Describe(object)+" is being deleted, and is left out")
		return false
	}
	return true
}

// readCredentials finds the Secrets to which ProviderConfigs refer: they are in the namespace of the provider.
func (w *backupWriter) readCredentials(ctx context.Context) error {
	w.credentials = map[string]bool{}
	for _, kind := range states.BackupKinds(false) {
		if !strings.HasSuffix(kind.Kind, "ProviderConfig") {
			continue
		}
		configs, err := w.list(ctx, kind)
		if err != nil {
			return err
		}
		for i := range configs {
			spec, err := terraform.ProviderConfigSpecOf(&configs[i])
			if err != nil {
				return err
			}
			for _, credentials := range spec.Credentials {
				if ref := credentials.SecretRef; ref != nil {
					w.credentials[ref.Namespace+"/"+ref.Name] = true
				}
			}
		}
	}
	return nil
}

func (w *backupWriter) add(object *unstructured.Unstructured) {
	if strings.HasSuffix(object.GetKind(), "ProviderConfig") {
		w.addBackend(object)
	}
	states.Portable(object)
	w.backup.Objects = append(w.backup.Objects, object)
}

// addBackend records where the states of a ProviderConfig are.
func (w *backupWriter) addBackend(config *unstructured.Unstructured) {
	location := states.Location(config)
	for key, state := range w.backup.States {
		namespace, _, _ := strings.Cut(key, "/")
		name := config.GetName()
		if config.GroupVersionKind().Group == terraform.ScopeNamespaced.GroupVersionKind().Group {
			name = config.GetKind() + "/" + name
		}
		if state.ProviderConfig == name && (config.GetNamespace() == "" || config.GetNamespace() == namespace) {
			state.Backend = location
			w.backup.States[key] = state
		}
	}
}

// writeBackup writes a backup under a temporary name, and renames it when it is complete.
func writeBackup(file string, backup *states.Backup, recipients []string) error {
	var text bytes.Buffer
	var to io.Writer = &text
	var closers []io.Closer
	if len(recipients) > 0 {
		parsed, err := age.ParseRecipients(strings.NewReader(strings.Join(recipients, "\n")))
		if err != nil {
			return fmt.Errorf("--recipient: %w", err)
		}
		encrypted, err := age.Encrypt(to, parsed...)
		if err != nil {
			return err
		}
		to, closers = encrypted, append(closers, encrypted)
	}
	compressed := gzip.NewWriter(to)
	if err := errors.Join(json.NewEncoder(compressed).Encode(backup), compressed.Close()); err != nil {
		return err
	}
	for _, c := range closers {
		if err := c.Close(); err != nil {
			return err
		}
	}
	partial := file + ".partial"
	if err := os.WriteFile(partial, text.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

// readBackup reads and verifies a backup. identities is a file with private keys of age; empty if the backup is not encrypted.
func readBackup(file, identities string) (*states.Backup, error) {
	data, err := os.ReadFile(file) // #nosec G304 -- The user names the file.
	if err != nil {
		return nil, err
	}
	var from io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte("age-encryption.org/")) {
		if identities == "" {
			return nil, fmt.Errorf("%s is encrypted: set --identity to the file with the private key (AGE-SECRET-KEY-...)", file)
		}
		keys, err := os.Open(identities) // #nosec G304 -- The user names the file.
		if err != nil {
			return nil, err
		}
		defer func() { _ = keys.Close() }()
		parsed, err := age.ParseIdentities(keys)
		if err != nil {
			return nil, fmt.Errorf("--identity %s: %w", identities, err)
		}
		if from, err = age.Decrypt(from, parsed...); err != nil {
			return nil, fmt.Errorf("decrypting %s: %w", file, err)
		}
	}
	backup := &states.Backup{}
	compressed, err := gzip.NewReader(from)
	if err == nil {
		err = json.NewDecoder(compressed).Decode(backup)
	}
	if err == nil {
		err = backup.Verify()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a backup that can be used: %w", file, err)
	}
	return backup, err
}
