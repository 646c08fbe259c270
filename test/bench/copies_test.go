// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// original is the name of the cluster that is copied, and copyFormat the names of its copies, which are as long.
const (
	original   = "c00000"
	copyFormat = "c%05d"
)

// BenchmarkCopies measures a manager that is started for fleets of Ready clusters. To provision 10,000 clusters takes hours on two cores, so one cluster is
// provisioned and copied in etcd, with other names and UIDs: the manager finds each copy as it left the original. Cluster API core and the provider do not
// run. The endpoint of all clusters is the API server of the sandbox; recovery is off, because a busy machine answers health checks too late. It reports, for
// each size,
//   - synced-s: from the start of the manager until its caches are synced and its webhooks answer
//   - settled-s, restart-requests, restart-cpu-ms/cluster: until it has reconciled everything; restart-writes: details of health checks that had waited
//   - rest-requests, rest-cpu-ms: in half a minute of rest
//   - rss-MiB, anon-MiB, file-MiB: its memory after that; of it, what only this process has, and the pages of its program
//   - heap-MiB: the part of anon-MiB that is used for objects, with garbage
//
// COPIES_MODULE is the size of each Terraform module in KiB, for modules as long as real ones; the default is a few lines. FLEET_ARGS is as for BenchmarkFleet.
func BenchmarkCopies(b *testing.B) {
	for _, size := range []int{10, 100, 300, 1000, 3000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				f := copies(b, size)
				f.start()
				f.rest(fleetRest)
				f.memory()
				require.NoError(b, f.s.Stop(context.Background()))
			}
		})
	}
}

// copies starts the servers for a fleet of copies, without a manager.
func copies(b *testing.B, size int) *fleet {
	b.Helper()
	f := startFleet(b, 1, "--feature-gates=Recovery=false")
	long := ""
	if kib, err := strconv.Atoi(os.Getenv("COPIES_MODULE")); err == nil {
		long = strings.Repeat("# This line is as long as a line of a Terraform module often is.\n", kib<<10/65)
	}
	applyAll(b, f.c, environments.VPCTemplate(fixture.VPCModule+long), reachable(f.s, long))
	require.NoError(b, f.make(b.Context(), original))
	awaitEndpoints(b, f.c, 1)
	awaitIdle(b, f.s)
	for _, component := range []string{sandbox.ClusterAPI, sandbox.Provider, sandbox.KubeControllerManager} {
		require.NoError(b, f.s.StopComponent(b.Context(), component))
	}
	// The API server would list all Clusters in vain, again and again, because Cluster API does not convert them.
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"}}
	require.NoError(b, f.c.Patch(b.Context(), definition, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`))))
	f.multiply(size)
	awaitIdle(b, f.s) // The manager corrects the hashes in status, which depend on names.
	require.NoError(b, f.s.StopComponent(b.Context(), sandbox.Manager))
	return f
}

// start starts the manager and waits until it has reconciled everything.
func (f *fleet) start() {
	f.Helper()
	began := time.Now()
	require.NoError(f, f.s.StartComponent(f.Context(), sandbox.Manager))
	f.report(time.Since(began).Seconds(), "synced-s")
	f.report(awaitIdle(f.B, f.s).Sub(began).Seconds(), "settled-s")
	f.report(float64(countWrites(f.B, f.s, began, "leases")), "restart-writes")
	f.report(f.requests(began), "restart-requests")
	f.each(1000*f.cpu(), "restart-cpu-ms/cluster")
}

// memory reports the memory of the manager.
func (f *fleet) memory() {
	f.Helper()
	for field, unit := range map[string]string{"VmRSS": "rss-MiB", "RssAnon": "anon-MiB", "RssFile": "file-MiB"} {
		f.report(statusOf(f.B, f.s, field)/(1<<20), unit)
	}
	f.report(scrape(f.B, f.s).Sum("go_memstats_heap_inuse_bytes")/(1<<20), "heap-MiB")
}

// multiply copies the objects of the original in etcd, until there are so many clusters.
func (f *fleet) multiply(size int) {
	f.Helper()
	objects := f.objects()
	uids := map[string]bool{}
	for _, object := range objects {
		var content struct{ Metadata struct{ UID string } }
		require.NoError(f, json.Unmarshal([]byte(object), &content))
		uids[content.Metadata.UID] = true
	}
	group, ctx := errgroup.WithContext(f.Context())
	group.SetLimit(4)
	for i := 1; i < size; i++ {
		group.Go(func() error {
			replacements := []string{original, fmt.Sprintf(copyFormat, i)}
			for of := range uids {
				replacements = append(replacements, of, of[:24]+fmt.Sprintf("%012x", i))
			}
			replace := strings.NewReplacer(replacements...).Replace
			var puts []any
			for key, object := range objects {
				copied := replace(object)
				if strings.HasPrefix(key, "/registry/secrets/") {
					copied = withValues(copied, replace)
				}
				puts = append(puts, map[string]any{"request_put": map[string]any{"key": []byte(replace(key)), "value": []byte(copied)}})
			}
			return f.etcd(ctx, "txn", map[string]any{"success": puts}, nil)
		})
	}
	require.NoError(f, group.Wait())
	f.made, f.size = size, size
}

// withValues replaces the values of a Secret, which are encoded.
func withValues(secret string, replace func(string) string) string {
	return regexp.MustCompile(`"[A-Za-z0-9+/]{8,}={0,2}"`).ReplaceAllStringFunc(secret, func(quoted string) string {
		value, err := base64.StdEncoding.DecodeString(strings.Trim(quoted, `"`))
		if err != nil || !strings.Contains(string(value), original) {
			return quoted
		}
		return `"` + base64.StdEncoding.EncodeToString([]byte(replace(string(value)))) + `"`
	})
}

// objects returns the objects of the original, by their keys in etcd, as JSON. Secrets are read from the API server, because etcd has them in another encoding.
func (f *fleet) objects() map[string]string {
	f.Helper()
	objects := map[string]string{}
	var found struct{ KVs []struct{ Key, Value []byte } }
	require.NoError(f, f.etcd(f.Context(), "range", map[string]any{"key": []byte("/registry/"), "range_end": []byte("/registry0")}, &found))
	for _, kv := range found.KVs {
		if key := string(kv.Key); strings.Contains(key, "/default/"+original) && bytes.HasPrefix(kv.Value, []byte("{")) {
			objects[key] = string(kv.Value)
		}
	}
	var secrets corev1.SecretList
	require.NoError(f, f.c.List(f.Context(), &secrets, client.InNamespace("default")))
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		secret.ResourceVersion = ""
		data, err := json.Marshal(secret)
		require.NoError(f, err)
		objects["/registry/secrets/default/"+secret.Name] = string(data)
	}
	require.Len(f, objects, 10)
	return objects
}

// etcd sends a request to etcd.
func (f *fleet) etcd(ctx context.Context, method string, request, into any) error {
	running, err := process.Load(f.s.Dir())
	if err != nil {
		return err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, running.EtcdEndpoint+"/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("etcd: %s", response.Status)
	case into == nil:
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
