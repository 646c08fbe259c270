// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	xpresource "github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor"
)

// state is a Terraform state, and the resources that it records.
type state struct {
	name string
	// content is the fingerprint of the module and the variables of the last complete apply; partial after one that failed.
	content   string
	resources []string
	outputs   []executor.Output
	// lock is the process that holds the lock; a killed one leaves it.
	lock string
	// orphaned is a lock whose holder was killed.
	orphaned bool
}

// cloud has the Terraform states and their resources: they survive the provider. It implements executor.Factory.
type cloud struct {
	world  *World
	states map[string]*state
	// refuse are errors of Terraform for the next runs, by operation.
	refuse map[string][]string
}

type run struct {
	cloud   *cloud
	process *process
	module  executor.Module
	state   string
}

// opener binds the cloud to a process of the provider.
type opener struct {
	cloud   *cloud
	process func() *process
}

// Open implements executor.Factory.
func (o opener) Open(_ context.Context, m executor.Module) (executor.Executor, error) {
	return &run{cloud: o.cloud, process: o.process(), module: m}, nil
}

// Forget implements executor.Factory.
func (opener) Forget(types.UID) error { return nil }

const (
	brokenPlan  = "# this module cannot be planned"
	brokenApply = "# this module cannot be applied"
)

func (r *run) text() string { return string(r.module.Files["main.tf"]) + r.module.Remote }

func (r *run) current() *state { return r.cloud.states[r.state] }

// fail returns the error of an operation: a broken module, or one that the schedule has for this run.
func (r *run) fail(operation string) error {
	text := r.text()
	switch {
	case operation == "plan" && strings.Contains(text, brokenPlan):
		return executor.Failure("Error: Unsupported argument\n\n  on main.tf line 3:\n")
	case operation == "apply" && strings.Contains(text, brokenApply):
		return executor.Failure("Error: creating EKS Cluster: InvalidParameterException: unsupported Kubernetes version\n")
	}
	if errs := r.cloud.refuse[operation]; len(errs) > 0 {
		r.cloud.refuse[operation] = errs[1:]
		return executor.Failure(errs[0])
	}
	return nil
}

// locked runs an operation with the lock of the state. It takes time: the scheduler decides when it ends, and the process may be killed meanwhile.
func (r *run) locked(operation string, do func() error) error {
	s := r.current()
	if s.lock != "" {
		return executor.Failure(fmt.Sprintf("Error: Error acquiring the state lock\n\nLock Info:\n  ID:        %s\n  Who:       %s\n", "5d1c2e8f-0000-4000-8000-000000000001", s.lock))
	}
	s.lock = r.process.name
	r.cloud.world.park(r.process, operation+" "+r.state)
	err := r.fail(operation)
	if err == nil {
		err = do()
	} else if operation == "apply" && len(s.resources) == 0 {
		s.resources, s.content = []string{"partial.first"}, "" // Terraform fails half way.
		if w := r.cloud.world; !w.exists(w.appliedBy[r.state]) {
			w.appliedBy[r.state] = r.module.UID
		}
	}
	s.lock = ""
	return err
}

// Init implements executor.Executor.
func (r *run) Init(context.Context, []string) error { return r.fail("init") }

// SelectWorkspace implements executor.Executor.
func (r *run) SelectWorkspace(_ context.Context, name string) error {
	if name == "" {
		return errors.New("no name of a Terraform workspace")
	}
	r.state = name
	if r.cloud.states[name] == nil {
		r.cloud.states[name] = &state{name: name}
	}
	return nil
}

func (r *run) fingerprint(o executor.RunOptions) string {
	data, err := json.Marshal([]any{r.text(), r.module.Entrypoint, o.Vars, o.VarFiles})
	must(err)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Plan implements executor.Executor.
func (r *run) Plan(_ context.Context, o executor.RunOptions) (bool, error) {
	if err := r.fail("plan"); err != nil {
		return false, err
	}
	return r.current().content != r.fingerprint(o), nil
}

// Apply implements executor.Executor.
func (r *run) Apply(_ context.Context, o executor.RunOptions) error {
	return r.locked("apply", func() error {
		s := r.current()
		s.content, s.resources = r.fingerprint(o), []string{"main"}
		s.outputs = r.outputs(o)
		r.cloud.world.applied(r, o)
		return nil
	})
}

// Destroy implements executor.Executor.
func (r *run) Destroy(context.Context, executor.RunOptions) error {
	return r.locked("destroy", func() error {
		s := r.current()
		r.cloud.world.destroyed(r)
		s.resources, s.outputs, s.content = nil, nil, ""
		return nil
	})
}

// Resources implements executor.Executor.
func (r *run) Resources(context.Context) ([]string, error) {
	return slices.Clone(r.current().resources), nil
}

// Outputs implements executor.Executor.
func (r *run) Outputs(context.Context) ([]executor.Output, error) { return r.current().outputs, nil }

// DeleteWorkspace implements executor.Executor.
func (r *run) DeleteWorkspace(context.Context) error {
	delete(r.cloud.states, r.state)
	r.cloud.states["default"] = &state{name: "default"}
	r.state = "default"
	return nil
}

// Checksum implements executor.Executor.
func (r *run) Checksum(context.Context) (string, error) {
	sum := sha256.Sum256([]byte(r.text()))
	return hex.EncodeToString(sum[:16]), nil
}

// publisher does not compare the bytes of a connection Secret that has what is to be published as crossplane-runtime does: one by one.
type publisher struct {
	managed.LocalConnectionPublisher
	client client.Client
}

// publishUnlessPublished replaces the publisher of connection Secrets, for which crossplane-runtime has no option.
func publishUnlessPublished(c client.Client) managed.ReconcilerOption {
	return func(r *managed.Reconciler) {
		field := reflect.ValueOf(r).Elem().FieldByName("managed").FieldByName("LocalConnectionPublisher")
		of := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Interface().(*managed.LocalConnectionPublisher)
		*of = publisher{*of, c}
	}
}

// PublishConnection implements managed.LocalConnectionPublisher.
func (p publisher) PublishConnection(ctx context.Context, owner xpresource.LocalConnectionSecretOwner, details managed.ConnectionDetails) (bool, error) {
	if ref := owner.GetWriteConnectionSecretToReference(); ref != nil {
		secret := &corev1.Secret{}
		err := p.client.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: ref.Name}, secret)
		if err == nil && metav1.IsControlledBy(secret, owner) && maps.EqualFunc(secret.Data, details, bytes.Equal) {
			return false, nil
		}
	}
	return p.LocalConnectionPublisher.PublishConnection(ctx, owner, details)
}

// authority is a small certificate: crossplane-runtime compares each of its bytes in each reconcile.
var authority = sync.OnceValue(func() string {
	public, private, err := ed25519.GenerateKey(nil)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(nil, template, template, public, private)
	must(err)
	return base64.StdEncoding.EncodeToString(certs.EncodeCertPEM(&x509.Certificate{Raw: certificate}))
})

var outputName = regexp.MustCompile(`(?m)^output "([a-z_]+)"`)

// outputs are those of the module. Values derive from the state, so that different clusters have different ones.
func (r *run) outputs(o executor.RunOptions) (outputs []executor.Output) {
	for _, match := range outputName.FindAllStringSubmatch(r.text(), -1) {
		value := match[1] + "-" + r.state
		switch match[1] {
		case "cluster_endpoint":
			value = "https://" + strings.ToLower(r.state) + ".eks.test:443"
		case "cluster_certificate_authority_data":
			value = authority()
		case "vpc_config":
			value = fmt.Sprintf("vpc_id = %q\nprivate_subnets = [\"subnet-1\", \"subnet-2\"]\n", "vpc_id-"+r.state)
		case "cluster_name":
			value = variablesOf(o)["cluster_name"]
		case "kubernetes_version":
			value = variablesOf(o)["kubernetes_version"]
		}
		outputs = append(outputs, executor.Output{Name: match[1], String: true, Value: value, Sensitive: match[1] == "kubeconfig"})
	}
	slices.SortFunc(outputs, func(a, b executor.Output) int { return compare(a.Name, b.Name) })
	return outputs
}

func variablesOf(o executor.RunOptions) map[string]string {
	found := map[string]string{}
	for _, v := range o.Vars {
		found[v.Key] = v.Value
	}
	for _, file := range o.VarFiles {
		values := map[string]any{}
		if json.Unmarshal(file.Data, &values) == nil {
			for _, key := range slices.Sorted(maps.Keys(values)) {
				if text, ok := values[key].(string); ok {
					found[key] = text
				}
			}
		}
	}
	return found
}
