// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// node does for installed objects what a cluster does: it runs one process for each Deployment of a program that it knows, issues Certificates, and
// injects their authority.
type node struct {
	*fixture.Server
	network *network
	// image is what Pods of CAPT run. Without it, they run the manager of the sandbox.
	image     *image
	authority *pki.Authority
	dir       string
	pods      map[client.ObjectKey]*pod
	// started is what a reaper stops if this process is killed.
	started process.State
	// injected are the versions of objects that have the authority.
	injected map[types.UID]string
}

// pod is the process of a Deployment.
type pod struct {
	*process.Process
	// spec is the template of the Deployment, and what it refers to.
	spec   string
	health string
}

// startNode runs a node until the test ends.
func startNode(t *testing.T, server *fixture.Server, network *network, image *image) *node {
	t.Helper()
	authority, err := pki.NewAuthority("cert-manager")
	require.NoError(t, err)
	n := &node{
		Server: server, network: network, image: image, authority: authority, dir: t.TempDir(), pods: map[client.ObjectKey]*pod{}, injected: map[types.UID]string{},
	}
	guard, err := process.StartReaper(server.Binary(binaries.Sandbox), n.dir, false)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for last := ""; ctx.Err() == nil; {
			// Another client can write an object at the same time, or delete its namespace.
			if err := n.reconcile(ctx); err != nil && !apierrors.IsConflict(err) && err.Error() != last && ctx.Err() == nil {
				last = err.Error()
				fmt.Fprintln(t.Output(), "node:", last)
			}
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		for key, pod := range n.pods {
			pod.Kill()
			if t.Failed() {
				t.Log(key, process.Tail(n.log(key), 60))
			}
		}
		require.NoError(t, guard.Release())
	})
	return n
}

func (n *node) reconcile(ctx context.Context) error {
	for _, step := range []func(context.Context) error{n.issue, n.inject} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := n.API.List(ctx, deployments); err != nil {
		return err
	}
	gone := maps.Clone(n.pods)
	for i := range deployments.Items {
		delete(gone, client.ObjectKeyFromObject(&deployments.Items[i]))
		if err := n.deploy(ctx, &deployments.Items[i]); err != nil {
			return err
		}
	}
	for key, pod := range gone {
		n.stop(key, pod)
	}
	return nil
}

// program returns the program of an image, if the sandbox has it.
func program(image string) string {
	repository, _, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return map[string]string{"capt-manager": binaries.Manager, "cluster-api-controller": binaries.ClusterAPICore}[repository]
}

// deploy starts, replaces or stops the process of a Deployment, and reports it in status.
func (n *node) deploy(ctx context.Context, d *appsv1.Deployment) error {
	key := client.ObjectKeyFromObject(d)
	name := program(d.Spec.Template.Spec.Containers[0].Image)
	if name == "" {
		return nil
	}
	spec, certificate, err := n.specOf(ctx, d)
	if err != nil {
		return err
	}
	running := n.pods[key]
	if running != nil && (running.spec != spec || *d.Spec.Replicas == 0) {
		n.stop(key, running)
		running = nil
	}
	if running == nil && *d.Spec.Replicas > 0 {
		if running, err = n.start(ctx, d, name, certificate); err != nil {
			return fmt.Errorf("starting %s: %w", key, err)
		}
		running.spec = spec
		n.pods[key] = running
	}
	if running != nil && running.Ended() {
		delete(n.pods, key) // It is started again.
		return running.Err()
	}
	return n.report(ctx, d, running)
}

// specOf returns what a process depends on: the Deployment's template and the Secret that it mounts.
func (n *node) specOf(ctx context.Context, d *appsv1.Deployment) (string, *corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Template.Spec.Volumes[0].Secret.SecretName}
	if err := n.API.Get(ctx, key, secret); err != nil {
		return "", nil, err
	}
	spec, err := json.Marshal(d.Spec.Template)
	return fmt.Sprint(d.UID, secret.UID, string(spec)), secret, err
}

func (n *node) stop(key client.ObjectKey, pod *pod) {
	pod.Stop(10 * time.Second)
	delete(n.pods, key)
}

func (n *node) log(key client.ObjectKey) string {
	return filepath.Join(n.dir, key.Namespace+"-"+key.Name+".log")
}

// container is how the container of a Pod is run, and the ports of its webhooks and its health.
type container struct {
	process.Spec
	webhooks, health int
}

// start starts the process of a Pod of a Deployment, as a kubelet would.
func (n *node) start(ctx context.Context, d *appsv1.Deployment, name string, certificate *corev1.Secret) (*pod, error) {
	key := client.ObjectKeyFromObject(d)
	account, err := n.login(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Template.Spec.ServiceAccountName})
	if err != nil {
		return nil, err
	}
	volumes := volumes{certificate: filepath.Join(n.dir, d.Namespace+"-"+d.Name), account: filepath.Join(n.dir, d.Namespace+"-"+d.Name+"-account")}
	if err := errors.Join(write(volumes.certificate, certificate.Data), write(volumes.account, account)); err != nil {
		return nil, err
	}
	var run container
	if name == binaries.Manager && n.image != nil {
		run, err = n.image.container(d, volumes, n.Config().Host)
	} else {
		run, err = n.withoutImage(d, name, volumes)
	}
	if err != nil {
		return nil, err
	}
	if err := n.connect(ctx, d, process.Loopback(run.webhooks)); err != nil {
		return nil, err
	}
	run.Name, run.Log = key.String(), n.log(key)
	started, err := process.Start(run.Spec)
	if err != nil {
		return nil, err
	}
	n.started.Record(process.Recorded{ID: started.ID(), Spec: run.Spec})
	return &pod{Process: started, health: "http://" + process.Loopback(run.health) + "/readyz"}, n.started.Save(n.dir)
}

// withoutImage runs a program of the sandbox, on ports of its own.
func (n *node) withoutImage(d *appsv1.Deployment, name string, from volumes) (container, error) {
	webhooks, err := process.FreePort()
	if err != nil {
		return container{}, err
	}
	health, err := process.FreePort()
	if err != nil {
		return container{}, err
	}
	kubeconfig := filepath.Join(from.account, "kubeconfig")
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"": {Server: n.Config().Host, CertificateAuthority: filepath.Join(from.account, corev1.ServiceAccountRootCAKey)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"": {TokenFile: filepath.Join(from.account, corev1.ServiceAccountTokenKey)}},
		Contexts:       map[string]*clientcmdapi.Context{"pod": {}},
		CurrentContext: "pod",
	}
	installed := d.Spec.Template.Spec.Containers[0]
	args := append(installed.Args, "--kubeconfig="+kubeconfig, "--health-addr="+process.Loopback(health), "--diagnostics-address=127.0.0.1:0",
		"--insecure-diagnostics=true", fmt.Sprintf("--webhook-port=%d", webhooks), "--webhook-cert-dir="+from.certificate)
	if name == binaries.Manager {
		args = append(args, "--leader-elect-namespace="+d.Namespace, "--shutdown-delay-duration=0s")
	} else {
		args = append(args, "--leader-elect=false") // It finds the namespace of the Lease only in a Pod.
	}
	return container{process.Spec{Path: n.Binary(name), Args: args, Env: env(d, installed.Env)}, webhooks, health}, clientcmd.WriteToFile(config, kubeconfig)
}

// volumes are the directories that a Pod mounts.
type volumes struct{ certificate, account string }

// write writes the files of a volume, which every user can read.
func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// env returns the environment of a container.
func env(d *appsv1.Deployment, variables []corev1.EnvVar) []string {
	var all []string
	for _, variable := range variables {
		value := variable.Value
		if variable.ValueFrom != nil {
			value = map[string]string{"metadata.namespace": d.Namespace, "metadata.name": d.Name, "metadata.uid": string(d.UID)}[variable.ValueFrom.FieldRef.FieldPath]
		}
		all = append(all, variable.Name+"="+value)
	}
	return all
}

// login returns the files of a volume with a token of a ServiceAccount.
func (n *node) login(ctx context.Context, account client.ObjectKey) (map[string][]byte, error) {
	token := &authenticationv1.TokenRequest{}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := n.API.SubResource("token").Create(ctx, object, token); err != nil {
		return nil, err
	}
	return map[string][]byte{
		corev1.ServiceAccountTokenKey: []byte(token.Status.Token), corev1.ServiceAccountRootCAKey: n.Config().CAData, corev1.ServiceAccountNamespaceKey: []byte(account.Namespace),
	}, nil
}

// connect leads the Services that select a Deployment's Pods to a process.
func (n *node) connect(ctx context.Context, d *appsv1.Deployment, address string) error {
	services := &corev1.ServiceList{}
	if err := n.API.List(ctx, services, client.InNamespace(d.Namespace)); err != nil {
		return err
	}
	for _, service := range services.Items {
		if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			n.network.route(fmt.Sprintf("%s:%d", service.Spec.ClusterIP, service.Spec.Ports[0].Port), address)
		}
	}
	return nil
}

// report updates the status of a Deployment.
func (n *node) report(ctx context.Context, d *appsv1.Deployment, running *pod) error {
	status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	if running != nil {
		status.Replicas, status.UpdatedReplicas = *d.Spec.Replicas, *d.Spec.Replicas
		if process.Probe(ctx, http.DefaultClient, running.health) == nil {
			status.ReadyReplicas, status.AvailableReplicas = status.Replicas, status.Replicas
		}
	}
	if d.Status.ObservedGeneration == status.ObservedGeneration && d.Status.Replicas == status.Replicas && d.Status.AvailableReplicas == status.AvailableReplicas {
		return nil
	}
	d.Status = status
	return n.API.Status().Update(ctx, d)
}
