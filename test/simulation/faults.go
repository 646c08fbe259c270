// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

type faults struct {
	// armed are faults of the next requests of the manager that write, in their order; of the provider for those that name it.
	armed, armedProvider []string
	// later are what happens at a step.
	later []deferred
	// hooksDown is the step until which no webhook answers.
	hooksDown int
	// managerAt and providerAt are the steps at which a process that ended starts again.
	managerAt, providerAt int
}

type deferred struct {
	step int
	do   func()
}

// at runs a function in some steps.
func (w *World) at(steps int, do func()) {
	w.later = append(w.later, deferred{w.steps + steps, do})
}

func (w *World) runLater() {
	for i := 0; i < len(w.later); {
		if w.later[i].step > w.steps {
			i++
			continue
		}
		do := w.later[i].do
		w.later = slices.Delete(w.later, i, i+1)
		do()
	}
	if (w.manager == nil || w.manager.dead) && w.steps >= w.managerAt {
		w.startManager()
	}
	if (w.provider == nil || w.provider.dead) && w.steps >= w.providerAt {
		w.startProvider()
	}
}

// requestFaults happen to the next request that writes, or to the next one after "at".
var requestFaults = []string{
	"conflict", "lost reply", "crash before", "crash after", "unavailable", "refused", "leader", "leader at apply", "leader at get", "pause", "pause at apply",
	"leader and delete at apply", "leader and delete at get", "leader and delete at read before create", "leader and edit at apply", "lag and delete at create",
	"unavailable at patch status", "lost reply at patch status",
}

// isAt reports whether a request is one that a fault waits for.
func (w *World) isAt(at, verb, object string) bool {
	if at != "read before create" {
		return at == verb || at == "" && verb != "get" && verb != "list"
	}
	name, isWorkspace := strings.CutPrefix(object, "Workspace/")
	return verb == "get" && isWorkspace && !slices.ContainsFunc(w.store.of(workspaceKind).keys, func(key types.NamespacedName) bool { return key.Name == name })
}

func (w *World) fault(p *process, verb, object string) string {
	list := &w.armed
	if p == w.provider {
		list = &w.armedProvider
	} else if p != w.manager {
		return ""
	}
	for i, armed := range *list {
		if fault, at, _ := strings.Cut(armed, " at "); w.isAt(at, verb, object) {
			*list = slices.Delete(*list, i, i+1)
			return fault
		}
	}
	return ""
}

// request runs a request of a worker, with its fault. Other workers may run before and after it.
func (w *World) request(p *process, verb, object string, do func() error) error {
	p.exitIfDead()
	fault := w.fault(p, verb, object)
	if fault != "" {
		w.tracef("  fault: %s", fault)
	}
	if err := w.beforeRequest(p, fault, verb, object); err != nil {
		return err
	}
	if w.rng.IntN(100) < 6 && (!p.fenced || verb != "create") {
		w.park(p, verb+" "+object)
	}
	err := do()
	if w.trace != nil && verb != "get" && verb != "list" {
		w.tracef("  %s: %s %s %v", p.name, verb, object, err)
	}
	switch fault {
	case "crash after":
		w.crash(p)
	case "lost reply":
		return apierrors.NewTimeoutError("the server did not answer in time", 1)
	}
	return err
}

// beforeRequest is what a fault does before its request. An error is the answer to the request, which does not happen.
func (w *World) beforeRequest(p *process, fault, verb, object string) error {
	switch fault {
	case "crash before":
		w.crash(p)
	case "conflict":
		w.touch(object)
	case "unavailable":
		return apierrors.NewServiceUnavailable("etcdserver: leader changed")
	case "refused":
		return apierrors.NewForbidden(schema.GroupResource{Resource: object}, object, errors.New("a policy denied the request"))
	case "leader":
		w.loseLeadership(p, verb, object, 130)
	case "leader and delete":
		w.deleteSoon(object)
		w.loseLeadership(p, verb, object, 400) // Terraform destroys meanwhile.
	case "leader and edit":
		w.at(1+w.rng.IntN(20), func() { userActions["edit template"](w, w.rng.Uint64()>>1) })
		w.loseLeadership(p, verb, object, 130)
	case "lag and delete":
		w.lagOfWorkspaces(40 + w.rng.IntN(80))
		w.deleteSoon(object)
	case "pause":
		w.parkFor(p, verb+" "+object, 25)
	}
	return nil
}

// loseLeadership lets another manager become leader before a request, which happens some steps later.
func (w *World) loseLeadership(p *process, verb, object string, steps int) {
	w.at(0, w.moveLeadership)
	if verb != "create" { // No precondition protects against a late one: docs/reliability.md.
		w.parkFor(p, verb+" "+object, 30+w.rng.IntN(steps))
	}
}

// deleteSoon lets a user delete the WorkspaceTemplateApply that is written, or whose Workspace is, or its Cluster.
func (w *World) deleteSoon(object string) {
	_, name, _ := strings.Cut(object, "/")
	w.at(1+w.rng.IntN(20), func() {
		for _, key := range w.store.of(applyKind).keys {
			apply := peek[*infrav1.WorkspaceTemplateApply](w, applyKind, key.Namespace, key.Name)
			if apply == nil || apply.Name != name && apply.Spec.WorkspaceName != name {
				continue
			}
			cluster := types.NamespacedName{Namespace: key.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}
			if w.rng.IntN(2) == 0 && w.store.of(clusterKind).objects[cluster] != nil {
				w.userDeletesOne(clusterKind, cluster)
			} else {
				w.userDeletesOne(applyKind, key)
			}
		}
	})
}

// lagOfWorkspaces stops the events of Workspaces.
func (w *World) lagOfWorkspaces(steps int) {
	for _, v := range w.manager.views.order {
		if v.resource.gvk.Kind == "Workspace" {
			v.frozen = w.steps + steps
		}
	}
}

// touch changes the metadata of an object of CAPT as another client does, so that a write based on an earlier version is refused. Workspaces are left
// alone: a change makes the provider plan.
func (w *World) touch(object string) {
	kind, name, _ := strings.Cut(object, "/")
	for _, gvk := range []schema.GroupVersionKind{captClusterKind, captPlaneKind, poolKind, applyKind, templateKind, clusterKind} {
		for _, key := range w.store.of(gvk).keys {
			if gvk.Kind == kind && key.Name == name {
				_ = edit(w, "other", w.store.of(gvk).objects[key], false, func(o client.Object) {
					annotations := maps.Clone(o.GetAnnotations())
					if annotations == nil {
						annotations = map[string]string{}
					}
					annotations["example.com/touched"] = strconv.Itoa(w.steps)
					o.SetAnnotations(annotations)
				})
			}
		}
	}
}

// crash ends the process of the worker that calls it.
func (w *World) crash(p *process) {
	p.dead = true
	w.tracef("%s crashes", p.name)
	w.restart(p, 3)
	w.at(0, p.kill)
	runtime.Goexit()
}

// restart starts a process again, some steps after it ended.
func (w *World) restart(p *process, steps int) {
	switch p {
	case w.manager:
		w.managerAt = w.steps + steps
	case w.provider:
		w.providerAt = w.steps + steps
	}
}

// killProcess ends a process from outside.
func (w *World) killProcess(p *process, steps int) {
	if p == nil || p.dead {
		return
	}
	w.tracef("%s is killed", p.name)
	w.restart(p, steps)
	p.kill()
}

// moveLeadership starts another manager. What the old one is in the middle of continues later.
func (w *World) moveLeadership() {
	old := w.manager
	if old == nil || old.dead {
		return
	}
	w.tracef("leadership moves")
	old.fenced = true
	old.name = "former capt"
	w.startManager()
	w.at(450, func() {
		if !old.dead {
			old.kill()
		}
	})
}

// worldFaults are the faults outside of requests, by name. n is random.
var worldFaults = map[string]func(w *World, n uint64){
	"kill manager":  func(w *World, n uint64) { w.killProcess(w.manager, int(n%30)) },
	"kill provider": func(w *World, n uint64) { w.killProcess(w.provider, int(n%60)) },
	"webhooks down": func(w *World, n uint64) { w.hooksDown = w.steps + 10 + int(n%40) },
	"relist": func(w *World, n uint64) {
		for _, p := range w.processes {
			if i := int(n % 64); i < len(p.views.order) {
				w.tracef("%s: relist %s", p.name, p.views.order[i])
				p.views.order[i].relist()
			}
		}
	},
	"lag": func(w *World, n uint64) {
		if p := w.manager; p != nil && !p.dead {
			v := p.views.order[int(n%uint64(len(p.views.order)))]
			w.tracef("%s lags", v)
			v.frozen = w.steps + 20 + int(n/64%80)
		}
	},
	"lag of Workspaces": func(w *World, n uint64) {
		if p := w.manager; p != nil && !p.dead {
			w.lagOfWorkspaces(40 + int(n%80))
		}
	},
	"clock jump": func(_ *World, n uint64) { time.Sleep(time.Duration(n%180) * time.Minute) },
	"terraform": func(w *World, n uint64) {
		operation := []string{"plan", "apply", "destroy", "init"}[n%4]
		w.tracef("the next %s fails", operation)
		w.cloud.refuse[operation] = append(w.cloud.refuse[operation], terraformErrors[n/4%uint64(len(terraformErrors))])
	},
	"drift": func(w *World, n uint64) {
		for _, name := range sortedKeys(w.cloud.states) {
			if n%3 == 0 && len(w.cloud.states[name].resources) > 0 {
				w.tracef("drift of %s", name)
				w.cloud.states[name].content = "drift"
				return
			}
			n /= 3
		}
	},
}

var terraformErrors = []string{
	"Error: creating EKS Cluster: operation error EKS: CreateCluster, https response error StatusCode: 400, ThrottlingException: Rate exceeded\n",
	"Error: error configuring S3 Backend: no valid credential sources for S3 Backend found\n",
	"Error: creating EC2 VPC: VpcLimitExceeded: The maximum number of VPCs has been reached.\n",
	"Error: deleting EC2 Subnet: DependencyViolation: The subnet has dependencies and cannot be deleted.\n",
	"Error: Get \"https://eks.eu-west-1.amazonaws.com\": dial tcp: lookup eks.eu-west-1.amazonaws.com: i/o timeout\n",
	"Error: Invalid value for variable\n\n  on main.tf line 1:\n",
}
