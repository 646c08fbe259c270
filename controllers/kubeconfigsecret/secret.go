// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfigsecret publishes the kubeconfigs of a control plane: the Secret of Cluster API's contract, and the one for users.
package kubeconfigsecret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/managedfields"
	"github.com/capt-provider/capt/controllers/owner"
)

// fieldManager is the field manager of the Secrets.
const fieldManager = naming.CAPTControlPlaneFieldManager

// Kubeconfig is a kubeconfig with its Secret.
type Kubeconfig struct {
	// Live is the Secret; nil when it does not exist.
	Live *corev1.Secret
	// Data is the kubeconfig to publish; nil when there is none.
	Data []byte
	// Reason and Problem are the reason and the message why there is no Data.
	Reason, Problem string
	// Warning is what needs attention although the kubeconfig can be used.
	Warning string
	// Written is true when the Secret has Data, with the labels and the owner that the contract requires.
	Written bool
}

// HoldsToken reports whether the Secret holds a kubeconfig with a token of EKS.
func (k *Kubeconfig) HoldsToken() bool { return holdsToken(k.publishedData()) }

func holdsToken(data []byte) bool {
	_, holds := kubeconfig.Expiry(data)
	return holds
}

func (k *Kubeconfig) publishedData() []byte {
	if k.Live == nil {
		return nil
	}
	return k.Live.Data[secret.KubeconfigDataName]
}

// Published returns the kubeconfig that the Secret of a control plane has; nil when there is none.
func (k *Kubeconfig) Published(controlPlane *controlplanev1.CAPTControlPlane) []byte {
	switch {
	case k.Written:
		return k.Data
	case k.Live != nil && metav1.IsControlledBy(k.Live, controlPlane):
		return k.publishedData()
	}
	return nil
}

// Mode is what a reconcile does about the kubeconfigs.
type Mode string

const (
	// Keep leaves the Secrets as they are.
	Keep Mode = ""
	// RenewToken renews a published token while Terraform runs or has failed: an update takes longer than a token is valid, and a failed
	// one may stay so for days. Nothing else changes before Terraform is done.
	RenewToken Mode = "RenewToken"
	// Publish determines both kubeconfigs.
	Publish Mode = "Publish"
)

// Plan is what one reconcile does.
type Plan struct {
	Mode    Mode
	Cluster Cluster
	// Write allows writes of the Secrets. A token is renewed without it, unless Paused.
	Write, Paused bool
	// NameConflict is true when another control plane has an EKS cluster of the same name for longer.
	NameConflict bool
	Now          time.Time
}

// Publisher writes kubeconfig Secrets.
type Publisher struct {
	Client client.Client
	// Tokens creates tokens; nil when this manager creates none.
	Tokens kubeconfig.Tokens
	// Secrets is informed of writes.
	Secrets *engine.Secrets
}

// Publish determines the kubeconfigs and writes them. It returns when they must be determined again; zero is never.
func (p Publisher) Publish(ctx context.Context, plan Plan, contract, user *Kubeconfig) (time.Duration, error) {
	source := &sources{Plan: plan, tokens: p.Tokens, published: contract.publishedData()}
	switch cluster := plan.Cluster; plan.Mode {
	case Keep:
		return 0, nil
	case RenewToken:
		source.renew(ctx, contract)
	case Publish:
		contract.resolve(cluster, func() ([]byte, string, error) { return source.contractKubeconfig(ctx) })
		user.resolve(cluster, source.execKubeconfig)
	}
	name := plan.Cluster.Name
	if renewed := !plan.Paused && contract.HoldsToken() && holdsToken(contract.Data); renewed || plan.Write {
		if err := p.write(ctx, plan.Cluster, naming.KubeconfigSecret(name), contract); err != nil {
			return source.requeueAfter, err
		}
	}
	if !plan.Write {
		return source.requeueAfter, nil
	}
	return source.requeueAfter, p.write(ctx, plan.Cluster, naming.UserKubeconfigSecret(name), user)
}

// renew determines a kubeconfig with a new token in place of one that is published.
func (s *sources) renew(ctx context.Context, contract *Kubeconfig) {
	wanted := s.Cluster.ControlPlane.Spec.Kubeconfig.Source
	if wanted == controlplanev1.KubeconfigOutput || wanted == controlplanev1.KubeconfigExec || !contract.HoldsToken() {
		return
	}
	contract.resolve(s.Cluster, func() ([]byte, string, error) { return s.tokenKubeconfig(ctx) })
	if wanted != controlplanev1.KubeconfigToken && contract.Data == nil {
		*contract = Kubeconfig{Live: contract.Live} // Auto uses another source when Terraform is done.
	}
}

// resolve determines the kubeconfig with source, unless the Secret belongs to another object, so that it could not be published. If source
// returns data and an error, the data is published and the error reported.
func (k *Kubeconfig) resolve(cluster Cluster, source func() (data []byte, reason string, err error)) {
	*k = Kubeconfig{Live: k.Live}
	if owner := k.otherOwner(cluster.ControlPlane); owner != "" {
		k.Reason = controlplanev1.KubeconfigConflictReason
		k.Problem = fmt.Sprintf("Secret %s belongs to %s and is not overwritten. If nothing uses the Secret, delete it; otherwise the Cluster needs another name", k.Live.Name, owner)
		return
	}
	if k.Problem = k.immutable(cluster); k.Problem != "" {
		k.Reason = controlplanev1.KubeconfigConflictReason
		return
	}
	data, reason, err := source()
	k.Data = data
	switch {
	case err != nil && data != nil:
		k.Warning = err.Error()
	case err != nil:
		k.Reason, k.Problem = reason, err.Error()
	}
	// Label and owner are part of the contract, so a Secret that lost them is written again.
	k.Written = k.Live != nil && data != nil && bytes.Equal(k.publishedData(), data) && !managedfields.Lost(k.Live, fieldManager) &&
		k.Live.Labels[clusterv1.ClusterNameLabel] == cluster.Name && metav1.IsControlledBy(k.Live, cluster.ControlPlane)
}

// immutable is the problem of a Secret that does not get what Terraform returns; empty without one. crossplane-runtime reports no error then.
func (k *Kubeconfig) immutable(cluster Cluster) string {
	for _, from := range []*corev1.Secret{cluster.Connection, k.Live} {
		if from != nil && ptr.Deref(from.Immutable, false) {
			return fmt.Sprintf("another client has made Secret %[1]s immutable, so it does not get what Terraform returns. Delete it, and it is written again within seconds: kubectl delete secret -n %[2]s %[1]s", from.Name, from.Namespace)
		}
	}
	return ""
}

// otherOwner names the owner of the Secret if that is another object; else it is empty.
func (k *Kubeconfig) otherOwner(controlPlane *controlplanev1.CAPTControlPlane) string {
	if k.Live == nil {
		return ""
	}
	switch controller := metav1.GetControllerOf(k.Live); {
	case controller != nil && controller.UID != controlPlane.UID:
		return controller.Kind + " " + controller.Name
	case controller == nil && k.Live.Type != clusterv1.ClusterSecretType:
		return "another client (it has no owner, and is not of type cluster.x-k8s.io/secret)"
	}
	return ""
}

func (p Publisher) write(ctx context.Context, cluster Cluster, name string, k *Kubeconfig) error {
	if k.Data == nil || k.Written {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Writing kubeconfig", "Secret", klog.KRef(cluster.ControlPlane.Namespace, name))
	config, err := ssa.Unstructured(contractSecret(cluster, name, k.Data))
	if err != nil {
		return err
	}
	defer p.Secrets.Forget(client.ObjectKeyFromObject(config))
	err = p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", name, err)
	}
	if err := managedfields.Restore(ctx, p.Client, config, fieldManager); err != nil {
		return err
	}
	k.Written = true
	return nil
}

// contractSecret is the Secret of a kubeconfig in the form of Cluster API's contract.
func contractSecret(cluster Cluster, name string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.ControlPlane.Namespace, Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(cluster.ControlPlane, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")),
			},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: data},
	}
}

// NameConflict reports whether a control plane of another namespace had an EKS cluster of the same name first. A token is bound to the name of the EKS
// cluster alone: EKS accepts one that was signed for any region. Only WorkspaceTemplateApplies
// that a control plane refers to count, because users can create others with any cluster_name. The older WorkspaceTemplateApply wins:
// admission does not allow changes of its cluster_name once it has a Workspace. The age of the control plane does not count, because an old
// one can get a new WorkspaceTemplateApply.
func NameConflict(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	others, err := appliesOfEKSCluster(ctx, c, apply.Spec.Variables.Text(naming.ClusterVariable))
	if err != nil {
		return false, fmt.Errorf("listing EKS clusters of the same name: %w", err)
	}
	for i := range others {
		other := &others[i]
		if other.Namespace == apply.Namespace || other.Status.WorkspaceRef == nil && other.Status.WorkspaceName == "" || !desired.Older(other, apply) {
			continue
		}
		if referred, err := isReferenced(ctx, c, other); err != nil || referred {
			return referred, err
		}
	}
	return false, nil
}

// isReferenced reports whether the control plane that controls a WorkspaceTemplateApply refers to it.
func isReferenced(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := client.ObjectKey{Namespace: apply.Namespace, Name: metav1.GetControllerOf(apply).Name}
	controlPlane, err := engine.Get(ctx, c, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return false, fmt.Errorf("reading the CAPTControlPlane of an EKS cluster of the same name: %w", err)
	}
	if controlPlane == nil || !metav1.IsControlledBy(apply, controlPlane) {
		return false, nil
	}
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	return ref.Name == apply.Name, nil
}

// appliesOfEKSCluster lists the WorkspaceTemplateApplies of control planes that create an EKS cluster of a name.
func appliesOfEKSCluster(ctx context.Context, c client.Reader, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	err := c.List(ctx, &list, client.MatchingFields{owner.EKSIndex: name})
	return list.Items, err
}

// OfSameCluster returns the control planes with an EKS cluster of the same name: one may wait for the name to be free.
func OfSameCluster(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) (requests []ctrl.Request) {
		for _, name := range owner.IndexEKS(object) {
			requests = append(requests, engine.RequestsFor(ctx, c, &infrav1.WorkspaceTemplateApplyList{}, func(other client.Object) []ctrl.Request {
				return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: other.GetNamespace(), Name: metav1.GetControllerOf(other).Name}}}
			}, client.MatchingFields{owner.EKSIndex: name})...)
		}
		return requests
	}
}

// Cluster is the input from which kubeconfigs are created.
type Cluster struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Name of the Cluster.
	Name string
	// EKSName is the name of the EKS cluster that CAPT passed to Terraform.
	EKSName string
	// Region of the EKS cluster.
	Region string
	Outputs
}

// Outputs of Terraform.
type Outputs struct {
	// Published are those of status, which are not sensitive.
	Published map[string]string
	// Connection is the connection Secret; nil when it does not exist or was not read.
	Connection *corev1.Secret
	// Declared are the outputs of the applied module, and whether they are sensitive; nil if they are not known. The provider only adds to the connection Secret:
	// it keeps the last value of an output that the module does not have any more, or that is null now.
	Declared map[string]bool
}

// Output returns the value of an output; empty when there is none.
func (o Outputs) Output(name string) string {
	if o.Published[name] != "" {
		return o.Published[name]
	}
	return string(o.connectionValue(name))
}

func (o Outputs) connectionValue(name string) []byte {
	if o.Connection == nil || o.isRemoved(name) {
		return nil
	}
	if sensitive, declared := o.Declared[name]; declared && !sensitive && slices.Contains(terraform.PublishedOutputs(), name) {
		return nil // It would be in status.
	}
	return o.Connection.Data[name]
}

// isRemoved reports whether the applied module does not have an output.
func (o Outputs) isRemoved(name string) bool {
	_, declared := o.Declared[name]
	return o.Declared != nil && !declared
}

// Endpoint of the API server; zero when there is no output, and an error when it cannot be parsed.
func (o Outputs) Endpoint() (clusterv1.APIEndpoint, error) {
	text := o.Output(terraform.OutputClusterEndpoint)
	if text == "" {
		return clusterv1.APIEndpoint{}, nil
	}
	host, port, err := terraform.ParseEndpoint(text)
	return clusterv1.APIEndpoint{Host: host, Port: port}, err
}

// template is the name of the WorkspaceTemplate that has the outputs.
func (c *Cluster) template() string {
	return c.ControlPlane.Spec.WorkspaceTemplateRef.Key(c.ControlPlane.Namespace).String()
}

// serverAndCA is the URL of the API server, and its certificate authority as Terraform returned it; else the reason and the error why they are not known.
func (c *Cluster) serverAndCA() (address, ca, reason string, err error) {
	endpoint, err := c.Endpoint()
	if err != nil || endpoint.IsZero() {
		return "", "", controlplanev1.KubeconfigMissingReason, errors.New("the endpoint of the API server is unknown; see condition EndpointAvailable")
	}
	if ca = c.Output(terraform.OutputClusterCA); terraform.HasNoValue(ca) {
		return "", "", controlplanev1.KubeconfigMissingReason, c.missing(terraform.OutputClusterCA)
	}
	if err := kubeconfig.CheckCA(ca); err != nil {
		return "", "", controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q is invalid: %w. Correct it in the module of WorkspaceTemplate %s", terraform.OutputClusterCA, err, c.template())
	}
	return "https://" + endpoint.String(), ca, "", nil
}

// missing is why an output that the connection Secret should have is not known.
func (c *Cluster) missing(output string) error {
	if c.Connection == nil {
		return fmt.Errorf("the connection Secret with output %q does not exist; "+writtenAgain, output)
	}
	if _, returned := c.Connection.Data[output]; returned && c.isRemoved(output) {
		return fmt.Errorf("the module of WorkspaceTemplate %s has no output %q any more, and the value in Secret %s, which is of an earlier module, is not used. Add the output to the module", c.template(), output, c.Connection.Name)
	} else if returned {
		return fmt.Errorf("output %q has no value, or the text of one that does not exist, such as null or None; correct it in the module of WorkspaceTemplate %s", output, c.template())
	}
	names := fmt.Sprintf("%q", output)
	if output == terraform.OutputClusterCA && len(c.connectionValue(terraform.OutputKubeconfig)) == 0 {
		names = fmt.Sprintf("%q or %q", terraform.OutputKubeconfig, output) // Either is enough.
	}
	return fmt.Errorf("the connection Secret has no output %s. If the module has it, its value is null, or another client has edited Secret %s, and captctl run lets Terraform write it again. Otherwise add it to the module of WorkspaceTemplate %s",
		names, c.Connection.Name, c.template())
}

// writtenAgain is the advice about a connection Secret that was deleted: no module needs a change.
const writtenAgain = "provider-terraform writes it again at its next poll, and CAPT asks it to do so at once if it has created the Workspace. If it does not, check provider-terraform"

// sources of kubeconfigs. Each returns a kubeconfig, or the reason and the error why there is none.
type sources struct {
	Plan
	tokens kubeconfig.Tokens
	// published is the kubeconfig of the contract as it is.
	published []byte
	// requeueAfter is when to determine the kubeconfigs again; zero is never.
	requeueAfter time.Duration
	// exec is the kubeconfig for users, once it was determined: to encode it takes longer than all else.
	exec []byte
}

// requeueWithin asks for another reconcile after a time at the latest.
func (s *sources) requeueWithin(after time.Duration) {
	if s.requeueAfter == 0 || after < s.requeueAfter {
		s.requeueAfter = after
	}
}

// contractKubeconfig is the kubeconfig of Cluster API's contract, from the source of spec.
func (s *sources) contractKubeconfig(ctx context.Context) ([]byte, string, error) {
	data, reason, err := s.fromSource(ctx)
	if data == nil || !bytes.Equal(data, s.exec) && !errors.Is(kubeconfig.Check(data), kubeconfig.ErrGetToken) {
		return data, reason, err
	}
	if err == nil {
		err = errors.New(runsGetToken)
	}
	return data, reason, fmt.Errorf("%w. Cluster API's controllers have neither the AWS CLI nor AWS credentials, so they cannot connect. Either give the manager of CAPT AWS credentials and access to the cluster, "+
		"so that it creates tokens (docs/kubeconfig.md, Requirements), or return a kubeconfig with a token or a client certificate in output %q of the module", err, terraform.OutputKubeconfig)
}

const runsGetToken = "the kubeconfig runs \"aws eks get-token\""

func (s *sources) fromSource(ctx context.Context) ([]byte, string, error) {
	switch s.Cluster.ControlPlane.Spec.Kubeconfig.Source {
	case controlplanev1.KubeconfigOutput:
		return s.outputKubeconfig()
	case controlplanev1.KubeconfigExec:
		return s.execKubeconfig()
	case controlplanev1.KubeconfigToken:
		return s.tokenKubeconfig(ctx)
	case controlplanev1.KubeconfigAuto:
	}
	return s.autoKubeconfig(ctx)
}

// autoKubeconfig prefers Terraform's kubeconfig if its credentials do not expire, then one with a token, then Terraform's until it expires, then
// one for users. It reports an output that it replaces, which may have a role that the user needs.
func (s *sources) autoKubeconfig(ctx context.Context) ([]byte, string, error) {
	output := s.Cluster.connectionValue(terraform.OutputKubeconfig)
	unusable := kubeconfig.Check(output)
	if unusable == nil {
		return output, "", nil
	}
	data, reason, err := s.replaceOutput(ctx, unusable)
	if len(output) == 0 || errors.Is(unusable, kubeconfig.ErrGetToken) || errors.Is(unusable, kubeconfig.ErrShortLived) {
		return data, reason, err
	}
	replaced := fmt.Errorf("output %q of WorkspaceTemplate %s is not published: %w", terraform.OutputKubeconfig, s.Cluster.template(), unusable)
	switch {
	case err != nil:
		return data, reason, fmt.Errorf("%w. Instead of it, %w", replaced, err)
	case holdsToken(data):
		return data, reason, fmt.Errorf("%w. Instead of it, the kubeconfig has a token of the manager", replaced)
	}
	return data, reason, fmt.Errorf("%w. Instead of it, %s without other options", replaced, runsGetToken)
}

// replaceOutput is the kubeconfig to publish if the output cannot be used, or expires.
func (s *sources) replaceOutput(ctx context.Context, unusable error) ([]byte, string, error) {
	data, reason, noToken := s.tokenKubeconfig(ctx)
	if data != nil || s.waitsForToken(noToken) {
		return data, reason, noToken
	}
	if errors.Is(unusable, kubeconfig.ErrShortLived) {
		if data, _, err := s.outputKubeconfig(); err == nil {
			return data, "", nil
		}
	}
	data, reason, err := s.execKubeconfig()
	if err == nil && s.tokens != nil {
		err = fmt.Errorf(runsGetToken+", because %w", noToken)
	}
	return data, reason, err
}

// outputKubeconfig is the kubeconfig of Terraform, if Cluster API or users can use it.
func (s *sources) outputKubeconfig() ([]byte, string, error) {
	const otherSource = "set spec.kubeconfig.source to Token or Exec"
	output := s.Cluster.connectionValue(terraform.OutputKubeconfig)
	unusable := kubeconfig.Check(output)
	switch {
	case s.Cluster.Connection == nil:
		return nil, controlplanev1.KubeconfigMissingReason, s.Cluster.missing(terraform.OutputKubeconfig)
	case len(output) == 0:
		return nil, controlplanev1.KubeconfigMissingReason, fmt.Errorf("%w, or set spec.kubeconfig.source to Exec", s.Cluster.missing(terraform.OutputKubeconfig))
	case errors.Is(unusable, kubeconfig.ErrShortLived):
		expiry, _ := kubeconfig.Expiry(output)
		if !s.Now.Before(expiry) {
			return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q of WorkspaceTemplate %s has expired: %w; "+otherSource, terraform.OutputKubeconfig, s.Cluster.template(), unusable)
		}
		s.requeueWithin(expiry.Sub(s.Now))
	case unusable != nil && !errors.Is(unusable, kubeconfig.ErrGetToken):
		return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("output %q of WorkspaceTemplate %s cannot be used: %w; correct it in the module, or "+otherSource, terraform.OutputKubeconfig, s.Cluster.template(), unusable)
	}
	return output, "", nil
}

// execKubeconfig is a kubeconfig that requests credentials from AWS wherever it is used.
func (s *sources) execKubeconfig() ([]byte, string, error) {
	if s.exec != nil {
		return s.exec, "", nil
	}
	server, ca, reason, err := s.Cluster.serverAndCA()
	if err != nil {
		return nil, reason, err
	}
	name := s.Cluster.Output(terraform.OutputClusterName)
	if name == "" {
		name = s.Cluster.EKSName
	}
	data, err := kubeconfig.ForExec(name, s.Cluster.Region, server, ca)
	if err != nil {
		return nil, controlplanev1.KubeconfigInvalidReason, fmt.Errorf("%w of WorkspaceTemplate %s", err, s.Cluster.template())
	}
	s.exec = data
	return data, "", nil
}

const (
	// credentialsInterval is how often to look for AWS credentials when there are none: a file with them may be mounted late.
	credentialsInterval = 5 * time.Minute
	// nameConflictInterval is how often to check whether another control plane still has the name. Watches report that its
	// WorkspaceTemplateApply was deleted, but not that it lost its owner.
	nameConflictInterval = 5 * time.Minute
)

// errPaused is why there is no new token while the object is paused.
var errPaused = errors.New("no token is created while the object is paused")

// paused implements kubeconfig.Tokens for paused objects: it creates no tokens, so that published ones are kept.
type paused struct{}

func (paused) Available(context.Context) error { return nil }

func (paused) Token(context.Context, string, string) (string, time.Time, error) {
	return "", time.Time{}, errPaused
}

// tokenSource is the cluster for which a token is created. A token lets its bearer act as this manager in that cluster, and the author
// of a template controls what Terraform returns. So the name is the one that CAPT passed to Terraform: an output cannot request a token
// for the cluster of another namespace, nor can a cluster of the same name.
func (s *sources) tokenSource() (kubeconfig.Source, string, error) {
	none, name := kubeconfig.Source{}, s.Cluster.EKSName
	switch output := s.Cluster.Output(terraform.OutputClusterName); {
	case s.tokens == nil:
		return none, controlplanev1.KubeconfigMissingReason, errors.New(
			"spec.kubeconfig.source is Token, but this manager creates no tokens: it had no AWS credentials when it started, or runs with --eks-tokens=false (docs/install-reference.md, Tokens for kubeconfigs). Correct that, or set the source to Output or Exec")
	case output != "" && output != name:
		return none, controlplanev1.KubeconfigInvalidReason, fmt.Errorf(
			"a token is created only for EKS cluster %q, which CAPT asked Terraform to create, but output %q %s; correct the template, or set spec.kubeconfig.source to Exec",
			name, terraform.OutputClusterName, s.describeOutput(terraform.OutputClusterName))
	case s.NameConflict:
		s.requeueWithin(nameConflictInterval)
		return none, controlplanev1.KubeconfigConflictReason, fmt.Errorf(
			"no token is created for EKS cluster %q: another CAPTControlPlane of this management cluster had an EKS cluster of this name first; set spec.kubeconfig.source to Exec, or use another Cluster name", name)
	}
	server, ca, reason, err := s.Cluster.serverAndCA()
	if err != nil {
		return none, reason, err
	}
	return kubeconfig.Source{Cluster: name, Region: s.Cluster.Region, Endpoint: server, CA: ca}, "", nil
}

func (s *sources) describeOutput(output string) string {
	if value := s.Cluster.Published[output]; value != "" {
		return fmt.Sprintf("is %.100q", value)
	}
	return "has another value (omitted: it is sensitive)"
}

// tokenKubeconfig is a kubeconfig with a token of EKS: the published one as long as it is valid, else one with a new token.
func (s *sources) tokenKubeconfig(ctx context.Context) ([]byte, string, error) {
	from, reason, err := s.tokenSource()
	if err != nil {
		return nil, reason, err
	}
	tokens := s.tokens
	if s.Paused {
		tokens = paused{}
	}
	data, next, err := from.Kubeconfig(ctx, tokens, s.published, s.Now)
	after := next.Sub(s.Now)
	switch {
	case err == nil:
	case errors.Is(err, errPaused):
		if data == nil {
			return nil, controlplanev1.KubeconfigMissingReason, err
		}
		expiry, _ := kubeconfig.Expiry(data)
		after, err = expiry.Sub(s.Now), nil
	case data != nil:
		err = fmt.Errorf("the token in the kubeconfig is still valid, but cannot be renewed: %w", err)
	default:
		if errors.Is(err, kubeconfig.ErrNoCredentials) {
			after = credentialsInterval
		}
		err = &tokenError{err}
	}
	s.requeueWithin(after)
	return data, controlplanev1.KubeconfigMissingReason, err
}

type tokenError struct{ error }

func (e *tokenError) Error() string { return "no token can be created: " + e.error.Error() }
func (e *tokenError) Unwrap() error { return e.error }

// waitsForToken reports whether Auto waits for a token instead of using another source: the next attempt may succeed, and the published
// kubeconfig would alternate between the two sources.
func (s *sources) waitsForToken(err error) bool {
	if errors.Is(err, errPaused) {
		return holdsToken(s.published)
	}
	failed := (*tokenError)(nil)
	return errors.As(err, &failed) && !errors.Is(err, kubeconfig.ErrNoCredentials)
}
