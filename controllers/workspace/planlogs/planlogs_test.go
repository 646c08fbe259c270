// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planlogs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/planlog"
)

var start = time.Date(2026, time.November, 28, 17, 0, 0, 0, time.UTC)

func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

// cluster is an API server with Pods and their logs.
type cluster struct {
	*testing.T
	*Reader
	clock *testingclock.FakeClock

	lock     sync.Mutex
	pods     map[string]corev1.Pod
	logs     map[string][]string
	status   map[string]int // Of requests for lists ("pods") and for logs (the name of a Pod).
	requests []string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, clock: testingclock.NewFakeClock(at(100)), pods: map[string]corev1.Pod{}, logs: map[string][]string{}, status: map[string]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	require.NoError(t, err)
	c.Reader = New(clients, "crossplane-system", c.clock)
	return c
}

// pod adds a Pod that started at a second.
func (c *cluster) pod(name string, started int, lines ...string) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "crossplane-system", UID: types.UID(name), Labels: map[string]string{terraform.ProviderPodLabel: "provider-terraform"}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "package-runtime", ContainerID: "x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(started))}}}}
	c.pods[name], c.logs[name] = pod, lines
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	query := request.URL.Query()
	path := strings.TrimPrefix(request.URL.Path, "/api/v1/namespaces/crossplane-system/")
	name := strings.TrimSuffix(strings.TrimPrefix(path, "pods/"), "/log")
	c.requests = append(c.requests, strings.TrimSpace(name+" "+query.Get("sinceTime")))
	if code := c.status[name]; code != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 500: metav1.StatusReasonInternalError}[code]
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason, Message: "no"})
		return
	}
	if name == "pods" {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for _, pod := range c.pods {
			list.Items = append(list.Items, pod)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	assert.Equal(c, "package-runtime", query.Get("container"))
	text := ""
	since, _ := time.Parse(time.RFC3339, query.Get("sinceTime"))
	for _, line := range c.logs[name] {
		stamp := secondOf(line)
		if stamp.Before(since) {
			continue
		}
		if query.Get("timestamps") == "true" {
			text += stamp.Format(time.RFC3339Nano) + " "
		}
		text += line + "\n"
	}
	if limit, err := strconv.Atoi(query.Get("limitBytes")); err == nil && len(text) > limit {
		text = text[:limit]
	}
	_, _ = w.Write([]byte(text))
}

func secondOf(line string) time.Time {
	var entry struct{ TS time.Time }
	_ = json.Unmarshal([]byte(line), &entry) //nolint:musttag // Case does not matter.
	return entry.TS
}

// entry is a plan that creates one resource.
func entry(second int, workspace, address string) string {
	stamp := at(second).Format("2006-01-02T15:04:05.000Z07:00")
	message := fmt.Sprintf(`{"@timestamp":%[1]q,"type":"planned_change","change":{"resource":{"addr":%[2]q,"resource":%[2]q,"resource_type":"x"},"action":"create"}}
{"@timestamp":%[1]q,"type":"change_summary","changes":{"add":1,"change":0,"remove":0}}
`, stamp, address)
	quoted, _ := json.Marshal(message) //nolint:errchkjson // A string.
	return fmt.Sprintf(`{"level":"info","ts":%q,"msg":%s,"request":{"name":%q},"operation":"plan"}`, stamp, quoted, workspace)
}

// plan is what is read two seconds later.
func (c *cluster) plan(workspace string, since int) (*planlog.Changes, error) {
	c.Helper()
	c.clock.Step(interval)
	return c.Plan(c.Context(), workspace, at(since))
}

func (c *cluster) requirePlan(workspace string, since int, address string) {
	c.Helper()
	changes, err := c.plan(workspace, since)
	require.NoError(c, err)
	require.Equal(c, address, changes.Resources[0].Address)
}

func (c *cluster) requireUnknown(workspace string, since int, reason planlog.Reason, text string) {
	c.Helper()
	changes, err := c.plan(workspace, since)
	require.Nil(c, changes)
	var unknown *planlog.UnknownError
	require.ErrorAs(c, err, &unknown)
	require.Equal(c, reason, unknown.Reason, unknown.Message)
	require.Contains(c, unknown.Message, text)
}

func TestTheLogIsReadOnce(t *testing.T) {
	c := newCluster(t)
	c.pod("a", 0, entry(10, "w", "one"), entry(20, "v", "two"))
	c.requirePlan("w", 5, "one")
	c.logs["a"] = append(c.logs["a"], entry(30, "w", "three"))
	c.requirePlan("w", 5, "three")
	c.requirePlan("v", 15, "two")
	c.requirePlan("w", 0, "three")
	require.Equal(t, []string{
		"pods", "a 2026-11-28T17:00:05Z",
		"pods", "a 2026-11-28T17:00:20Z",
		"pods", "a 2026-11-28T17:00:30Z",
		"pods", "a 2026-11-28T17:00:00Z",
	}, c.requests, "from the last entry, and again for an earlier time")
}

func TestReadsAreLimited(t *testing.T) {
	c := newCluster(t)
	c.pod("a", 0, entry(10, "w", "one"))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := c.Plan(t.Context(), "w", at(5))
			assert.NoError(t, err)
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(10 * time.Millisecond):
			if c.clock.HasWaiters() {
				c.clock.Step(interval)
			}
		}
	}
	require.LessOrEqual(t, len(c.requests), 2*20)
	requests := len(c.requests)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Plan(ctx, "w", at(5))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, c.requests, requests)
}

func TestSeveralPods(t *testing.T) {
	c := newCluster(t)
	c.pod("a", 0, entry(10, "w", "one"))
	c.pod("b", 0, entry(12, "w", "two"))
	c.pod("aws", 0, entry(50, "w", "another provider"))
	aws := c.pods["aws"]
	aws.Labels[terraform.ProviderPodLabel] = "provider-aws-eks"
	c.requirePlan("w", 5, "two")
	c.status["a"] = http.StatusInternalServerError
	c.requireUnknown("w", 5, Unreadable, "cannot read the log of Pod crossplane-system/a") // It may have a newer plan.
}

func TestAPlanOfManyResourcesIsOneLine(t *testing.T) {
	c := newCluster(t)
	long := entry(20, "w", strings.Repeat("x", 1<<20))
	c.pod("a", 0, entry(10, "w", "one"), long, entry(30, "v", "two"))
	changes, err := c.plan("w", 5)
	require.NoError(t, err)
	require.True(t, at(20).Equal(changes.Time))
	c.limit = int64(len(long)) // What one request returns ends within the line.
	c.requirePlan("v", 5, "two")
	c.limit, c.logs["a"] = limitBytes, append(c.logs["a"], entry(40, "w", strings.Repeat("x", 5<<20)))
	c.requireUnknown("w", 5, planlog.TooLarge, "larger than 8 MiB")
}

func TestALogThatIsReadInParts(t *testing.T) {
	c := newCluster(t)
	c.limit = int64(2*len(entry(10, "w", "one")) + 10)
	c.pod("a", 0, entry(10, "w", "one"), entry(11, "v", "two"), entry(12, "v", "two"), entry(13, "w", "six"))
	c.requirePlan("w", 5, "six")
	for second := range 10 {
		c.logs["a"] = append(c.logs["a"], entry(20+second, "v", "two"))
	}
	c.logs["a"] = append(c.logs["a"], entry(40, "w", "ten"))
	c.requireUnknown("w", 5, Unreadable, "that are not read yet")
	for range 2 {
		_, _ = c.plan("w", 5)
	}
	c.requirePlan("w", 5, "ten")
	c.logs["a"] = append(c.logs["a"], entry(50, "v", "two"), entry(50, "v", "six"), entry(50, "w", "two"))
	c.requireUnknown("w", 5, Unreadable, "within a second")
}

func TestLogsThatAreGone(t *testing.T) {
	c := newCluster(t)
	c.pod("a", 0, entry(10, "w", "one"), entry(11, "v", "one"))
	c.requirePlan("w", 5, "one")
	c.logs["a"] = []string{entry(30, "v", "two")} // Rotated.
	c.requireUnknown("w", 5, LogGone, "may have had a newer plan of Workspace w")
	c.requirePlan("v", 5, "two")
	c.requireUnknown("u", 5, LogGone, "the log of Pod crossplane-system/a begins at 2026-11-28T17:00:30Z, because it was rotated")
	c.logs["a"] = append([]string{entry(1, "v", "two")}, c.logs["a"]...)
	c.requireUnknown("u", 20, LogGone, "a part of its log is gone")
	c.requireUnknown("u", 35, planlog.NoEntry, "It may not have planned it yet")
	c.logs["a"] = nil
	c.requireUnknown("v", 5, LogGone, "may have had")

	restarted := newCluster(t)
	restarted.pod("a", 50, entry(60, "w", "one"))
	restarted.requirePlan("w", 5, "one")
	restarted.requireUnknown("v", 5, LogGone, "Pod crossplane-system/a started at 2026-11-28T17:00:50Z, and earlier logs are gone")
	pod := restarted.pods["a"]
	pod.Status.ContainerStatuses[0].RestartCount++
	restarted.requireUnknown("w", 5, LogGone, "newer plan")

	replaced := newCluster(t)
	replaced.pod("a", 0, entry(10, "w", "one"))
	replaced.requirePlan("w", 5, "one")
	delete(replaced.pods, "a")
	replaced.pod("b", 90)
	replaced.requireUnknown("w", 5, LogGone, "newer plan")
	replaced.logs["b"] = []string{entry(200, "w", "two")}
	replaced.requirePlan("w", 5, "two")
}

func TestWhyNothingCanBeRead(t *testing.T) {
	c := newCluster(t)
	c.requireUnknown("w", 5, NoPods, "no Pod of provider-terraform (label pkg.crossplane.io/provider) runs in namespace crossplane-system")
	c.pod("waits", 0)
	c.pods["waits"].Status.ContainerStatuses[0].ContainerID = ""
	c.pod("new", 0)
	created := c.pods["new"]
	created.Status.ContainerStatuses = nil
	c.pods["new"] = created
	c.requireUnknown("w", 5, NoPods, "no Pod")

	c.pod("a", 0, entry(10, "w", "one"))
	c.status["a"] = http.StatusInternalServerError
	c.requireUnknown("w", 5, Unreadable, "cannot read the log of Pod crossplane-system/a")
	pod := c.pods["a"]
	pod.Status.Phase = corev1.PodFailed // Evicted.
	c.pods["a"] = pod
	c.requireUnknown("w", 5, LogGone, "a part of its log is gone")
	c.status["pods"] = http.StatusInternalServerError
	c.requireUnknown("w", 5, Unreadable, "cannot list the Pods")
}

func TestMissingRightsAreNamedAndNotAskedForAgain(t *testing.T) {
	for denied, text := range map[string]string{
		"pods": "the manager may not list pods in namespace crossplane-system: bind the ClusterRole whose name ends in plan-reader to it there",
		"a":    "the manager may not get pods/log in namespace crossplane-system",
	} {
		c := newCluster(t)
		c.pod("a", 0, entry(10, "w", "one"))
		c.status[denied] = http.StatusForbidden
		c.requireUnknown("w", 5, NoAccess, text)
		requests := len(c.requests)
		c.requireUnknown("w", 5, NoAccess, text)
		require.Len(t, c.requests, requests)
		delete(c.status, denied)
		c.clock.Step(deniedInterval)
		c.requirePlan("w", 5, "one")
	}
}
