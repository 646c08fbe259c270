// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

var kinds = []client.Object{
	&infrav1beta1.CAPTCluster{}, &infrav1.CAPTCluster{},
	&infrav1beta1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplate{},
	&infrav1beta1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApply{},
	&controlplanev1beta1.CAPTControlPlane{}, &controlplanev1.CAPTControlPlane{},
	&controlplanev1beta1.CAPTControlPlaneTemplate{}, &controlplanev1.CAPTControlPlaneTemplate{},
}

func same(a, b client.Object) bool {
	return shapeOf(reflect.TypeOf(a).Elem()).equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func TestEqualityDetectsEveryDifference(t *testing.T) {
	for _, kind := range kinds {
		t.Run(reflect.TypeOf(kind).Elem().String(), func(t *testing.T) {
			for _, nils := range []float64{0, 0.5, 1} {
				one := kind.DeepCopyObject().(client.Object)
				randfill.New().NilChance(nils).NumElements(1, 2).Funcs(fillRaw, fillJSON).Fill(one)
				require.True(t, same(one, one.DeepCopyObject().(client.Object)))
				for n := 0; ; n++ {
					other := one.DeepCopyObject().(client.Object)
					left := n
					touched, ok := touch(reflect.ValueOf(other).Elem(), &left)
					if !ok {
						require.Positive(t, n)
						break
					}
					require.False(t, same(one, other), touched)
					require.False(t, same(other, one), touched)
				}
			}
		})
	}
}

func TestMetadataIsNotCompared(t *testing.T) {
	for _, kind := range kinds {
		other := kind.DeepCopyObject().(client.Object)
		other.SetName("other")
		other.GetObjectKind().SetGroupVersionKind(infrav1.GroupVersion.WithKind("Other"))
		assert.True(t, same(kind, other))
	}
}

func TestEqualInstantsInDifferentTimeZonesAreEqual(t *testing.T) {
	moment := time.Unix(1767323045, 0)
	here, there := full(), full()
	here.Status.Conditions[0].LastTransitionTime = metav1.NewTime(moment.In(time.UTC))
	there.Status.Conditions[0].LastTransitionTime = metav1.NewTime(moment.In(time.FixedZone("there", 3600)))
	assert.True(t, same(here, there))
}

func TestAbsentJSONIsNotEmptyJSON(t *testing.T) {
	absent, empty := apiextensionsv1.JSON{}, apiextensionsv1.JSON{Raw: []byte{}}
	equal := shapeOf(reflect.TypeFor[apiextensionsv1.JSON]()).equal
	assert.False(t, equal(reflect.ValueOf(&absent).Elem(), reflect.ValueOf(&empty).Elem()))
	assert.False(t, equal(reflect.ValueOf(&empty).Elem(), reflect.ValueOf(&absent).Elem()))
	assert.True(t, equal(reflect.ValueOf(&absent).Elem(), reflect.ValueOf(&absent).Elem()))
}

func fillRaw(r *runtime.RawExtension, c randfill.Continue)  { r.Raw = []byte(c.String(0)) }
func fillJSON(r *apiextensionsv1.JSON, c randfill.Continue) { r.Raw = []byte(c.String(0)) }
func isOneOf[T any](t reflect.Type) bool                    { return t == reflect.TypeFor[T]() }

// touch changes the n-th value within v, where n is left, and returns its path; ok is false when there are fewer. Basic values count, and
// also whether pointers, lists and maps are nil.
func touch(v reflect.Value, left *int) (path string, ok bool) {
	switch t := v.Type(); {
	case isOneOf[metav1.TypeMeta](t), isOneOf[metav1.ObjectMeta](t):
		return "", false
	case t.Kind() == reflect.Struct && !isOneOf[metav1.Time](t) && !isOneOf[metav1.Duration](t) &&
		!isOneOf[runtime.RawExtension](t) && !isOneOf[apiextensionsv1.JSON](t):
		for i := range v.NumField() {
			if t.Field(i).Name == conversionData {
				continue
			}
			if path, ok := touch(v.Field(i), left); ok {
				return "." + t.Field(i).Name + path, true
			}
		}
		return "", false
	}
	if *left == 0 {
		change(v)
		return "", true
	}
	*left--
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return touch(v.Elem(), left)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if path, ok := touch(v.Index(i), left); ok {
				return "[]" + path, true
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(k))
			if path, ok := touch(value, left); ok {
				v.SetMapIndex(k, value)
				return "[]" + path, true
			}
		}
	default:
	}
	return "", false
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1)
	case reflect.Pointer:
		setOrClear(v, reflect.New(v.Type().Elem()))
	case reflect.Slice:
		setOrClear(v, reflect.MakeSlice(v.Type(), 0, 0))
	case reflect.Map:
		setOrClear(v, reflect.MakeMap(v.Type()))
	default:
		switch o := v.Addr().Interface().(type) {
		case *metav1.Time:
			o.Time = o.Add(time.Second)
		case *metav1.Duration:
			o.Duration++
		case *runtime.RawExtension:
			o.Raw = append(o.Raw, 'x')
		case *apiextensionsv1.JSON:
			o.Raw = append(o.Raw, 'x')
		default:
			panic("unknown type " + v.Type().String())
		}
	}
}

func setOrClear(v, empty reflect.Value) {
	if v.IsNil() {
		v.Set(empty)
	} else {
		v.SetZero()
	}
}
