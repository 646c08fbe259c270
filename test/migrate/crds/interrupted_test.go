/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package crds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/test/sandbox"
)

// death ends the run that sends its requests through it, at one of them: the goroutine goes no further, as the process does
// not after kill -9.
type death struct {
	// number of the request, counted from 1; 0 kills nobody. The API server carries it out, and the answer is lost. That is how
	// things are, too, when the run ends before it sends the next one.
	number int
	// meanwhile is called before each request.
	meanwhile func(number int, request *http.Request)

	lock sync.Mutex
	seen int
	next http.RoundTripper
}

var errDead = errors.New("the process is gone")

func (d *death) RoundTrip(request *http.Request) (*http.Response, error) {
	// Reviews of permissions and discovery come before anything else, or read what never changes.
	if strings.Contains(request.URL.Path, "selfsubjectaccessreviews") || request.URL.Path == "/api" || strings.HasPrefix(request.URL.Path, "/apis") && strings.Count(request.URL.Path, "/") < 4 {
		return d.next.RoundTrip(request)
	}
	d.lock.Lock()
	d.seen++
	number := d.seen
	d.lock.Unlock()
	if d.meanwhile != nil {
		d.meanwhile(number, request)
	}
	response, err := d.next.RoundTrip(request)
	if number == d.number {
		if err == nil {
			_ = response.Body.Close()
		}
		runtime.Goexit()
	}
	if d.number > 0 && number > d.number {
		return nil, errDead
	}
	return response, err
}

// runUntil runs the command until a request; ended is false when it died there.
func runUntil(t *testing.T, options crds.Options, d *death) (ended bool, err error) {
	t.Helper()
	options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		d.next = next
		return d
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = crds.Run(t.Context(), options)
		ended = true
	}()
	<-done
	return ended, err
}

// same are options with another connection, for another process.
func same(t *testing.T, options crds.Options) crds.Options {
	t.Helper()
	fresh := optionsOf(t, sandbox.Captctl)
	fresh.Backup = options.Backup
	return fresh
}

// TestARunThatIsKilledIsFinishedByTheNext kills the command at every request of both halves, and runs it again.
func TestARunThatIsKilledIsFinishedByTheNext(t *testing.T) {
	for number, killed := 1, true; killed; number++ {
		killed = false
		t.Run(fmt.Sprintf("at request %d", number), func(t *testing.T) {
			f := newFleet(t)
			options := optionsOf(t, sandbox.Captctl)
			for _, half := range []string{"removing", "restoring"} {
				if half == "restoring" {
					install(t, ours)
				}
				ended, err := runUntil(t, same(t, options), &death{number: number})
				if ended {
					require.NoError(t, err, half)
				}
				killed = killed || !ended
				_, err = crds.Run(t.Context(), same(t, options))
				if err != nil { // All that was left is that our definition is not installed.
					require.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%s: %v", half, err)
					require.Equal(t, "removing", half)
				}
			}
			f.requireRestored(t)
		})
	}
}

// TestADefinitionThatGoesWhileItIsLookedAtIsGone ends the deletion between a look at the definition and the look at its objects.
func TestADefinitionThatGoesWhileItIsLookedAtIsGone(t *testing.T) {
	f := newFleet(t)
	holding := func(finalizers string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[`+finalizers+`]}}`))
		require.NoError(t, admin.Patch(t.Context(), older.DeepCopy(), patch))
	}
	holding(`"example.com/hold"`)
	options := optionsOf(t, sandbox.Captctl)
	options.Patience = time.Second
	_, err := crds.Run(t.Context(), options)
	require.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)

	ended, err := runUntil(t, same(t, options), &death{meanwhile: func(_ int, request *http.Request) {
		if !strings.HasSuffix(request.URL.Path, "/captcontrolplanetemplates") {
			return
		}
		holding("")
		assert.Eventually(t, func() bool {
			_, err := templates.List(t.Context(), metav1.ListOptions{})
			return apierrors.IsNotFound(err)
		}, patience, tick)
	}})
	require.True(t, ended)
	require.NoError(t, err)
	install(t, ours)
	_, err = crds.Run(t.Context(), same(t, options))
	require.NoError(t, err)
	f.requireRestored(t)
}

// TestFilesOfARunThatWasKilled has the folder as a kill between its files leaves it.
func TestFilesOfARunThatWasKilled(t *testing.T) {
	for name, left := range map[string]map[string]string{
		"half a file of objects":                  {"captcontrolplanetemplates-0123456789abcdef.json.part": `{"apiVersion":"v1",`},
		"objects without a manifest":              {"captcontrolplanetemplates-0123456789abcdef.json": `{"apiVersion":"v1","kind":"List","items":[]}`},
		"objects, and half a manifest beside":     {"captcontrolplanetemplates-0123456789abcdef.json": `{}`, "export.json.part": `{"apiVersion"`},
		"half a manifest that is longer than new": {"export.json.part": strings.Repeat("x", 1<<16)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			options := optionsOf(t, sandbox.Captctl)
			require.NoError(t, os.Mkdir(filepath.Join(options.Backup, crds.Folder), 0o700))
			for file, content := range left {
				require.NoError(t, os.WriteFile(filepath.Join(options.Backup, crds.Folder, file), []byte(content), 0o600))
			}
			_, err := crds.Run(t.Context(), options)
			require.NoError(t, err)
			install(t, ours)
			_, err = crds.Run(t.Context(), options)
			require.NoError(t, err)
			f.requireRestored(t)
		})
	}
}

// TestWhatIsMadeWhileTheCommandRunsIsExportedToo creates and changes an object before each request in turn by which the objects
// are read or written, up to the DELETE itself.
func TestWhatIsMadeWhileTheCommandRunsIsExportedToo(t *testing.T) {
	for number, reached := 1, true; reached; number++ {
		reached = false
		t.Run(fmt.Sprintf("before request %d", number), func(t *testing.T) {
			f := newFleet(t)
			options := optionsOf(t, sandbox.Captctl)
			seen := 0
			_, err := runUntil(t, same(t, options), &death{meanwhile: func(_ int, request *http.Request) {
				if !strings.Contains(request.URL.Path, "/captcontrolplanetemplates") || request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, definitionName) {
					return
				}
				if seen++; seen == number {
					reached = true
					f.add(t, template(f.namespace, "late"))
					f.relabel(t, "plain")
				}
			}})
			require.NoError(t, err)
			install(t, ours)
			_, err = crds.Run(t.Context(), same(t, options))
			require.NoError(t, err)
			f.requireRestored(t)
		})
	}
}

func TestATemplateThatNeverStopsChangingKeepsItsDefinition(t *testing.T) {
	f := newFleet(t)
	made := 0
	_, err := runUntil(t, optionsOf(t, sandbox.Captctl), &death{meanwhile: func(_ int, request *http.Request) {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/captcontrolplanetemplates") {
			made++
			f.add(t, template(f.namespace, fmt.Sprintf("late-%d", made)))
		}
	}})
	require.ErrorContains(t, err, "the definition is still there")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
	list, err := templates.Namespace(f.namespace).List(context.Background(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, list.Items, len(f.objects))
}

// rename gives an export another cluster, and a checksum that is right.
func rename(t *testing.T, backup, cluster string) {
	t.Helper()
	manifest, _ := files(t, backup)
	data, err := os.ReadFile(manifest)
	require.NoError(t, err)
	var content struct{ ClusterUID, Checksum string }
	require.NoError(t, json.Unmarshal(data, &content))
	data = bytes.ReplaceAll(data, []byte(content.ClusterUID), []byte(cluster))
	var unsigned bytes.Buffer
	require.NoError(t, json.Compact(&unsigned, bytes.ReplaceAll(data, []byte(content.Checksum), nil)))
	data = bytes.ReplaceAll(data, []byte(content.Checksum), []byte(migrate.Sum(unsigned.Bytes())))
	require.NoError(t, os.WriteFile(manifest, data, 0o600))
}
