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

package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

const (
	aboutFile   = "backup.json"
	secretsFile = "terraform-state-secrets.json"
	sumsFile    = "SHA256SUMS"
	kind        = "Backup"
)

// About says what a backup is of.
type About struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string      `json:"planID"`
	ClusterUID      types.UID   `json:"clusterUID"`
	Taken           metav1.Time `json:"taken"`
	// Files says how many objects each of them has.
	Files map[string]int `json:"files"`
	// StateUnknown says why the versions of Terraform state are not known: who made the backup may not list Secrets.
	StateUnknown string `json:"stateUnknown,omitempty"`
}

// Write backs up the fleet that a plan is for, into a folder that does not exist yet or is empty. The folder is there when all
// of it is on the disk. If it is a backup for the same plan, it is verified and stays as it is: what was before the first write
// must not be lost. The answer is the SHA-256 of its SHA256SUMS.
func Write(ctx context.Context, reader client.Reader, dir string, plan *migrate.Plan, now time.Time) (string, error) {
	found, err := Read(dir)
	switch {
	case err == nil:
		return reuse(dir, found, plan)
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	partial := filepath.Clean(dir) + ".partial"
	if err := os.RemoveAll(partial); err != nil { // It is of a run that was killed.
		return "", fmt.Errorf("making the backup: %w", err)
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return "", fmt.Errorf("making the backup: %w", err)
	}
	w := writer{reader: reader, dir: partial, about: About{PlanID: plan.ID, ClusterUID: plan.ClusterUID, Taken: metav1.NewTime(now), Files: map[string]int{}}}
	sum, err := w.write(ctx)
	if err != nil {
		return "", errors.Join(fmt.Errorf("making the backup: %w", err), os.RemoveAll(partial))
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // It is empty.
		return "", fmt.Errorf("making the backup: %w", err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("making the backup: %w", err)
	}
	return sum, sync(filepath.Dir(filepath.Clean(dir)))
}

func reuse(dir string, found *About, plan *migrate.Plan) (string, error) {
	if found.PlanID != plan.ID || found.ClusterUID != plan.ClusterUID {
		return "", fmt.Errorf("%s is the backup for plan %s: name another folder", dir, found.PlanID)
	}
	problems, err := Verify(dir)
	if err != nil {
		return "", err
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("the backup in %s is damaged: %s; name another folder", dir, problems[0])
	}
	return fileSum(filepath.Join(dir, sumsFile))
}

// writer writes the files of a backup.
type writer struct {
	reader client.Reader
	dir    string
	about  About
	sums   []string
}

func (w *writer) write(ctx context.Context) (string, error) {
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, ours := range migrate.Kinds() {
		kinds = append(kinds, ours.GroupVersionKind)
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	for _, kind := range kinds {
		if err := w.objects(ctx, kind); err != nil {
			return "", err
		}
	}
	if err := w.secrets(ctx); err != nil {
		return "", err
	}
	w.about.TypeMeta = metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: kind}
	if err := w.file(aboutFile, func(encoder *json.Encoder) (int, error) {
		encoder.SetIndent("", "  ")
		return 1, encoder.Encode(w.about)
	}); err != nil {
		return "", err
	}
	return w.finish()
}

// objects writes all objects of a kind. A kind that is not installed has none.
func (w *writer) objects(ctx context.Context, kind schema.GroupVersionKind) error {
	return w.file(kind.Kind+"."+kind.Group+".json", func(encoder *json.Encoder) (count int, err error) {
		err = migrate.Each(ctx, w.reader, kind, "", func(object *unstructured.Unstructured) error {
			count++
			return encoder.Encode(object.Object)
		})
		if meta.IsNoMatchError(err) {
			return 0, nil
		}
		return count, err
	})
}

// file writes one file and notes its checksum and how many objects it has.
func (w *writer) file(name string, fill func(*json.Encoder) (int, error)) error {
	file, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- The operator names the folder.
	if err != nil {
		return err
	}
	sum := sha256.New()
	buffer := bufio.NewWriter(io.MultiWriter(file, sum))
	count, err := fill(json.NewEncoder(buffer))
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name != aboutFile {
		w.about.Files[name] = count
	}
	w.sums = append(w.sums, hex.EncodeToString(sum.Sum(nil))+"  "+name)
	return nil
}

// finish writes the checksums, in the form of sha256sum.
func (w *writer) finish() (string, error) {
	path := filepath.Join(w.dir, sumsFile)
	var text []byte
	for _, line := range w.sums {
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", err
	}
	if err := errors.Join(sync(path), sync(w.dir)); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// sync waits until a file or a folder is on the disk.
func sync(path string) error {
	file, err := os.Open(path) // #nosec G304 -- The operator names the folder.
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
