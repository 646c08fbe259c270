// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// The targets of go test -fuzz find cases that random objects do not, because the engine measures which code an input reaches. The kind is a
// number, so that one target covers all kinds.

func FuzzRoundTripFromV1Beta1(f *testing.F) {
	for kind, k := range fuzzed {
		object := k.seed(f)
		f.Add(uint8(kind), []byte(object["spec"]), []byte(object["status"]))
		f.Add(uint8(kind), []byte(`{}`), []byte(`null`))
	}
	template := parts(f, read[*infrav1beta1.WorkspaceTemplate](f, legacyTemplate))
	f.Add(uint8(3), []byte(template["spec"]), []byte(template["status"]))
	f.Add(uint8(0), []byte(`{"vpcTemplateRef":{},"existingVpcId":"","retainVpcOnDelete":false}`), []byte(`{"failureDomains":{"":{},"b":null}}`))
	f.Add(uint8(1), []byte(`null`), []byte(`{"failureReason":"","failureMessage":"m","conditions":[{},{}]}`))
	f.Fuzz(func(t *testing.T, kind uint8, spec, status []byte) {
		fuzzed[int(kind)%len(fuzzed)].fromSpoke(t, spec, status)
	})
}

func FuzzRoundTripFromV1Beta2(f *testing.F) {
	for kind, k := range fuzzed {
		object := k.seedOfHub(f)
		f.Add(uint8(kind), []byte(object["spec"]), []byte(object["status"]))
	}
	f.Fuzz(func(t *testing.T, kind uint8, spec, status []byte) {
		fuzzed[int(kind)%len(fuzzed)].fromHub(t, spec, status)
	})
}

// Every client can write the annotation. An object must remain readable with any content of it.
func FuzzAnyAnnotationIsReadable(f *testing.F) {
	var convert []func(*testing.T, string)
	for kind, k := range fuzzed {
		convert = append(convert, k.annotated(f))
		for _, annotation := range []string{
			``, `{`, `{"fields":[{}]}`, `{"fields":[{"path":"/spec/region","is":7}]}`, `{"fields":[{"path":"/spec/vpc/template","is":{"ref":null}}]}`,
			`{"fields":[{"path":"/status/conditions/Ready","was":"f529a9a986ba1381"},{"path":"/status/workspaceStatus","is":null}]}`,
			`{"fields":[{"path":"/spec/template/spec/forProvider/Unknown","is":{"a":null}},{"path":"/status/lastAppliedTime","is":"0000-01-01T00:00:00Z"}]}`,
		} {
			f.Add(uint8(kind), annotation)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, annotation string) {
		convert[int(kind)%len(convert)](t, annotation)
	})
}

// A client can write the annotation that conversion would write, with another value or for another field: this changes no status, and the object is
// converted without loss, again and again.
func FuzzForgedAnnotationsChangeNoStatus(f *testing.F) {
	for kind := range fuzzed {
		for seed := range int64(4) {
			f.Add(uint8(kind), seed, uint8(seed), "", `"forged"`)
			f.Add(uint8(kind), seed, uint8(seed), "/status/conditions", `[{"type":"Ready","status":"True"}]`)
			f.Add(uint8(kind), seed, uint8(seed), "/status/workspaceRef", `{"name":"foreign","uid":"1"}`)
			f.Add(uint8(kind), seed, uint8(seed), "/spec/../status/workspaceRef", `{"name":"foreign"}`)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, seed int64, which uint8, path, is string) {
		k := fuzzed[int(kind)%len(fuzzed)]
		k.forgedForSpoke(t, seed, which, path, is)
		k.forgedForHub(t, seed, which, path, is)
	})
}

// fuzzedKind has the functions of the targets for one kind.
type fuzzedKind struct {
	name                            string
	lossless, withoutSpec, unshared func(*testing.T)
	seed, seedOfHub                 func(testing.TB) map[string]json.RawMessage
	fromSpoke, fromHub              func(t *testing.T, spec, status []byte)
	forgedForSpoke, forgedForHub    func(t *testing.T, seed int64, which uint8, path, is string)
	annotated                       func(testing.TB) func(t *testing.T, annotation string)
}

var fuzzed = []fuzzedKind{
	fuzzedPair(captClusters, "captcluster"),
	fuzzedPair(controlPlanes, "captcontrolplane"),
	fuzzedPair(controlPlaneTemplates, "captcontrolplanetemplate"),
	fuzzedPair(workspaceTemplates, "workspacetemplate"),
	fuzzedPair(workspaceTemplateApplies, "workspacetemplateapply"),
}

func fuzzedPair[Hub, Spoke client.Object](p pair[Hub, Spoke], file string) fuzzedKind {
	return fuzzedKind{
		name: file, lossless: lossless(p.down, p.up), withoutSpec: withoutSpec(p), unshared: unshared(p),
		seed: func(t testing.TB) map[string]json.RawMessage { return parts(t, manifest[Spoke](t, file)) },
		seedOfHub: func(t testing.TB) map[string]json.RawMessage {
			hub := fresh[Hub]()
			require.NoError(t, p.up(t.Context(), manifest[Spoke](t, file), hub))
			return parts(t, hub)
		},
		fromSpoke: func(t *testing.T, spec, status []byte) {
			requireReturn(t, object[Spoke](t, spec, status), p.up, p.down)
		},
		fromHub: func(t *testing.T, spec, status []byte) { requireReturn(t, object[Hub](t, spec, status), p.down, p.up) },
		forgedForSpoke: func(t *testing.T, seed int64, which uint8, path, is string) {
			requireStatusKept(t, seed, func(annotation string) string { return forge(annotation, which, path, is) }, p.up, p.down)
		},
		forgedForHub: func(t *testing.T, seed int64, which uint8, path, is string) {
			requireStatusKept(t, seed, func(annotation string) string { return forge(annotation, which, path, is) }, p.down, p.up)
		},
		annotated: func(t testing.TB) func(*testing.T, string) {
			inUse := manifest[Spoke](t, file)
			return func(t *testing.T, annotation string) {
				spoke, hub, again := inUse.DeepCopyObject().(Spoke), fresh[Hub](), fresh[Spoke]()
				spoke.SetAnnotations(map[string]string{preserve.Annotation: annotation, "mine": "kept"})
				require.NoError(t, p.up(t.Context(), spoke, hub))
				requireReadable(t, spoke, hub)

				hub.SetAnnotations(map[string]string{preserve.Annotation: annotation, "mine": "kept"})
				require.NoError(t, p.down(t.Context(), hub, again))
				requireReadable(t, hub, again)
			}
		},
	}
}

// forge replaces the value of one field in an annotation, and its path if another one is given.
func forge(annotation string, which uint8, path, is string) string {
	var stored struct {
		Fields []map[string]any `json:"fields"`
	}
	_ = json.Unmarshal([]byte(annotation), &stored)
	if len(stored.Fields) == 0 {
		stored.Fields = []map[string]any{{}}
	}
	forged := stored.Fields[int(which)%len(stored.Fields)]
	if forged["is"] = any(is); json.Valid([]byte(is)) {
		forged["is"] = json.RawMessage(is)
	}
	if path != "" {
		forged["path"] = path
	}
	data, _ := json.Marshal(stored)
	return string(data)
}

// requireStatusKept converts a random object, and converts it back with a forged annotation and without an annotation.
func requireStatusKept[From, To client.Object](t *testing.T, seed int64, forge func(annotation string) string, there func(context.Context, From, To) error, back func(context.Context, To, From) error) {
	t.Helper()
	drawn, converted := fresh[From](), fresh[To]()
	conversionutil.GetFuzzer(runtime.NewScheme(), fuzzFuncs).NilChance(0.35).NumElements(0, 3).RandSource(rand.NewSource(seed)).Fill(drawn)
	require.NoError(t, there(t.Context(), drawn, converted))
	honest, forged := converted, parse[To](t, text(t, converted))
	annotations := map[string]string{"mine": "kept"}
	maps.Copy(annotations, converted.GetAnnotations())
	annotations[preserve.Annotation] = forge(annotations[preserve.Annotation])
	forged.SetAnnotations(annotations)
	honest.SetAnnotations(map[string]string{"mine": "kept"})

	withForged, without := fresh[From](), fresh[From]()
	require.NoError(t, back(t.Context(), forged, withForged))
	require.NoError(t, back(t.Context(), honest, without))
	requireSame(t, string(parts(t, without)["status"]), string(parts(t, withForged)["status"]), annotations[preserve.Annotation])
	requireReadable(t, forged, withForged)
	requireReturn(t, withForged, there, back)
}

// object returns an object as an API server would send it: in the JSON encoding of the type. Input that cannot be decoded is skipped.
func object[T client.Object](t *testing.T, spec, status []byte) T {
	t.Helper()
	var o T
	data, err := json.Marshal(map[string]json.RawMessage{"spec": spec, "status": status})
	for range 2 {
		if o = fresh[T](); err == nil {
			err = json.Unmarshal(data, o)
		}
		if err == nil {
			data, err = json.Marshal(o)
		}
	}
	if err != nil {
		t.Skip(err)
	}
	return o
}

func requireReadable[From, To client.Object](t *testing.T, from From, to To) {
	t.Helper()
	assert.Equal(t, from.GetName(), to.GetName())
	assert.Equal(t, "kept", to.GetAnnotations()["mine"])
	parse[To](t, text(t, to))
}

// parts are the fields of an object by name.
func parts(t testing.TB, o client.Object) map[string]json.RawMessage {
	t.Helper()
	data, err := json.Marshal(o)
	require.NoError(t, err)
	found := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(data, &found))
	return found
}

// manifest reads an object from testdata.
func manifest[T client.Object](t testing.TB, name string) T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".yaml")
	require.NoError(t, err)
	o := fresh[T]()
	require.NoError(t, yaml.UnmarshalStrict(data, o))
	return o
}
