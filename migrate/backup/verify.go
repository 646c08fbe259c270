// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/capt-provider/capt/migrate"
)

// Verify compares each entry of an archive with its checksum. It returns the SHA-256 of the archive also if it is damaged.
func Verify(file string) (about *About, sum string, err error) {
	archive, err := os.Open(file) // #nosec G304 -- The user names the file.
	if err != nil {
		return nil, "", err
	}
	defer archive.Close() //nolint:errcheck // It is only read.
	hash := sha256.New()
	bytes := bufio.NewReader(io.TeeReader(archive, hash))
	about, err = entries(bytes)
	if _, rest := io.Copy(io.Discard, bytes); rest != nil {
		return nil, "", rest
	}
	return about, hex.EncodeToString(hash.Sum(nil)), err
}

func entries(from io.Reader) (*About, error) {
	compressed, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	sums, documents := map[string]string{}, map[string][]byte{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
		if header.Name == aboutEntry || header.Name == sumsEntry {
			documents[header.Name] = content
		}
		sum := sha256.Sum256(content)
		sums[header.Name] = hex.EncodeToString(sum[:])
	}
	if _, err := io.Copy(io.Discard, compressed); err != nil { // #nosec G110 -- It is read to the end for its checksum, and not kept.
		return nil, err
	}
	return aboutOf(sums, documents)
}

// aboutOf compares entries with the list of their checksums, and decodes what the archive is of.
func aboutOf(sums map[string]string, documents map[string][]byte) (*About, error) {
	want := map[string]string{sumsEntry: sums[sumsEntry]}
	for line := range strings.Lines(string(documents[sumsEntry])) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		want[name] = sum
	}
	if !maps.Equal(sums, want) {
		return nil, fmt.Errorf("its entries are not those of its %s: it was edited, or is damaged", sumsEntry)
	}
	about := &About{}
	if err := json.Unmarshal(documents[aboutEntry], about); err != nil {
		return nil, fmt.Errorf("%s: %w", aboutEntry, err)
	}
	if about.APIVersion != migrate.APIVersion || about.Kind != kind {
		return nil, fmt.Errorf("%s is %q %q, which this version of captctl does not know", aboutEntry, about.APIVersion, about.Kind)
	}
	return about, nil
}
