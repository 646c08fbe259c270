// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"encoding/json"
	"math/rand"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// rounds of each kind and direction: with -short, as in make test, a part of them.
func rounds() int {
	if testing.Short() {
		return 2_000
	}
	return 10_000
}

func TestConversionIsLossless(t *testing.T) {
	for _, k := range fuzzed {
		t.Run(k.name, k.lossless)
	}
}

// lossless runs Cluster API's fuzz test, which converts in memory, and one that encodes to JSON at every step, as an API server does. The second
// is stricter: the JSON must be equal after the round trip, including empty lists and empty strings.
func lossless[Hub, Spoke client.Object](down func(context.Context, Hub, Spoke) error, up func(context.Context, Spoke, Hub) error) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		t.Run("in memory", conversionutil.SpokeConverterFuzzTestFunc(conversionutil.SpokeConverterFuzzTestFuncInput[Hub, Spoke]{
			ConvertHubToSpokeFunc: down, ConvertSpokeToHubFunc: up, FuzzerFuncs: []fuzzer.FuzzerFuncs{fuzzFuncs},
		}))
		t.Run("through JSON from v1beta1", func(t *testing.T) { throughJSON(t, up, down) })
		t.Run("through JSON from v1beta2", func(t *testing.T) { throughJSON(t, down, up) })
	}
}

func throughJSON[From, To client.Object](t *testing.T, there func(context.Context, From, To) error, back func(context.Context, To, From) error) {
	filler := conversionutil.GetFuzzer(runtime.NewScheme(), fuzzFuncs).NilChance(0.35).NumElements(0, 3).
		RandSource(rand.NewSource(rand.Int63()))
	for range rounds() {
		drawn := fresh[From]()
		filler.Fill(drawn)
		requireReturn(t, parse[From](t, text(t, drawn)), there, back)
	}
}

// requireReturn requires that an object, as an API server sends it, is equal after a round trip.
func requireReturn[From, To client.Object](t *testing.T, from From, there func(context.Context, From, To) error, back func(context.Context, To, From) error) {
	t.Helper()
	before, to := text(t, from), fresh[To]()
	require.NoError(t, there(t.Context(), from, to))
	requireSame(t, before, text(t, from), "the source is not changed")
	before = text(t, withoutLostFields(from))

	again := fresh[From]()
	require.NoError(t, back(t.Context(), parse[To](t, text(t, to)), again))
	requireSame(t, before, text(t, withoutLostFields(again)))
}

// withoutLostFields removes what conversion stores.
func withoutLostFields[T client.Object](o T) T {
	annotations := o.GetAnnotations()
	delete(annotations, preserve.Annotation)
	o.SetAnnotations(annotations)
	if status := reflect.ValueOf(o).Elem().FieldByName("Status"); status.IsValid() {
		status.FieldByName("ConversionData").SetString("")
	}
	return o
}

// requireSame is a faster require.JSONEq for texts that are nearly always equal.
func requireSame(t *testing.T, want, got string, message ...any) {
	t.Helper()
	if got != want {
		require.JSONEq(t, want, got, message...)
	}
}

func fresh[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

func text(t *testing.T, o any) string {
	t.Helper()
	data, err := json.Marshal(o)
	require.NoError(t, err)
	return string(data)
}

func parse[T client.Object](t *testing.T, data string) T {
	t.Helper()
	o := fresh[T]()
	require.NoError(t, json.Unmarshal([]byte(data), o))
	return o
}

// fuzzFuncs generate values that are rarely random: valid JSON, and values that conversion treats specially.
func fuzzFuncs(runtimeserializer.CodecFactory) []any {
	return []any{
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(randomJSON(c)) },
		func(r *apiextensionsv1.JSON, c randfill.Continue) { r.Raw = []byte(randomJSON(c)) },
		func(u *terraform.UnknownFields, c randfill.Continue) {
			for i := range c.Intn(3) {
				if *u == nil {
					*u = terraform.UnknownFields{}
				}
				(*u)["future"+strconv.Itoa(i)] = runtime.RawExtension{Raw: []byte(randomJSON(c))}
			}
		},
		withoutConversionData[infrav1.CAPTClusterStatus], withoutConversionData[infrav1beta1.CAPTClusterStatus],
		withoutConversionData[infrav1.WorkspaceTemplateStatus], withoutConversionData[infrav1beta1.WorkspaceTemplateStatus],
		withoutConversionData[infrav1.WorkspaceTemplateApplyStatus], withoutConversionData[infrav1beta1.WorkspaceTemplateApplyStatus],
		withoutConversionData[controlplanev1.CAPTControlPlaneStatus], withoutConversionData[controlplanev1beta1.CAPTControlPlaneStatus],
		func(s *metav1.Condition, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Type = pick(c, s.Type, "", "Ready", "Available", "Failed", "KubeconfigReady", "VPCReady", "example.com/a.b~c")
			s.Status = pick(c, s.Status, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown)
			s.Reason = pick(c, s.Reason, "", "Ready", "0 not legal:")
		},
		func(s *infrav1beta1.Condition, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Type = pick(c, s.Type, "Ready", "Synced")
			s.Reason = pick(c, s.Reason, "", "Available")
		},
		func(s **string, c randfill.Continue) {
			drawn := c.String(0)
			*s = pick(c, nil, &drawn, new(string))
		},
		func(s **metav1.Time, c randfill.Continue) { // Not a pointer to a zero time, which is null in JSON and is decoded as nil.
			drawn := metav1.Unix(int64(c.Uint32()), 0)
			*s = pick(c, nil, &drawn)
		},
		func(s **int32, c randfill.Continue) {
			drawn, whole := c.Int31(), int32(c.Intn(2000))*60
			*s = pick(c, nil, &drawn, &whole, new(int32))
		},
		func(s **int, c randfill.Continue) {
			drawn, usual := c.Int(), c.Intn(2000)
			*s = pick(c, nil, &drawn, &usual, new(int))
		},
		func(s *controlplanev1.FargateProfile, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Name = pick(c, s.Name, "a", "b", "a/b~c")
		},
		func(s *controlplanev1beta1.AdditionalFargateProfile, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Name = pick(c, s.Name, "a", "b")
		},
		func(s *terraform.Scope, c randfill.Continue) {
			*s = pick(c, "", terraform.ScopeCluster, terraform.ScopeNamespaced)
		},
		func(s *infrav1.DeletionPolicy, c randfill.Continue) {
			*s = pick(c, "", infrav1.DeletionPolicyDelete, infrav1.DeletionPolicyRetain)
		},
	}
}

// withoutConversionData fills a status. Only conversion sets conversionData.
func withoutConversionData[Status any](s *Status, c randfill.Continue) {
	c.FillNoCustom(s)
	reflect.ValueOf(s).Elem().FieldByName("ConversionData").SetString("")
}

func pick[T any](c randfill.Continue, choices ...T) T { return choices[c.Intn(len(choices))] }

func randomJSON(c randfill.Continue) string {
	return pick(c, `{}`, `[]`, `""`, `12`, `true`, `{"a":{"b":[1,"two",null,3.5]}}`, `{"html":"<a href='x'>&</a>"}`)
}
