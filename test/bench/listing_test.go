// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// listed is how many objects of a kind there are.
	listed = 5000
	// page is how many are read in one request, when not all are.
	page = 500
	// rounds is how often each is measured.
	rounds = 5
)

// BenchmarkListing lists 5,000 objects of a kind, with status, in v1beta2, in which they are stored, and in v1beta1, and
// reports
//   - ms, older-ms: a list of all, in v1beta2 and in v1beta1
//   - pages-ms, older-pages-ms: the same in pages of 500
//   - ratio, pages-ratio: the second divided by the first, in pairs that follow each other; the median
//
// Normally the API server keeps all objects in memory in each version, converted once. The second run of each kind is
// without this memory: everything is read from etcd, and converted, for every list.
func BenchmarkListing(b *testing.B) {
	for _, memory := range []bool{true, false} {
		s, err := sandbox.Start(b.Context(), sandbox.Options{
			ClusterAPI: true, Manager: true, ManagerArgs: []string{onlyWebhooks},
			APIServerArgs: []string{"--watch-cache=" + strconv.FormatBool(memory)},
		})
		require.NoError(b, err)
		c := quietClient(b, s)
		applyAll(b, c, environments.Templates()...)
		for _, k := range []struct{ kind, group, resource, spec, status string }{
			{"CAPTControlPlane", "controlplane", "captcontrolplanes", controlPlaneSpec, controlPlaneStatus},
			{"WorkspaceTemplateApply", "infrastructure", "workspacetemplateapplies", applySpec, applyStatus},
		} {
			fill(b, c, k.kind, k.spec, k.status)
			b.Run(fmt.Sprintf("%s/memory=%t", k.kind, memory), func(b *testing.B) {
				compareLists(b, newLister(b, s, k.group+".cluster.x-k8s.io", k.resource))
			})
		}
		require.NoError(b, s.Stop(context.Background()))
	}
}

const (
	controlPlaneSpec = `{version: v1.35.0, region: eu-central-1, workspaceTemplateRef: {name: eks},
  addons: [{name: coredns}, {name: kube-proxy}], additionalTags: {team: payments, environment: test},
  fargateProfiles: [{name: default, selectors: [{namespace: default}], workspaceTemplateRef: {name: eks}}]}`
	controlPlaneStatus = `{"status":{"version":"v1.35.0","phase":"Ready","initialization":{"controlPlaneInitialized":true},"conditions":[
  {"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},
  {"type":"Available","status":"True","reason":"Available","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},
  {"type":"WorkspaceReady","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}]}}`
	applySpec   = "{templateRef: {name: vpc}, variables: {vpc_name: demo}}"
	applyStatus = `{"status":{"workspaceName":"demo","applied":true,"conditions":[
  {"type":"Ready","status":"True","reason":"UpToDate","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1},
  {"type":"Synced","status":"True","reason":"Synced","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}]}}`
)

// fill makes the objects.
func fill(b *testing.B, c client.Client, kind, spec, status string) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range listed {
		group.Go(func() error {
			object := read(document(kind, fmt.Sprintf("listed-%d", i), spec))
			if err := c.Create(ctx, object); err != nil {
				return err
			}
			return c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(status)))
		})
	}
	require.NoError(b, group.Wait())
}

func compareLists(b *testing.B, l *lister) {
	for b.Loop() {
		var all, olderAll, pages, olderPages, ratios, pageRatios []float64
		for range rounds {
			stored, older := l.list(b, "v1beta2", 0), l.list(b, "v1beta1", 0)
			all, olderAll, ratios = append(all, stored), append(olderAll, older), append(ratios, older/stored)
			stored, older = l.list(b, "v1beta2", page), l.list(b, "v1beta1", page)
			pages, olderPages, pageRatios = append(pages, stored), append(olderPages, older), append(pageRatios, older/stored)
		}
		b.ReportMetric(median(all), "ms")
		b.ReportMetric(median(olderAll), "older-ms")
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(pages), "pages-ms")
		b.ReportMetric(median(olderPages), "older-pages-ms")
		b.ReportMetric(median(pageRatios), "pages-ratio")
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// lister lists one kind, and leaves the answers as they are.
type lister struct {
	restclient.Interface
	group, resource string
}

func newLister(b *testing.B, s *sandbox.Sandbox, group, resource string) *lister {
	b.Helper()
	config := s.Config()
	config.WarningHandler = restclient.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	return &lister{clients.Discovery().RESTClient(), group, resource}
}

// list reads all objects, in pages unless the limit is 0, and returns the milliseconds in which it was waiting for answers.
func (l *lister) list(b *testing.B, version string, limit int) float64 {
	b.Helper()
	var waited time.Duration
	count, more := 0, ""
	for {
		request := l.Get().AbsPath("apis", l.group, version, "namespaces", "default", l.resource)
		if limit > 0 {
			request = request.Param("limit", strconv.Itoa(limit)).Param("continue", more)
		}
		began := time.Now()
		data, err := request.Do(b.Context()).Raw()
		waited += time.Since(began)
		require.NoError(b, err)
		var answer struct {
			Metadata struct {
				Continue string
			}
			Items []json.RawMessage
		}
		require.NoError(b, json.Unmarshal(data, &answer))
		count, more = count+len(answer.Items), answer.Metadata.Continue
		if more == "" {
			require.Equal(b, listed, count)
			return float64(waited.Microseconds()) / 1000
		}
	}
}
