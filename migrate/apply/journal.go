// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
)

const (
	journalKind = "Journal"
	planLabel   = "capt.cluster.x-k8s.io/migration-plan"
	partLabel   = "capt.cluster.x-k8s.io/migration-part"
	stateKey    = "state.json.gz"
	partKey     = "plan.json.gz"
	partSize    = 512 << 10 // Keeps a ConfigMap, in base64, below the limit of 1 MiB.
	maxMessage  = 256       // In bytes. Keeps the state of a large fleet below that limit, too. The result of a run has the whole message.
)

// Phase is how far a unit has come.
type Phase string

// Phases of units.
const (
	PhaseApplying    Phase = "Applying"    // A run writes the unit, or was interrupted while it did.
	PhaseApplied     Phase = "Applied"     // Everything is written, and the manager has reported it.
	PhaseRollingBack Phase = "RollingBack" // A run reverts the unit, or was interrupted while it did.
	PhaseRolledBack  Phase = "RolledBack"  // Everything that could be reverted is.
)

// UnitRecord is the recorded progress of a unit. What is written is read from the objects.
type UnitRecord struct {
	Phase   Phase  `json:"phase"`
	Message string `json:"message,omitempty"` // Message says why the last run did not complete the unit, or what the user should know.
	// Begun is when the plan was first applied to the unit, or first after a rollback. It orders the plans that wrote a unit.
	Begun    metav1.MicroTime `json:"begun"`
	Found    []string         `json:"found,omitempty"`    // Found are fields that had the planned value before the first write. A rollback leaves them.
	Proof    string           `json:"proof,omitempty"`    // Proof is the request for a proof that was written with the adoption. It stays after a rollback because there was none.
	Endpoint bool             `json:"endpoint,omitempty"` // Endpoint is true once spec.controlPlaneEndpoint of the Cluster was to be written, too.
}

// active reports whether a run has begun to write the unit, and it was not rolled back since.
func (u UnitRecord) active() bool { return u.Phase != "" && u.Phase != PhaseRolledBack }

// Backup is where the backup is that was written before the first write.
type Backup struct {
	Host     string `json:"host"`
	File     string `json:"file"`
	Checksum string `json:"checksum"` // Checksum is the SHA-256 of the file, in hexadecimal.
}

// Journal records the progress of a plan, in a ConfigMap of the management cluster.
type Journal struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string                `json:"planID"`
	Checksum        string                `json:"checksum"`
	ClusterUID      types.UID             `json:"clusterUID"`
	Decisions       *migrate.Decisions    `json:"decisions,omitempty"` // Decisions are those that the plan was made with.
	Parts           int                   `json:"parts"`               // Parts is the number of ConfigMaps that hold the plan.
	Run             string                `json:"run"`                 // Run is the host and process that wrote the journal last.
	Started         metav1.Time           `json:"started"`
	Updated         metav1.Time           `json:"updated"`
	Backup          *Backup               `json:"backup,omitempty"`
	Units           map[string]UnitRecord `json:"units"`

	version string // version is the resourceVersion of the ConfigMap.
}

// Encode returns the content of the ConfigMap.
func (s *Journal) Encode() (map[string][]byte, error) {
	s.APIVersion, s.Kind = migrate.APIVersion, journalKind
	data, err := compress(func(to io.Writer) error { return json.NewEncoder(to).Encode(s) })
	return map[string][]byte{stateKey: data}, err
}

func stateName(planID string) string       { return lock.JournalPrefix + planID }
func partName(planID string, i int) string { return fmt.Sprintf("%s-plan-%d", stateName(planID), i) }

// Journals returns the journals of all plans, the latest last.
func Journals(ctx context.Context, reader client.Reader, namespace string) ([]Journal, error) {
	list := &corev1.ConfigMapList{}
	if err := migrate.RetryingReader(reader).List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{partLabel: "state"}); err != nil {
		return nil, fmt.Errorf("listing journals in namespace %s: %w", namespace, err)
	}
	states := make([]Journal, len(list.Items))
	for i := range list.Items {
		if err := decode(&list.Items[i], &states[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(states, func(a, b Journal) int {
		return cmp.Or(a.Started.Compare(b.Started.Time), cmp.Compare(a.PlanID, b.PlanID))
	})
	return states, nil
}

// Recorded returns the journal of a plan; nil if the plan was never applied in this cluster.
func Recorded(ctx context.Context, reader client.Reader, namespace, planID string) (*Journal, error) {
	states, err := Journals(ctx, reader, namespace)
	i := slices.IndexFunc(states, func(state Journal) bool { return state.PlanID == planID })
	if err != nil || i < 0 {
		return nil, err
	}
	return &states[i], nil
}

func decode(configMap *corev1.ConfigMap, state *Journal) error {
	state.version = configMap.ResourceVersion
	decompressed, err := gzip.NewReader(bytes.NewReader(configMap.BinaryData[stateKey]))
	if err == nil {
		err = json.NewDecoder(decompressed).Decode(state)
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
	}
	if state.APIVersion != migrate.APIVersion || state.Kind != journalKind {
		return fmt.Errorf("ConfigMap %s/%s has no journal that this version of captctl can read (%s %s)", configMap.Namespace, configMap.Name, state.APIVersion, state.Kind)
	}
	return nil
}

// LoadPlan reads a plan that was applied in this cluster.
func LoadPlan(ctx context.Context, reader client.Reader, namespace, planID string) (p *plan.Plan, err error) {
	state, err := Recorded(ctx, reader, namespace, planID)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, fmt.Errorf("plan %s was never applied in this cluster: ConfigMap %s/%s does not exist. Use the plan file", planID, namespace, stateName(planID))
	}
	var compressed bytes.Buffer
	for i := range state.Parts {
		configMap := &corev1.ConfigMap{}
		if err := migrate.RetryingReader(reader).Get(ctx, client.ObjectKey{Namespace: namespace, Name: partName(planID, i)}, configMap); err != nil {
			return nil, fmt.Errorf("reading plan %s from the cluster: %w", planID, err)
		}
		compressed.Write(configMap.BinaryData[partKey])
	}
	decompressed, err := gzip.NewReader(&compressed)
	if err == nil {
		p, err = plan.Read(decompressed)
	}
	if err == nil && p.Checksum != state.Checksum {
		err = fmt.Errorf("its checksum is %s, and the journal says %s", p.Checksum, state.Checksum)
	}
	if err != nil {
		return nil, fmt.Errorf("reading plan %s from the cluster: %w", planID, err)
	}
	return p, nil
}

func compress(write func(io.Writer) error) ([]byte, error) {
	var compressed bytes.Buffer
	compressor := gzip.NewWriter(&compressed)
	err := errors.Join(write(compressor), compressor.Close())
	return compressed.Bytes(), err
}

// journalWriter writes the journal of one plan. Only the holder of the Lease writes it.
type journalWriter struct {
	reader    client.Reader
	writes    *lock.Writer
	namespace string
	clock     clock.PassiveClock
	mutex     sync.Mutex
	state     Journal
}

// storePlan writes the plan. The state comes after it: once the state exists, the plan does.
func (j *journalWriter) storePlan(ctx context.Context, p *plan.Plan) error {
	compressed, err := compress(p.Write)
	if err != nil {
		return fmt.Errorf("compressing the plan: %w", err)
	}
	parts := 0
	for part := range slices.Chunk(compressed, partSize) {
		configMap := j.configMap(partName(p.ID, parts), "plan")
		configMap.BinaryData = map[string][]byte{partKey: part}
		if err := j.replace(ctx, configMap); err != nil {
			return err
		}
		parts++
	}
	j.state.Parts = parts
	return nil
}

// unit returns what is recorded about a unit; the phase is empty if no run of the plan has started it.
func (j *journalWriter) unit(name string) UnitRecord {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.state.Units[name]
}

func (j *journalWriter) set(ctx context.Context, name string, wanted UnitRecord) error {
	if len(wanted.Message) > maxMessage {
		wanted.Message = strings.ToValidUTF8(wanted.Message[:maxMessage], "") + "…"
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	known := j.state.Units[name]
	wanted.Begun = known.Begun
	if wanted.Phase == PhaseApplying && !known.active() {
		wanted.Begun = metav1.NewMicroTime(j.clock.Now())
	}
	if reflect.DeepEqual(known, wanted) {
		return nil
	}
	if j.state.Units == nil {
		j.state.Units = map[string]UnitRecord{}
	}
	j.state.Units[name] = wanted
	return j.write(ctx)
}

// setPhase records how far a unit has come. One that was never started has no phase, and gets none.
func (j *journalWriter) setPhase(ctx context.Context, name string, phase Phase, message string) error {
	unit := j.unit(name)
	if unit.Phase == "" {
		return nil
	}
	if phase != unit.Phase && phase != PhaseRollingBack {
		unit.Proof = "" // The request has ended.
	}
	unit.Phase, unit.Message = phase, message
	return j.set(ctx, name, unit)
}

func (j *journalWriter) save(ctx context.Context) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.write(ctx)
}

func (j *journalWriter) write(ctx context.Context) error {
	j.state.Updated = metav1.NewTime(j.clock.Now())
	data, err := j.state.Encode()
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	configMap := j.configMap(stateName(j.state.PlanID), "state")
	configMap.BinaryData, configMap.ResourceVersion = data, j.state.version
	err = j.replace(ctx, configMap)
	j.state.version = configMap.ResourceVersion
	return err
}

func (j *journalWriter) configMap(name, part string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.namespace, Name: name, Labels: map[string]string{planLabel: j.state.PlanID, partLabel: part},
		},
	}
}

// replace creates or replaces a ConfigMap, unless another run has written it meanwhile: this one may have lost the Lease.
func (j *journalWriter) replace(ctx context.Context, wanted *corev1.ConfigMap) error {
	err := migrate.Retry(ctx, func(ctx context.Context) error {
		sent, send := wanted.DeepCopy(), j.writes.Update
		if wanted.ResourceVersion == "" {
			send = j.writes.Create
		}
		err := send(ctx, sent)
		switch {
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			return cmp.Or(j.refresh(ctx, wanted), migrate.Again(err))
		case apierrors.IsNotFound(err) && wanted.ResourceVersion != "": // It was deleted by another client.
			wanted.ResourceVersion = ""
			return migrate.Again(err)
		case err == nil:
			wanted.ResourceVersion = sent.ResourceVersion
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return nil
}

// refresh reads the resourceVersion of a ConfigMap after a conflict: this run may have written it, and the response was lost. It fails if another
// run has written the state. The parts of a plan are the same in every run.
func (j *journalWriter) refresh(ctx context.Context, wanted *corev1.ConfigMap) error {
	live, state := &corev1.ConfigMap{}, Journal{}
	if err := j.reader.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return err
	}
	if wanted.Labels[partLabel] == "state" {
		if err := decode(live, &state); err != nil {
			return err
		}
		if state.Run != j.state.Run {
			return lock.Lost(fmt.Errorf("another run (%s) has written the journal", state.Run))
		}
	}
	wanted.ResourceVersion = live.ResourceVersion
	return nil
}
