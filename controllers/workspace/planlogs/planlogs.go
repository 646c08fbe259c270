// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planlogs reads what Terraform would change from the logs of the Pods of provider-terraform. Each log is read once: later calls read
// only what is new. Nothing is read unless a caller asks.
package planlogs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/planlog"
)

// Reasons besides those of the log.
const (
	// NoAccess: the manager may not read the logs.
	NoAccess planlog.Reason = "NoAccess"
	// NoPods: no Pod of provider-terraform runs.
	NoPods planlog.Reason = "NoPods"
	// LogGone: the log was rotated, or its Pod was replaced or restarted.
	LogGone planlog.Reason = "LogGone"
	// Unreadable: a log cannot be read at the moment, or is too long.
	Unreadable planlog.Reason = "Unreadable"
)

const (
	// interval is the minimum time between two reads of the logs.
	interval = 2 * time.Second
	// timeout limits one read of all logs.
	timeout = 30 * time.Second
	// limitBytes is how much of a log one request returns, and maxRequests how many requests one read of it takes. The rest is left to the next read.
	limitBytes, maxRequests = 16 << 20, 4
	// deniedInterval is how long a missing right is not asked for again.
	deniedInterval = 5 * time.Minute
	// retention is how long plans are kept. Previews end earlier.
	retention = time.Hour
)

// Reader reads the logs of one namespace. Its methods may be called concurrently.
type Reader struct {
	pods      typedcorev1.PodInterface
	namespace string
	clock     clock.Clock
	limit     int64 // limitBytes, but less in tests.

	// turn is held by the caller that reads; it guards everything below.
	turn  chan struct{}
	index planlog.Index
	logs  map[key]*position
	// began is when the last read began, and result what prevented it.
	began  time.Time
	result error
	// gap is the end of the newest part of a log that was not read: a plan before it may not be the newest.
	gap time.Time
}

// key identifies a log: the one of a container that has started so many times.
type key struct {
	pod       types.UID
	container string
	restarts  int32
}

// position is what was read of a log.
type position struct {
	// from and last are the times of the beginning and of the last entry that was read.
	from, last time.Time
	pod        corev1.Pod
	container  corev1.ContainerStatus
	// err is why the log was not read to its end the last time.
	err error
}

// New returns a Reader of the Pods of provider-terraform in a namespace.
func New(clients kubernetes.Interface, namespace string, clock clock.Clock) *Reader {
	return &Reader{
		pods: clients.CoreV1().Pods(namespace), namespace: namespace, clock: clock, limit: limitBytes,
		turn: make(chan struct{}, 1), logs: map[key]*position{},
	}
}

// Plan returns what Terraform would change, from the newest plan of a Workspace that the provider has logged since a time. If the changes are not
// known, the error is a planlog.UnknownError. It waits while others read, and at most timeout for the logs.
func (r *Reader) Plan(ctx context.Context, workspace string, since time.Time) (*planlog.Changes, error) {
	asked := r.clock.Now()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !r.began.After(asked) || !r.covers(since) { // Otherwise, another caller has read meanwhile.
		if err := r.wait(ctx, since); err != nil {
			return nil, err
		}
	}
	return r.answer(ctx, workspace, since)
}

// covers reports whether all logs were read since a time.
func (r *Reader) covers(since time.Time) bool {
	for _, p := range r.logs {
		if since.Before(p.from) {
			return false
		}
	}
	return len(r.logs) > 0
}

// wait reads the logs when that is due.
func (r *Reader) wait(ctx context.Context, since time.Time) error {
	var unknown *planlog.UnknownError
	if errors.As(r.result, &unknown) && unknown.Reason == NoAccess && r.clock.Since(r.began) < deniedInterval {
		return nil
	}
	if left := interval - r.clock.Since(r.began); left > 0 && !r.began.IsZero() {
		select {
		case <-r.clock.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.began = r.clock.Now()
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before := r.result
	r.result = r.read(reading, since)
	if errors.As(r.result, &unknown) && unknown.Reason == NoAccess && before == nil {
		ctrl.Log.Info("Previews do not show what changes", "reason", unknown.Message)
	}
	if ctx.Err() != nil {
		r.began = time.Time{} // The next caller reads at once.
	}
	return ctx.Err()
}

// answer returns what is known after the last read.
func (r *Reader) answer(ctx context.Context, workspace string, since time.Time) (*planlog.Changes, error) {
	if r.result != nil {
		return nil, r.result
	}
	for _, p := range r.logs {
		if p.err != nil {
			return nil, p.err
		}
	}
	changes, err := r.index.Newest(workspace, since)
	var unknown *planlog.UnknownError
	switch {
	case errors.As(err, &unknown) && unknown.Reason == planlog.NoEntry:
		return nil, r.explain(ctx, unknown, since)
	case err == nil && changes.Time.Before(r.gap):
		return nil, planlog.Unknown(LogGone, "a part of the log of provider-terraform is gone, which may have had a newer plan of Workspace %s", workspace)
	}
	return changes, err
}

// read reads what is new in all logs.
func (r *Reader) read(ctx context.Context, since time.Time) error {
	list, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: terraform.ProviderPodLabel})
	switch {
	case apierrors.IsForbidden(err):
		return r.denied("list pods")
	case err != nil:
		return planlog.Unknown(Unreadable, "cannot list the Pods of provider-terraform: %v", err)
	}
	now := r.clock.Now()
	r.index.Forget(now.Add(-retention))
	found := map[key]bool{}
	for _, pod := range list.Items {
		status := containerOf(pod)
		if !terraform.IsProviderPod(&pod) || status.ContainerID == "" {
			continue // Of another provider, or it has not started, and has no log.
		}
		k := key{pod.UID, status.Name, status.RestartCount}
		p := r.logs[k]
		if p == nil {
			p = &position{from: since}
			r.logs[k] = p
		}
		p.pod, p.container, found[k] = pod, status, true
		if p.err = r.readLog(ctx, k, p, since); apierrors.IsForbidden(p.err) {
			return r.denied("get pods/log")
		}
	}
	for k := range r.logs {
		if !found[k] { // Its last entries were not read.
			delete(r.logs, k)
			r.missing(now)
		}
	}
	if len(found) == 0 {
		return planlog.Unknown(NoPods, "no Pod of provider-terraform (label %s) runs in namespace %s (flag --provider-namespace)", terraform.ProviderPodLabel, r.namespace)
	}
	return nil
}

func (r *Reader) denied(right string) error {
	return planlog.Unknown(NoAccess, "the manager may not %s in namespace %s: bind the ClusterRole whose name ends in plan-reader to it there", right, r.namespace)
}

// containerOf returns the container of the provider, which Crossplane names package-runtime, or else the first one.
func containerOf(pod corev1.Pod) corev1.ContainerStatus {
	statuses := pod.Status.ContainerStatuses
	if i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == "package-runtime" }); i >= 0 {
		return statuses[i]
	}
	if len(statuses) > 0 {
		return statuses[0]
	}
	return corev1.ContainerStatus{}
}

// readLog reads what is new in one log, in parts of limitBytes.
func (r *Reader) readLog(ctx context.Context, k key, p *position, since time.Time) error {
	from := p.last
	if p.last.IsZero() || since.Before(p.from) {
		from, p.from = since, since
	}
	for range maxRequests {
		scanned, err := r.scan(ctx, k, p, from)
		switch {
		case apierrors.IsNotFound(err) || err != nil && p.hasEnded():
			r.missing(r.clock.Now())
			return nil // The Pod is gone, or evicted.
		case apierrors.IsForbidden(err):
			return err
		case err != nil:
			return planlog.Unknown(Unreadable, "cannot read the log of Pod %s: %v", klog.KObj(&p.pod), err)
		}
		r.compare(p, scanned)
		switch {
		case scanned.Bytes < r.limit:
			return nil
		case !scanned.Last.Truncate(time.Second).After(from):
			return planlog.Unknown(Unreadable, "the log of Pod %s has more than %d MiB within a second", klog.KObj(&p.pod), r.limit>>20)
		}
		from = scanned.Last
	}
	return planlog.Unknown(Unreadable, "the log of Pod %s has more than %d MiB that are not read yet", klog.KObj(&p.pod), r.limit*maxRequests>>20)
}

func (p *position) hasEnded() bool {
	return p.pod.Status.Phase == corev1.PodFailed || p.pod.Status.Phase == corev1.PodSucceeded
}

// compare looks for the entry that was read last, which is read again. If it is not there, others may be missing, too.
func (r *Reader) compare(p *position, scanned planlog.Scanned) {
	switch {
	case p.last.IsZero():
	case scanned.First.IsZero():
		r.missing(r.clock.Now())
	case scanned.First.After(p.last):
		r.missing(scanned.First)
	}
	if scanned.Last.After(p.last) {
		p.last = scanned.Last
	}
}

// missing notes that a part of a log before a time is missing.
func (r *Reader) missing(until time.Time) {
	if until.After(r.gap) {
		r.gap = until
	}
}

func (r *Reader) scan(ctx context.Context, k key, p *position, from time.Time) (planlog.Scanned, error) {
	log, err := r.pods.GetLogs(p.pod.Name, &corev1.PodLogOptions{
		Container: k.container, SinceTime: ptr.To(metav1.NewTime(from)), LimitBytes: ptr.To(r.limit),
	}).Stream(ctx)
	if err != nil {
		return planlog.Scanned{}, err
	}
	defer func() { _ = log.Close() }()
	return r.index.Scan(io.LimitReader(log, r.limit), string(k.pod)+"/"+k.container)
}

// explain returns why there is no entry: the log may not reach back so far.
func (r *Reader) explain(ctx context.Context, unknown *planlog.UnknownError, since time.Time) error {
	for _, p := range r.logs {
		if running := p.container.State.Running; running != nil && running.StartedAt.After(since) {
			return planlog.Unknown(LogGone, "%s; Pod %s started at %s, and earlier logs are gone",
				unknown.Message, klog.KObj(&p.pod), running.StartedAt.UTC().Format(time.RFC3339))
		}
		if oldest := r.oldest(ctx, p); oldest.After(since) {
			return planlog.Unknown(LogGone, "%s; the log of Pod %s begins at %s, because it was rotated", unknown.Message, klog.KObj(&p.pod), oldest.UTC().Format(time.RFC3339))
		}
	}
	if r.gap.After(since) {
		return planlog.Unknown(LogGone, "%s; a part of its log is gone", unknown.Message)
	}
	return planlog.Unknown(unknown.Reason, "%s. It may not have planned it yet, or does not know enableTerraformCLILogging", unknown.Message)
}

// oldest is the time of the first line of a log; zero if it is not known.
func (r *Reader) oldest(ctx context.Context, p *position) time.Time {
	log, err := r.pods.GetLogs(p.pod.Name, &corev1.PodLogOptions{
		Container: p.container.Name, Timestamps: true, LimitBytes: ptr.To[int64](64),
	}).Stream(ctx)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = log.Close() }()
	line, _ := bufio.NewReader(io.LimitReader(log, 64)).ReadString(' ')
	at, _ := time.Parse(time.RFC3339Nano, cmp.Or(strings.TrimSpace(line), "-"))
	return at
}
