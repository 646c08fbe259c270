// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/command"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/sandbox"
)

// BenchmarkDescribe runs captctl describe for one of 1,000 Clusters of a namespace, each with five objects and five events, and reports
// the time in ms, beside that of captctl get for all of them.
func BenchmarkDescribe(b *testing.B) {
	const clusters = 1000
	s, err := sandbox.Start(b.Context(), sandbox.Options{ClusterAPIDefinitions: true})
	require.NoError(b, err)
	c := quietClient(b, s)
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range clusters {
		group.Go(func() error { return createWithEvents(ctx, c, fmt.Sprintf("demo-%d", i)) })
	}
	require.NoError(b, group.Wait())
	for _, arguments := range [][]string{{"describe", "demo-7"}, {"get"}} {
		b.Run(arguments[0], func(b *testing.B) {
			for b.Loop() {
				streams, _, _, _ := genericiooptions.NewTestIOStreams()
				start := time.Now()
				require.NoError(b, command.New("captctl", append(arguments, "--kubeconfig="+s.Kubeconfig(), "--namespace=default"), streams).ExecuteContext(b.Context()))
				b.ReportMetric(float64(time.Since(start).Milliseconds()), "last-ms")
			}
		})
	}
	require.NoError(b, s.Stop(context.Background()))
}

// createWithEvents creates the objects of a Cluster, and an event about each of them.
func createWithEvents(ctx context.Context, c client.Client, name string) error {
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, name)
	for _, object := range []client.Object{
		builder.Cluster(name), builder.CAPTCluster(name, labeled), builder.CAPTControlPlane(name, labeled),
		builder.WorkspaceTemplateApply(name+"-vpc", labeled), builder.WorkspaceTemplateApply(name+"-eks", labeled),
	} {
		object.SetUID("")
		object.SetResourceVersion("")
		if err := c.Create(ctx, object); err != nil {
			return err
		}
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), GenerateName: object.GetName() + "-"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal,
			Reason: "Test", Action: "Test", ReportingController: "test", ReportingInstance: "test",
			Regarding: corev1.ObjectReference{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()},
		}
		if err := c.Create(ctx, event); err != nil {
			return err
		}
	}
	return nil
}
