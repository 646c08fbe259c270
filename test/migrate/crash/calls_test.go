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

package crash_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/test/crash/proxy"
)

// call is a request of a run: the number-th with its key.
type call struct {
	key    string
	number int
	// kind is the key without names.
	kind string
	// writes tells whether it changes something.
	writes bool
}

func (c call) String() string { return fmt.Sprintf("%s (%d)", c.key, c.number) }

// renewal is a call that a run makes as often as it has time to.
const (
	renewal       = "renews"
	renewalOfLock = "PUT leases " + renewal
)

// timed tells whether a run makes a call or not as it has time to: it renews the lock, and it saves how far it came not only at the
// end of each phase, but every ten seconds, too.
func (c call) timed() bool {
	return c.kind == renewalOfLock || c.kind == "PUT configmaps" && c.number > 1
}

// keyOf is what tells a request from others, whatever their order.
func keyOf(r *http.Request) string {
	key := r.Method + " " + r.URL.RequestURI()
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/") {
		key += " " + purpose(r)
	}
	return key
}

// purpose of a write of the lock.
func purpose(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	lease := &coordinationv1.Lease{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, lease); err != nil {
		return err.Error()
	}
	switch {
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		return "releases"
	case lease.Spec.RenewTime.Equal(lease.Spec.AcquireTime):
		return "acquires"
	}
	return renewal
}

// recorder takes down the calls of a run that nothing happens to.
type recorder struct {
	mutex sync.Mutex
	calls []call
}

// Matches takes a request down.
func (r *recorder) Matches(request *http.Request) bool {
	c := call{key: keyOf(request), number: 1}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, earlier := range r.calls {
		if earlier.key == c.key {
			c.number++
		}
	}
	if strings.HasSuffix(c.key, renewal) && c.number > 1 {
		return false // How many there are is up to the machine.
	}
	c.writes = request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "selfsubject") && !request.URL.Query().Has("dryRun")
	c.kind = kindOf(request, c.key)
	r.calls = append(r.calls, c)
	return true
}

// kindOf is the key without names. Rewriting an object is the same for all of CAPT's kinds.
func kindOf(request *http.Request, key string) string {
	if request.Method == http.MethodPut && strings.Contains(request.URL.Path, ".cluster.x-k8s.io/v1beta") {
		return request.Method
	}
	write := proxy.Write{Path: request.URL.Path}
	return request.Method + " " + write.Resource() + strings.TrimPrefix(key, request.Method+" "+request.URL.RequestURI())
}

// fate is what happens to a run at a call.
type fate struct {
	call
	proxy.Moment
}

// fates are what happens to runs: everything at every call, or each moment at a call of each kind of write (the first, the last)
// and at a read. Answers are lost of every second kind then.
func fates(calls []call, moments ...proxy.Moment) (chosen []fate) {
	if everything {
		for _, c := range calls {
			for _, m := range moments {
				chosen = append(chosen, fate{c, m})
			}
		}
		return chosen
	}
	var reads []call
	writes := map[string][]call{}
	var kinds []string
	for _, c := range calls {
		switch {
		case !c.writes:
			reads = append(reads, c)
		default:
			if !slices.Contains(kinds, c.kind) {
				kinds = append(kinds, c.kind)
			}
			writes[c.kind] = append(writes[c.kind], c)
		}
	}
	for n, kind := range kinds {
		if moments[0] == proxy.Lost && n%2 == 0 {
			continue // The run goes on as another one does, after a kill.
		}
		of := writes[kind]
		for i, m := range moments {
			chosen = append(chosen, fate{of[(len(of)-1)*i/max(1, len(moments)-1)], m})
		}
	}
	for i, m := range moments {
		chosen = append(chosen, fate{reads[(len(reads)-1)*(i+1)/(len(moments)+1)], m})
	}
	return chosen
}
