// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // For the README.
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
)

// Entries of an archive, and the directory of objects without a namespace.
const (
	backupKind       = "Backup"
	contentsEntry    = "backup.json"
	planEntry        = "plan.json"
	readmeEntry      = "README.md"
	objectsDirectory = "objects"
	clusterScope     = "_cluster"
)

// readme has placeholders for the plan and the management cluster.
//
//go:embed archive-readme.md
var readme string

// BackupContents describes what a backup contains.
type BackupContents struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string         `json:"planID"`
	PlanChecksum    string         `json:"planChecksum"`
	ClusterUID      types.UID      `json:"clusterUID"`
	Taken           metav1.Time    `json:"taken"`
	Objects         map[string]int `json:"objects"` // Objects counts the objects of each kind.
}

// DefaultBackupFile is the name of the archive of a plan.
func DefaultBackupFile(planID string) string { return "capt-migrate-" + planID + ".tar.gz" }

// BackupWriter returns what Options.Backup needs. It never replaces a file.
func BackupWriter(reader client.Reader, file string, p *plan.Plan, now clock.PassiveClock) func(context.Context, *Backup) (*Backup, error) {
	return func(ctx context.Context, previous *Backup) (*Backup, error) {
		file, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("writing the backup: %w", err)
		}
		var sum string
		if _, missing := os.Stat(file); errors.Is(missing, fs.ErrNotExist) && previous == nil {
			sum, err = writeArchive(ctx, reader, file, p, now.Now())
		} else if !errors.Is(missing, fs.ErrNotExist) {
			sum, err = verifyExisting(file, p, previous)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the backup %s: %w", file, err)
		}
		if previous != nil { // A file that is missing is on the host that began the migration, or was moved to a safe place.
			return previous, nil
		}
		return &Backup{Host: lock.Host(), File: file, Checksum: sum}, nil
	}
}

// verifyExisting verifies that a file is the backup of a plan. No second backup is written: it would not show what was before the first write.
func verifyExisting(file string, p *plan.Plan, previous *Backup) (sum string, err error) {
	contents, sum, err := VerifyBackup(file)
	switch {
	case previous != nil && sum == previous.Checksum:
		return sum, nil
	case previous != nil:
		return "", fmt.Errorf("the file is not the backup of plan %s (its SHA-256 is %s; that of the backup, %s on host %s, is %s). Restore the backup, or move this file away",
			p.ID, sum, previous.File, previous.Host, previous.Checksum)
	case err != nil:
		return "", fmt.Errorf("the file exists and is not a backup: %w. Move it away, or name another file with --backup", err)
	case contents.PlanChecksum != p.Checksum || contents.ClusterUID != p.ClusterUID:
		return "", fmt.Errorf("the file is the backup of plan %s. Move it away, or name another file with --backup", contents.PlanID)
	}
	return sum, nil
}

// writeArchive writes an archive under a temporary name, reads it back and renames it. What a run that was killed left is replaced.
func writeArchive(ctx context.Context, reader client.Reader, file string, p *plan.Plan, now time.Time) (sum string, err error) {
	partial := file + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	archive, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- The user names the file.
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	compressed := gzip.NewWriter(archive)
	w := &archiveWriter{reader: migrate.RetryingReader(reader), archive: tar.NewWriter(compressed), contents: BackupContents{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: backupKind}, PlanID: p.ID, PlanChecksum: p.Checksum, ClusterUID: p.ClusterUID,
		Taken: metav1.NewTime(now), Objects: map[string]int{},
	}}
	if err := errors.Join(w.writeAll(ctx, p), w.archive.Close(), compressed.Close(), archive.Sync(), archive.Close()); err != nil {
		return "", err
	}
	if _, sum, err = VerifyBackup(partial); err != nil {
		return "", fmt.Errorf("reading it back: %w", err)
	}
	if err := os.Rename(partial, file); err != nil {
		return "", err
	}
	directory, err := os.Open(filepath.Dir(file)) // #nosec G304 -- The user names the file.
	if err != nil {
		return "", err
	}
	return sum, errors.Join(directory.Sync(), directory.Close())
}

// archiveWriter writes one object after the other, each as an entry of its own, so that memory does not grow with the fleet.
type archiveWriter struct {
	reader   client.Reader
	archive  *tar.Writer
	contents BackupContents
}

func (w *archiveWriter) writeAll(ctx context.Context, p *plan.Plan) error {
	var document bytes.Buffer
	if err := p.Write(&document); err != nil {
		return err
	}
	if err := w.writeEntry(planEntry, document.Bytes()); err != nil {
		return err
	}
	for _, kind := range migrate.ReadOrWritten() {
		if err := migrate.EachServed(ctx, w.reader, kind, "", w.writeObject); err != nil && !meta.IsNoMatchError(err) { // A kind that is not installed has none.
			return err
		}
	}
	text := strings.NewReplacer("PLAN_ID", p.ID, "CLUSTER_UID", string(p.ClusterUID)).Replace(readme)
	return errors.Join(w.writeJSON(contentsEntry, w.contents), w.writeEntry(readmeEntry, []byte(text)))
}

// writeObject writes an object as it is, but for what kubectl would reject when it restores it.
func (w *archiveWriter) writeObject(object *unstructured.Unstructured) error {
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	kind, namespace := object.GroupVersionKind().GroupKind().String(), object.GetNamespace()
	if namespace == "" {
		namespace = clusterScope
	}
	w.contents.Objects[kind]++
	return w.writeJSON(path.Join(objectsDirectory, kind, namespace, object.GetName()+".json"), object.Object)
}

func (w *archiveWriter) writeJSON(name string, content any) error {
	data, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return w.writeEntry(name, append(data, '\n'))
}

func (w *archiveWriter) writeEntry(name string, content []byte) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content)), ModTime: w.contents.Taken.Time}
	err := w.archive.WriteHeader(header)
	if err == nil {
		_, err = w.archive.Write(content)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// VerifyBackup reads an archive to its end, so that gzip compares its checksum. It returns the SHA-256 of the file also if the archive is damaged.
func VerifyBackup(file string) (contents *BackupContents, sum string, err error) {
	data, err := os.ReadFile(file) // #nosec G304 -- The user names the file.
	if err != nil {
		return nil, "", err
	}
	digest := sha256.Sum256(data)
	contents, err = readContents(bytes.NewReader(data))
	return contents, hex.EncodeToString(digest[:]), err
}

func readContents(from io.Reader) (*BackupContents, error) {
	compressed, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	contents, archive := &BackupContents{}, tar.NewReader(compressed)
	for header, err := archive.Next(); !errors.Is(err, io.EOF); header, err = archive.Next() {
		if err == nil && header.Name == contentsEntry {
			err = json.NewDecoder(archive).Decode(contents)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := io.Copy(io.Discard, compressed); err != nil { // #nosec G110 -- It is read to the end for its checksum, and not kept.
		return nil, err
	}
	if contents.APIVersion != migrate.APIVersion || contents.Kind != backupKind {
		return nil, fmt.Errorf("its %s has apiVersion %q and kind %q, which this version of captctl does not know", contentsEntry, contents.APIVersion, contents.Kind)
	}
	return contents, nil
}
