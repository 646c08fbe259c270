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

package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

const (
	// PlanLabel on a ConfigMap is the ID of the plan.
	PlanLabel = "capt.cluster.x-k8s.io/migration-plan"
	// PartLabel says what of it the ConfigMap holds.
	PartLabel = "capt.cluster.x-k8s.io/migration-part"
	statePart = "state"
	planPart  = "plan"

	stateKey = "state.json"
	kind     = "Journal"
)

// Store is the journal in the cluster.
type Store struct {
	Client client.Client
	// Reader reads from the API server itself.
	Reader    client.Reader
	Namespace string
}

func stateName(planID string) string { return "capt-migrate-" + planID }

// State of a plan; nil when it was never begun in this cluster.
func (s Store) State(ctx context.Context, planID string) (*State, error) {
	configMap, err := s.configMap(ctx, stateName(planID))
	if err != nil || configMap == nil {
		return nil, err
	}
	return decode(configMap)
}

// List the states of all plans, the latest last.
func (s Store) List(ctx context.Context) ([]State, error) {
	list := &corev1.ConfigMapList{}
	err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{PartLabel: statePart})
	if err != nil {
		return nil, fmt.Errorf("listing ConfigMaps of namespace %s: %w", s.Namespace, err)
	}
	states := make([]State, 0, len(list.Items))
	for i := range list.Items {
		state, err := decode(&list.Items[i])
		if err != nil {
			return nil, err
		}
		states = append(states, *state)
	}
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(a.Started.Compare(b.Started.Time), cmp.Compare(a.PlanID, b.PlanID))
	})
	return states, nil
}

func decode(configMap *corev1.ConfigMap) (*State, error) {
	state := &State{}
	if err := json.Unmarshal([]byte(configMap.Data[stateKey]), state); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
	}
	if state.APIVersion != migrate.APIVersion || state.Kind != kind {
		return nil, fmt.Errorf("ConfigMap %s/%s holds a %s of %s, not a %s of %s", configMap.Namespace, configMap.Name, state.Kind, state.APIVersion, kind, migrate.APIVersion)
	}
	return state, nil
}

// Begin writes the plan down, and then its state: a state tells that the plan is there. Both are there before the first
// write of an object.
func (s Store) Begin(ctx context.Context, plan *migrate.Plan, state *State) error {
	parts, err := split(plan)
	if err != nil {
		return err
	}
	for i, part := range parts {
		configMap := s.empty(partName(plan.ID, i), plan.ID, planPart)
		configMap.BinaryData = map[string][]byte{partKey: part}
		if err := s.put(ctx, configMap); err != nil {
			return err
		}
	}
	state.Parts = len(parts)
	return s.Save(ctx, state)
}

// Save writes the state.
func (s Store) Save(ctx context.Context, state *State) error {
	state.APIVersion, state.Kind = migrate.APIVersion, kind
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	configMap := s.empty(stateName(state.PlanID), state.PlanID, statePart)
	configMap.Data = map[string]string{stateKey: string(data)}
	return s.put(ctx, configMap)
}

func (s Store) empty(name, planID, part string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: name, Labels: map[string]string{PlanLabel: planID, PartLabel: part},
	}}
}

// put makes a ConfigMap what it should be. Nobody else writes it, but an earlier run may have.
func (s Store) put(ctx context.Context, wanted *corev1.ConfigMap) error {
	err := retry.Do(ctx, func(ctx context.Context) error {
		found, err := s.configMap(ctx, wanted.Name)
		switch {
		case err != nil:
			return err
		case found == nil:
			err = s.Client.Create(ctx, wanted.DeepCopy(), client.FieldOwner(migrate.FieldManager))
		case !same(found, wanted):
			found.Data, found.BinaryData, found.Labels = wanted.Data, wanted.BinaryData, wanted.Labels
			err = s.Client.Update(ctx, found, client.FieldOwner(migrate.FieldManager))
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return retry.Again(err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return nil
}

func same(found, wanted *corev1.ConfigMap) bool {
	return found.Data[stateKey] == wanted.Data[stateKey] && bytes.Equal(found.BinaryData[partKey], wanted.BinaryData[partKey])
}

// configMap of a name; nil when there is none.
func (s Store) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, configMap)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, name, err)
	}
	return configMap, nil
}
