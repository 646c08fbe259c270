// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/states"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

type restoreOptions struct {
	cli.Options
	cli.Writes
	file, identity       string
	rollback, oldStopped bool
	timeout              time.Duration
}

// NewRestore returns captctl restore.
func NewRestore(environment *cli.Environment) *cobra.Command {
	o := &restoreOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "restore --file FILE",
		Short: "Rebuild a management cluster from a backup",
		Long: `Prints what of a backup is missing in this management cluster. With --yes, it creates that, and
waits until all clusters are Ready. Objects that exist are not changed.

Everything is created held. Clusters are paused until all of their objects exist, and each
WorkspaceTemplateApply gets the Terraform state that it had (spec.terraformState): its Workspace is
created when a plan shows that Terraform would change no resource. Otherwise nothing is applied, and
the plan is shown; the other clusters go on.

The management cluster that was lost must not run: two providers would change the same states. If
its API server still answers, the command stops; --old-is-stopped says that its provider does not
run.

Run the command again to continue, also after kill -9. --rollback removes what it has created,
without touching cloud or state; templates, ProviderConfigs, Secrets and namespaces stay. The user
needs the verb migrate, as administrators have it.

Exit codes: 0 done; 1 error; 3 a plan is not empty, or a state is in use; 124 not Ready within
--timeout.`,
		Example: `  captctl restore --file capt-backup.json.gz
  captctl restore --file capt-backup.json.gz --yes
  captctl restore --file capt-backup.age --identity key.txt --yes`,
	}
	flags := command.Flags()
	flags.StringVar(&o.file, "file", "", "The file that captctl backup wrote.")
	flags.StringVar(&o.identity, "identity", "", "File with the private key of age, if the backup is encrypted.")
	flags.BoolVar(&o.rollback, "rollback", false, "Remove what the restore of this backup created, and keep cloud resources and states.")
	flags.BoolVar(&o.oldStopped, "old-is-stopped", false, "The API server of the old management cluster answers, but its provider-terraform is stopped.")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait, with --yes.")
	cli.CompleteFlag(command, "file", cli.Files("gz", "age"))
	o.AddYes(command)
	return cli.NewConnected(command, o)
}

func (o *restoreOptions) Validate() error {
	return cmp.Or(cli.When(o.file == "", "--file is required"), o.Options.Validate())
}

func (o *restoreOptions) Run(ctx context.Context, connected client.WithWatch) error {
	backup, err := readBackup(o.file, o.identity)
	if err != nil {
		return err
	}
	r := &restoring{
		restoreOptions: o, backup: backup,
		adoption: adoption{
			stateOptions: &stateOptions{target: target{Options: o.Options, Writes: o.Writes, backup: o.file}, timeout: o.timeout},
			client:       connected, request: o.Clock.Now().UTC().Format(time.RFC3339Nano),
		},
	}
	if o.rollback {
		return r.rollBack(ctx)
	}
	if err := r.checkOld(ctx); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	r.describe()
	if o.Asks() {
		fmt.Fprintln(o.ErrOut, "Nothing was written: --yes creates what is missing, held, and waits for the plans.")
		return nil
	}
	return r.run(ctx)
}

// restoring is what a run of captctl restore does.
type restoring struct {
	*restoreOptions
	adoption adoption
	backup   *states.Backup
	missing  []*unstructured.Unstructured
}

// checkOld finds out whether the management cluster that was backed up still runs. Only the address of its API server shows that, if it can be reached from here.
func (r *restoring) checkOld(ctx context.Context) error {
	system, err := cli.Get(ctx, r.adoption.client, types.NamespacedName{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	if err != nil || r.oldStopped || system != nil && system.UID == r.backup.ClusterUID {
		return err
	}
	config, err := r.Access.ToRESTConfig()
	if err != nil || r.backup.Server == config.Host { // The new one has its address.
		return err
	}
	limited, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, strings.TrimSuffix(r.backup.Server, "/")+"/readyz", http.NoBody)
	if err != nil {
		return nil //nolint:nilerr // It has no address.
	}
	anyServer := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // No credentials are sent, and nothing is read.
	response, err := anyServer.Do(request)
	if err != nil {
		return nil //nolint:nilerr // It does not answer.
	}
	_ = response.Body.Close()
	return decision("the management cluster of the backup still answers at %s: two providers would apply and destroy the same cloud resources. Nothing was written. "+
		"Stop Crossplane, provider-terraform and CAPT there (docs/move.md#before, step 8), then run the command with --old-is-stopped", r.backup.Server)
}

// compare finds out what is missing. A WorkspaceTemplateApply that exists with another state is a conflict: what its state of before has would be created again.
func (r *restoring) compare(ctx context.Context) error {
	for _, object := range r.backup.Objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		switch err := r.adoption.client.Get(ctx, client.ObjectKeyFromObject(object), live); {
		case apierrors.IsNotFound(err):
			r.missing = append(r.missing, object)
		case meta.IsNoMatchError(err):
			return fmt.Errorf("%s cannot be restored: its kind is not installed. Install Cluster API, CAPT and provider-terraform first", states.Describe(object))
		case err != nil:
			return err
		}
	}
	for key, state := range r.backup.States {
		apply, err := r.applyOf(ctx, key)
		if err != nil {
			return err
		}
		if apply == nil {
			continue
		}
		if has := states.StateOf(apply, nil).Name; has != "" && has != state.Name {
			return decision("WorkspaceTemplateApply %s exists with Terraform state %s, and had %s when the backup was taken: nothing was written. Find out what either state has (captctl adopt list --used), and delete the object if it is the wrong one", key, has, state.Name)
		}
	}
	return nil
}

// describe prints what would be created.
func (r *restoring) describe() {
	p := r.Printer()
	p.Text("", output.Plain, fmt.Sprintf("Backup of %s by captctl %s: %s, of which %d are missing", r.backup.Taken.UTC().Format(time.RFC3339), r.backup.Captctl, output.Count(len(r.backup.Objects), "object"), len(r.missing)))
	for _, object := range r.missing {
		line := states.Describe(object)
		if state := r.backup.States[object.GetNamespace()+"/"+object.GetName()]; object.GetKind() == "WorkspaceTemplateApply" && state.Name != "" {
			line += fmt.Sprintf(": Terraform state %s of %s", state.Name, state.ProviderConfig)
		}
		p.Text("  ", output.Plain, line)
	}
}

func (r *restoring) run(ctx context.Context) error {
	late := func(err error) bool { return ctx.Err() == nil && !errors.Is(err, errNotLate) }
	if err := retry.OnError(admitted, late, func() error { return r.createMissing(ctx) }); err != nil {
		return fmt.Errorf("%w. Run the command again to continue", err)
	}
	if err := errors.Join(r.replan(ctx), r.unpause(ctx)); err != nil {
		return err
	}
	waiting, stop := context.WithTimeout(ctx, r.timeout)
	defer stop()
	if err := r.adoption.until(waiting, r.proven); err != nil {
		return err
	}
	r.Printer().Text("", output.Good, fmt.Sprintf("%s is restored: all of %s are Ready, and Terraform changed nothing", r.file, output.Count(len(r.backup.States), "Terraform state")))
	return nil
}

// admitted is how long admission may need to know other objects.
var admitted = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1, Steps: 30}

// errNotLate is an error that does not depend on other objects.
var errNotLate = errors.New("not created")

// createMissing creates what is missing. What admission rejects is left for the next round: it may depend on an object that is created later.
func (r *restoring) createMissing(ctx context.Context) error {
	var left []*unstructured.Unstructured
	var errs []error
	for _, object := range r.missing {
		held, err := r.backup.HoldFor(object, r.adoption.request)
		if err == nil {
			err = r.adoption.client.Create(ctx, held, client.FieldOwner(fieldManager))
		}
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // Owners create what they miss.
			continue
		case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsInternalError(err):
			err = errors.Join(err, errNotLate)
		}
		left, errs = append(left, object), append(errs, fmt.Errorf("%s: %w", states.Describe(object), err))
	}
	r.missing = left
	return errors.Join(errs...)
}

// replan requests other plans of what could not be proven before.
func (r *restoring) replan(ctx context.Context) error {
	for key := range r.backup.States {
		apply, err := r.applyOf(ctx, key)
		if err != nil {
			return err
		}
		if apply == nil || !isNotProven(apply) || !r.isOurs(apply) {
			continue
		}
		if err := patch(ctx, r.adoption.client, apply, map[string]any{"metadata": map[string]any{"annotations": map[string]any{naming.ProveAnnotation: r.adoption.request}}}); err != nil {
			return err
		}
	}
	return nil
}

// unpause lets the Clusters go that were not paused when the backup was taken.
func (r *restoring) unpause(ctx context.Context) error {
	for _, object := range r.backup.Objects {
		if object.GetKind() != clusterv1.ClusterKind || states.IsPausedIn(object) {
			continue
		}
		cluster, err := cli.Get(ctx, r.adoption.client, client.ObjectKeyFromObject(object), &clusterv1.Cluster{})
		if err != nil {
			return err
		}
		if cluster == nil || !r.isOurs(cluster) || cluster.Spec.Paused == nil || !*cluster.Spec.Paused {
			continue
		}
		if err := patch(ctx, r.adoption.client, cluster, map[string]any{"spec": map[string]any{"paused": false}}); err != nil {
			return err
		}
	}
	return nil
}

// isOurs reports whether the restore of this backup has created an object.
func (r *restoring) isOurs(object metav1.Object) bool {
	return object.GetAnnotations()[naming.RestoredAnnotation] == r.backup.Checksum
}

func (r *restoring) applyOf(ctx context.Context, key string) (*infrav1.WorkspaceTemplateApply, error) {
	namespace, name, _ := strings.Cut(key, "/")
	return cli.Get(ctx, r.adoption.client, types.NamespacedName{Namespace: namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
}

// proven reports whether nothing is left to wait for: everything is Ready, or belongs to a Cluster with a plan that is not empty, which is the error.
func (r *restoring) proven(ctx context.Context) (bool, error) {
	blocked, waiting := map[string]*infrav1.WorkspaceTemplateApply{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(r.backup.States)) {
		apply, err := r.applyOf(ctx, key)
		if err != nil {
			return false, err
		}
		paused, err := r.isPaused(ctx, apply)
		if err != nil {
			return false, err
		}
		switch ready := r.readiness(apply, paused); {
		case ready == infrav1.NotProvenReason:
			blocked[unitOf(apply)] = apply
		case ready != "":
			waiting[unitOf(apply)] = true
			r.adoption.show(key, ready)
		}
	}
	for unit := range waiting {
		if blocked[unit] == nil {
			return false, nil
		}
	}
	return len(blocked) == 0, r.blockedError(blocked)
}

// unitOf is the Cluster of an object, or the object itself.
func unitOf(apply *infrav1.WorkspaceTemplateApply) string {
	return apply.Namespace + "/" + cmp.Or(apply.Labels[clusterv1.ClusterNameLabel], apply.Name)
}

// readiness is what an object waits for; NotProven if a user must act, and empty if it is Ready or not waited for.
func (r *restoring) readiness(apply *infrav1.WorkspaceTemplateApply, paused bool) string {
	if paused {
		return ""
	}
	ready := conditions.Get(apply, infrav1.ReadyCondition)
	switch {
	case ready == nil || ready.ObservedGeneration != apply.Generation:
		return "not reconciled yet"
	case isNotProven(apply), ready.Reason == infrav1.WorkspaceConflictReason:
		return infrav1.NotProvenReason
	case ready.Status != metav1.ConditionTrue, states.IsPending(apply):
		return cmp.Or(ready.Message, ready.Reason)
	}
	return ""
}

// isPaused reports whether an object is not waited for: a user has paused it or its Cluster, or deleted it.
func (r *restoring) isPaused(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	if apply == nil || apply.Labels[clusterv1.ClusterNameLabel] == "" {
		return apply == nil || annotations.HasPaused(apply), nil
	}
	cluster, err := cli.Get(ctx, r.adoption.client, types.NamespacedName{Namespace: apply.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}, &clusterv1.Cluster{})
	return annotations.HasPaused(apply) || cluster != nil && annotations.IsPaused(cluster, apply), err
}

// blockedError shows the plans that are not empty.
func (r *restoring) blockedError(blocked map[string]*infrav1.WorkspaceTemplateApply) error {
	if len(blocked) == 0 {
		return nil
	}
	for _, unit := range slices.Sorted(maps.Keys(blocked)) {
		if apply := blocked[unit]; isNotProven(apply) {
			_ = r.adoption.showPlan(apply)
			continue
		}
		r.Printer().Text("", output.Attention, fmt.Sprintf("WorkspaceTemplateApply %s: %s", client.ObjectKeyFromObject(blocked[unit]), conditions.GetMessage(blocked[unit], infrav1.ReadyCondition)))
	}
	return decision("%s not restored: %s. Nothing is applied to them; the others are Ready. Correct what differs since %s, and run the command again",
		output.Count(len(blocked), "unit"), strings.Join(slices.Sorted(maps.Keys(blocked)), ", "), r.backup.Taken.UTC().Format(time.RFC3339))
}

// rollBack releases what the restore has created.
func (r *restoring) rollBack(ctx context.Context) error {
	targets, err := r.created(ctx)
	if err != nil {
		return err
	}
	if r.Asks() {
		lines := []string{"Delete these, and keep their cloud resources and Terraform states?"}
		for i := range targets {
			lines = append(lines, "  "+targets[i].title())
		}
		if err := r.Confirm(strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	for _, one := range targets {
		out := &release{releaseOptions: &releaseOptions{target: one, timeout: r.timeout}, client: r.adoption.client}
		err := out.read(ctx)
		if err == nil && !out.isEmpty() {
			err = out.run(ctx)
		}
		if err != nil {
			return err
		}
	}
	r.Printer().Text("", output.Good, fmt.Sprintf("%s of this backup removed; templates, ProviderConfigs, Secrets and namespaces stay", output.Count(len(targets), "unit")))
	return nil
}

// created are the Clusters, and the WorkspaceTemplateApplies without one, that the restore has created.
func (r *restoring) created(ctx context.Context) (targets []target, err error) {
	for _, object := range r.backup.Objects {
		isCluster := object.GetKind() == clusterv1.ClusterKind
		if !isCluster && (object.GetKind() != "WorkspaceTemplateApply" || object.GetLabels()[clusterv1.ClusterNameLabel] != "") {
			continue
		}
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(object.GroupVersionKind())
		live, err := cli.Get(ctx, r.adoption.client, client.ObjectKeyFromObject(object), kind)
		if err != nil {
			return nil, err
		}
		if live == nil || !r.isOurs(live) {
			continue
		}
		one := target{Options: r.Options, Writes: r.Writes, key: client.ObjectKeyFromObject(object)}
		if !isCluster {
			one.apply = object.GetName()
		}
		targets = append(targets, one)
	}
	return targets, nil
}

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
	return cmp.Or(
		cli.When(o.file == "", "--file is required"),
		cli.When(o.secrets && len(o.recipients) == 0, "--secrets requires --recipient: a file with Secrets is encrypted"),
		o.Options.Validate())
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
