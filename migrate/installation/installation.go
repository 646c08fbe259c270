// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package installation checks what CAPT needs in its management cluster: the manager with its rights, definitions, webhooks and policies, Cluster API, and
// provider-terraform. It writes nothing; the reviews of rights are not stored.
package installation

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// Status of a check.
type Status string

// Statuses of checks.
const (
	OK      Status = "OK"      // Nothing to do.
	Warning Status = "Warning" // It works, and the user should know.
	Error   Status = "Error"   // Something does not work.
	Unknown Status = "Unknown" // The user may not read it.
)

// Check is the result of one check.
type Check struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Message  string   `json:"message"`            // Message is what was found and, unless the check is OK, what to do.
	Objects  []string `json:"objects,omitempty"`  // Objects that the message is about.
	Commands []string `json:"commands,omitempty"` // Commands help to correct it.
}

// add adds a finding. The check gets its status and its message if it is worse than those before.
func (c *Check) add(status Status, object, message string, commands ...string) {
	if order := []Status{OK, Unknown, Warning, Error}; slices.Index(order, status) > slices.Index(order, c.Status) {
		c.Status, c.Message = status, message
	}
	c.Objects = append(c.Objects, object)
	for _, command := range commands {
		if !slices.Contains(c.Commands, command) {
			c.Commands = append(c.Commands, command)
		}
	}
}

// Report has the results of all checks.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Version         string  `json:"version"` // Version of captctl, whose manifests the installation is compared with.
	Checks          []Check `json:"checks"`
}

// Count is how many checks have a status.
func (r *Report) Count(status Status) (count int) {
	for i := range r.Checks {
		if r.Checks[i].Status == status {
			count++
		}
	}
	return count
}

// Options of Run.
type Options struct {
	Client   client.Client
	Version  string // Version of captctl.
	Now      time.Time
	Progress migrate.Progress
}

// Run runs all checks. What cannot be read is a result, too.
func Run(ctx context.Context, options Options) (*Report, error) {
	c := &checker{Options: options, wanted: sync.OnceValues(Definitions)}
	c.deployments = sync.OnceValues(func() ([]appsv1.Deployment, error) {
		var list appsv1.DeploymentList
		err := c.Client.List(ctx, &list)
		return list.Items, err
	})
	c.definitions = sync.OnceValues(func() (map[string]*apiextensionsv1.CustomResourceDefinition, error) { return c.readDefinitions(ctx) })
	c.workspaces = sync.OnceValues(func() ([]unstructured.Unstructured, error) { return c.readWorkspaces(ctx) })
	report := &Report{Version: options.Version}
	checks := []struct {
		name string
		run  func(context.Context) (Check, error)
	}{
		{"manager", c.manager}, {"rights of the manager", c.rights}, {"definitions", c.checkDefinitions}, {"conversion", c.conversion}, {"webhooks", c.webhooks},
		{"certificates", c.certificates}, {"policies", c.policies}, {"Cluster API", c.clusterAPI}, {"provider-terraform", c.provider}, {"ProviderConfigs", c.providerConfigs},
	}
	options.Progress.Phase("Checking", len(checks))
	for _, one := range checks {
		check, err := one.run(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			check = unreadable(err)
		}
		check.Name = one.name
		report.Checks = append(report.Checks, check)
		options.Progress.Add(1)
	}
	return report, nil
}

// checker runs the checks. What several of them need is read once.
type checker struct {
	Options
	deployments func() ([]appsv1.Deployment, error)
	wanted      func() (map[string]*apiextensionsv1.CustomResourceDefinition, error)
	definitions func() (map[string]*apiextensionsv1.CustomResourceDefinition, error) // Those that are installed.
	workspaces  func() ([]unstructured.Unstructured, error)
}

var forbidden = regexp.MustCompile(`cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?( at the cluster scope)?`)

// unreadable is the result of a check that could not read something.
func unreadable(err error) Check {
	if !apierrors.IsForbidden(err) {
		return Check{Status: Error, Message: "could not be checked: " + err.Error()}
	}
	needs := MissingRights(err)
	if len(needs) == 0 {
		needs = []string{err.Error()}
	}
	return Check{Status: Unknown, Message: "unknown: needs the right to " + strings.Join(needs, ", ")}
}

// MissingRights are what an error of the API server, or several joined ones, say that the user may not do, such as "list deployments.apps at the
// cluster scope".
func MissingRights(err error) (rights []string) {
	for _, found := range forbidden.FindAllStringSubmatch(err.Error(), -1) {
		right := found[1] + " " + schema.GroupResource{Group: found[3], Resource: found[2]}.String() + found[4]
		if !slices.Contains(rights, right) {
			rights = append(rights, right)
		}
	}
	return rights
}

func (c *checker) serves(kind schema.GroupVersionKind) (bool, error) {
	return migrate.Serves(c.Client, kind)
}

// list lists objects of a kind; none if it is not served.
func list(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := reader.List(ctx, found, options...)
	if meta.IsNoMatchError(err) {
		err = nil
	}
	return found.Items, err
}

func (c *checker) readWorkspaces(ctx context.Context) (all []unstructured.Unstructured, err error) {
	for _, scope := range terraform.Scopes() {
		found, err := list(ctx, c.Client, scope.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *checker) managers() ([]appsv1.Deployment, error) { return c.deploymentsOf(IsManager) }

func (c *checker) deploymentsOf(is func(*appsv1.Deployment) bool) ([]appsv1.Deployment, error) {
	all, err := c.deployments()
	return slices.DeleteFunc(slices.Clone(all), func(deployment appsv1.Deployment) bool { return !is(&deployment) }), err
}

// IsManager reports whether a Deployment is the one of config/manager, by its labels and a port. Names may have a prefix.
func IsManager(deployment *appsv1.Deployment) bool {
	pod := deployment.Spec.Template.Spec
	return deployment.Labels["app.kubernetes.io/name"] == "capt" && deployment.Labels["app.kubernetes.io/component"] == "manager" &&
		deployment.Labels["control-plane"] == "" && strings.HasSuffix(pod.ServiceAccountName, "capt-manager") &&
		slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool {
			return container.Name == "manager" && slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return port.Name == "webhooks" })
		})
}

// Replicas reports Deployments with an available replica, and those without, with the commands that start them.
func Replicas(deployments []appsv1.Deployment) (up, down, commands []string) {
	for i := range deployments {
		deployment := &deployments[i]
		name, kubectl := "Deployment "+client.ObjectKeyFromObject(deployment).String(), "kubectl -n "+deployment.Namespace
		if deployment.Status.AvailableReplicas > 0 {
			up = append(up, name)
			continue
		}
		down = append(down, name+": no replica is available")
		if ptr.Deref(deployment.Spec.Replicas, 1) == 0 {
			commands = append(commands, kubectl+" scale deployment/"+deployment.Name+" --replicas=2")
		}
		commands = append(commands, kubectl+" rollout status deployment/"+deployment.Name+" --timeout=5m")
	}
	return up, down, commands
}

// tag is the version in the name of the image of a Deployment's first container; empty without one.
func tag(deployment *appsv1.Deployment) string {
	for i := range deployment.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(deployment.Spec.Template.Spec.Containers[i].Image, "@")
		_, version, _ := strings.Cut(path.Base(image), ":")
		return version
	}
	return ""
}

// flag returns the value of a flag of a Deployment's containers; fallback if it is not set.
func flag(deployment *appsv1.Deployment, name, fallback string) string {
	for i := range deployment.Spec.Template.Spec.Containers {
		args := deployment.Spec.Template.Spec.Containers[i].Args
		for at, arg := range args {
			switch value, set := strings.CutPrefix(arg, "--"+name+"="); {
			case set:
				return value
			case arg == "--"+name && at+1 < len(args) && !strings.HasPrefix(args[at+1], "-"):
				return args[at+1]
			case arg == "--"+name:
				return "true"
			}
		}
	}
	return fallback
}

// running reports Deployments of one program: which version runs, and what does not.
func running(deployments []appsv1.Deployment) (found Check) {
	up, down, commands := Replicas(deployments)
	var versions []string
	for i := range deployments {
		if version := tag(&deployments[i]); !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	found = Check{Status: OK, Message: "runs, version " + cmp.Or(strings.Join(versions, ", "), "unknown"), Objects: up}
	for _, object := range down {
		found.add(Error, object, "does not run", commands...)
	}
	return found
}
