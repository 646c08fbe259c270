// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
)

// manager reports whether the manager of this version runs. It may run outside of this cluster, so that its absence is a warning.
func (l *look) manager(ctx context.Context) (Check, error) {
	var available, unavailable, commands []string
	err := l.deployments(ctx, isOwn, func(deployment *appsv1.Deployment) error {
		name := "Deployment " + client.ObjectKeyFromObject(deployment).String()
		if deployment.Status.AvailableReplicas > 0 {
			available = append(available, name)
			return nil
		}
		unavailable = append(unavailable, name+": no replica is available")
		if ptr.Deref(deployment.Spec.Replicas, 1) == 0 {
			commands = append(commands, fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=2", deployment.Namespace, deployment.Name))
		}
		commands = append(commands, fmt.Sprintf("kubectl -n %s rollout status deployment/%s --timeout=5m", deployment.Namespace, deployment.Name))
		return nil
	})
	if err != nil {
		return Check{}, err
	}
	const consequence = "It completes an adoption: until it has reported a cluster, apply waits for it, and fails after --wait"
	switch {
	case len(unavailable) > 0:
		return Check{Status: Warning, Objects: unavailable, Commands: commands, Message: "the manager is not available. " + consequence}, nil
	case len(available) > 0:
		return Check{Status: OK, Objects: available, Message: "the manager of this version runs"}, nil
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: l.options.JournalNamespace, Name: naming.LeaderElectionLease("", "")}
	if err := client.IgnoreNotFound(l.client.Get(ctx, key, lease)); err != nil {
		return Check{}, err
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if renewed := lease.Spec.RenewTime; renewed != nil && renewed.Add(lasts).After(l.now) {
		return Check{Status: OK, Objects: []string{"Lease " + key.String()}, Message: "the manager of this version runs"}, nil
	}
	return Check{Status: Warning, Message: "no Deployment and no Lease of the manager was found. " + consequence + ". If it runs elsewhere, check its log; else install it as docs/install.md says"}, nil
}
