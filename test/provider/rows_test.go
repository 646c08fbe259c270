// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capt-provider/capt/test/provider/api/cluster/v1beta1"
	"github.com/capt-provider/capt/test/provider/api/managed"
	namespacedv1beta1 "github.com/capt-provider/capt/test/provider/api/namespaced/v1beta1"
)

const (
	filledV1 = `list=["a",1] text=v1 token=hidden`
	filledV2 = `list=["a",1] text=v2 token=hidden`
	shownV1  = `list=["a",1] text="v1"`
	shownV2  = `list=["a",1] text="v2"`

	begun   = "external-name finalizer pending"
	created = "external-name finalizer pending succeeded"
	failing = "external-name finalizer pending failed"
)

// restV1 is a Workspace at rest.
var restV1 = row{marks: created, ready: "True/Available", synced: "True/ReconcileSuccess", outputs: shownV1, secret: filledV1}

func joined[V any](m map[string]V, value func(string) string) string {
	pairs := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, k+"="+value(k))
	}
	return strings.Join(pairs, " ")
}

func module(text string) func(client.Object) {
	return func(o client.Object) {
		switch w := o.(type) {
		case *clusterv1beta1.Workspace:
			w.Spec.ForProvider.Module.Module = text
		case *namespacedv1beta1.Workspace:
			w.Spec.ForProvider.Module.Module = text
		}
	}
}

func policies(actions ...managed.ManagementAction) func(client.Object) {
	return func(o client.Object) {
		switch w := o.(type) {
		case *clusterv1beta1.Workspace:
			w.Spec.ManagementPolicies = actions
		case *namespacedv1beta1.Workspace:
			w.Spec.ManagementPolicies = actions
		}
	}
}

func annotation(key, value string) func(client.Object) {
	return func(o client.Object) { annotate(o, key, value) }
}

// toRest takes a new Workspace to where nothing is left to do.
func (s *stage) toRest() {
	s.Helper()
	s.create()
	s.reconcile()
	s.reconcile()
	require.Equal(s, restV1, s.row())
}

func TestGoodLife(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		moments := map[operation]row{}
		s.during = func(op operation) { moments[op] = s.row() }

		s.create()
		require.Equal(s, row{secret: "-"}, s.row(), "queued")

		require.Equal(s, minBackoff, s.reconcile().RequeueAfter)
		require.Equal(s, row{marks: "external-name", secret: "-"}, moments[operationInit], "while init runs")
		require.Equal(s, row{marks: "external-name", secret: "-"}, moments[operationPlan], "while plan runs")
		require.Equal(s, row{marks: begun}, moments[operationApply], "while the first apply runs, with an empty Secret")
		require.Equal(s, row{marks: created, ready: "False/Creating", synced: "True/ReconcileSuccess", secret: filledV1}, s.row(), "first apply done")
		require.Empty(s, s.reconciler.scope.wrap(s.get()).status().AtProvider.Checksum)

		require.Equal(s, DefaultPollInterval, s.reconcile().RequeueAfter)
		require.Equal(s, restV1, s.row(), "next observation")

		s.edit(module("v2"))
		require.Equal(s, DefaultPollInterval, s.reconcile().RequeueAfter)
		require.Equal(s, restV1, moments[operationPlan])
		require.Equal(s, restV1, moments[operationApply], "while an update is applied nothing changes")
		restV2 := restV1
		restV2.outputs, restV2.secret = shownV2, filledV2
		require.Equal(s, restV2, s.row(), "updated")

		s.delete()
		require.Equal(s, minBackoff, s.reconcile().RequeueAfter)
		require.Equal(s, restV2, moments[operationDestroy], "while destroy runs Ready is stale")
		destroyed := restV2
		destroyed.ready, destroyed.outputs = "False/Deleting", restV2.outputs
		require.Equal(s, destroyed, s.row(), "destroyed")
		s.reconcile()
		require.True(s, s.gone())
		require.Equal(s, []string{"default"}, s.workspaces(), "the state is gone")
		require.Equal(s, []types.UID{s.uid}, s.forgotten)
		require.Equal(s, Counts{Inits: 4, Plans: 5, Applies: 2, Destroys: 1}, s.reconciler.options.Counters.For(s.uid))
	})
}

func TestAPlanThatFailsDoesNotKeepADeletedWorkspace(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.toRest()
		s.delete()
		s.fail[operationPlan] = errors.New("the module is broken")
		s.reconcile()
		s.reconcile()
		require.True(s, s.gone())
	})
}

func TestMissingProviderConfig(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.create(func(o client.Object) {
			switch w := o.(type) {
			case *clusterv1beta1.Workspace:
				w.Spec.ProviderConfigReference.Name = "missing"
			case *namespacedv1beta1.Workspace:
				w.Spec.ProviderConfigReference.Name = "missing"
			}
		})
		s.reconcile()
		got := s.row()
		require.Equal(s, "False/ReconcileError", got.synced)
		require.Empty(s, got.ready)
		require.Contains(s, got.message, "connect failed: failed to resolve provider config: cannot get provider config: ")
		require.Contains(s, got.message, `"missing" not found`)
	})
}

func TestPauseFreezesEverything(t *testing.T) {
	for name, pause := range map[string]func(client.Object){
		"annotation": annotation(annotationPaused, "true"),
		// An empty list cannot be told from none by a typed client.
		"no policies": policies(),
	} {
		t.Run(name, func(t *testing.T) {
			inBothScopes(t, func(s *stage) {
				s.toRest()
				if name == "annotation" {
					s.edit(pause)
				} else {
					patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managementPolicies":[]}}`))
					require.NoError(s, testClient.Patch(s.Context(), s.get(), patch))
				}
				paused := restV1
				paused.synced = "False/ReconcilePaused"
				require.Zero(s, s.reconcile())
				require.Equal(s, paused, s.row())

				s.delete()
				require.Zero(s, s.reconcile())
				require.Equal(s, paused, s.row(), "deletion is frozen too")
				require.Zero(s, s.reconciler.options.Counters.For(s.uid).Destroys)
			})
		})
	}
}

func TestKilledDuringTheFirstApply(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.create(annotation(annotationCreatePending, "2026-01-01T00:00:00Z"))
		want := row{
			marks: "external-name pending", ready: "False/Creating", synced: "False/ReconcileError", secret: "-",
			message: "cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed",
		}
		require.Zero(s, s.reconcile(), "never retried")
		require.Equal(s, want, s.row())
		require.Zero(s, s.reconciler.options.Counters.For(s.uid))

		s.edit(func(o client.Object) { o.SetFinalizers([]string{finalizerName}) })
		s.delete()
		require.Zero(s, s.reconcile())
		want.marks = "external-name finalizer pending"
		require.Equal(s, want, s.row(), "blocks deletion too")

		s.edit(func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, annotationCreatePending)
			o.SetAnnotations(annotations)
		})
		s.reconcile()
		require.True(s, s.gone())
	})
}

func TestWithoutDeleteTheResourcesStay(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.toRest()
		s.edit(func(o client.Object) {
			if w, ok := o.(*clusterv1beta1.Workspace); ok {
				w.Spec.DeletionPolicy = managed.DeletionOrphan
				return
			}
			policies(managed.ActionObserve, managed.ActionCreate, managed.ActionUpdate)(o)
		})
		s.delete()
		s.reconcile()
		require.True(s, s.gone())
		require.Equal(s, []string{"default", s.key.Name}, s.workspaces(), "the state is still there")
		require.Empty(s, s.forgotten, "and so is the working directory")
	})
}

func TestASecondFinalizerBlocksDestroy(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.toRest()
		s.edit(func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), "example.com/mine")) })
		s.delete()
		s.reconcile()
		require.Equal(s, restV1, s.row())
		require.Zero(s, s.reconciler.options.Counters.For(s.uid).Destroys)

		s.edit(func(o client.Object) { o.SetFinalizers([]string{finalizerName}) })
		s.reconcile()
		s.reconcile()
		require.True(s, s.gone())
	})
}

func TestRecreatedWorkspaceAdoptsItsState(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.states[s.key.Name] = &state{}
		p := &pretender{world: s.world, current: s.key.Name}
		p.module.Files = map[string][]byte{"main.tf": []byte("v1")}
		options, err := inputs{}.runOptions(s.Context(), namespacedWorkspace{&namespacedv1beta1.Workspace{}}, nil)
		require.NoError(s, err)
		require.NoError(s, p.Apply(s.Context(), options))

		s.create()
		s.reconcile()
		adopted := restV1
		adopted.marks = "external-name finalizer"
		require.Equal(s, adopted, s.row(), "no create, ready at once")
		require.Zero(s, s.reconciler.options.Counters.For(s.uid).Applies)
	})
}

func TestVersion0HasNoGenerations(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.reconciler.options.EmulateV0 = true
		s.toRest() // row requires the absence
	})
}

func TestConnectionSecret(t *testing.T) {
	key := func(s *stage) types.NamespacedName {
		return types.NamespacedName{Namespace: s.namespace, Name: "connection"}
	}
	t.Run("is owned and keeps stale keys", func(t *testing.T) {
		inBothScopes(t, func(s *stage) {
			s.toRest()
			secret := &corev1.Secret{}
			require.NoError(s, testClient.Get(s.Context(), key(s), secret))
			require.Equal(s, secretTypeConnection, secret.Type)
			yes := true
			require.Equal(s, []metav1.OwnerReference{{
				APIVersion: s.reconciler.scope.gvk().GroupVersion().String(), Kind: "Workspace", Name: s.key.Name, UID: s.uid,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}}, secret.OwnerReferences)

			secret.Data["stale"] = []byte("x")
			secret.Data["text"] = []byte("tampered")
			require.NoError(s, testClient.Update(s.Context(), secret))
			s.reconcile()
			require.Equal(s, `list=["a",1] stale=x text=v1 token=hidden`, s.row().secret)
		})
	})
	t.Run("of somebody else is left alone", func(t *testing.T) {
		inBothScopes(t, func(s *stage) {
			require.NoError(s, testClient.Create(s.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "connection"}, StringData: map[string]string{"a": "b"},
			}))
			s.create()
			s.reconcile()
			require.Equal(s, row{
				marks: "external-name", synced: "False/ReconcileError", secret: "a=b",
				message: `cannot create or update connection secret: refusing to modify uncontrolled secret of type "Opaque"`,
			}, s.row())
		})
	})
}

func TestUsageOfTheProviderConfig(t *testing.T) {
	inBothScopes(t, func(s *stage) {
		s.toRest()
		var usage client.Object = &clusterv1beta1.ProviderConfigUsage{}
		if s.key.Namespace != "" {
			usage = &namespacedv1beta1.ProviderConfigUsage{}
		}
		require.NoError(s, testClient.Get(s.Context(), types.NamespacedName{Namespace: s.key.Namespace, Name: string(s.uid)}, usage))
		require.Equal(s, s.namespace, usage.GetLabels()[labelProviderConfig])
		require.Equal(s, s.uid, metav1.GetControllerOf(usage).UID)
	})
}
