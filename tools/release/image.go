// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	entrypoint = "/manager"
	// user is the one of config/manager/deployment.yaml.
	user = "65532:65532"
)

// base returns the files of an image without the manager: the certificate authorities of the web, for AWS, and the name of the user.
func base() []entry {
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // A file cannot express constraints.
			_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // A buffer accepts everything.
		}
	}
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: []byte("nonroot:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, data: []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities.Bytes()},
	}
}

// newImage returns the image of a manager.
func newImage(manager []byte, version string, p platform, created time.Time) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]entry{base(), {{name: entrypoint[1:], mode: 0o755, data: manager}}} {
		data, err := archive(created, files...)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: created}, CreatedBy: "tools/release"}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = p.os, p.arch, v1.Time{Time: created}
	file.Config = v1.Config{
		User: user, Entrypoint: []string{entrypoint}, WorkingDir: "/", Env: []string{"PATH=/"},
		Labels: map[string]string{"org.opencontainers.image.title": "capt-manager", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, file)
}

// writeImages writes the images of all platforms: one OCI archive with an index, and an archive for docker load for each platform.
func writeImages(dir string, tag name.Tag, created time.Time, images map[platform]v1.Image) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platformsOf(images) {
		image := images[p]
		descriptor, err := partial.Descriptor(image)
		if err != nil {
			return err
		}
		descriptor.Platform = &v1.Platform{OS: p.os, Architecture: p.arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: *descriptor})
		if err := tarball.WriteToFile(filepath.Join(dir, "capt-manager-"+p.suffix()+".tar"), tag, image); err != nil {
			return err
		}
	}
	data, err := ociArchive(index, tag.TagStr(), created)
	if err != nil {
		return err
	}
	return writeFile(dir, "capt-manager-oci.tar", data)
}

// ociArchive returns an OCI layout with one index as an archive.
func ociArchive(index v1.ImageIndex, tag string, created time.Time) (data []byte, err error) {
	temporary, err := os.MkdirTemp("", "capt-release-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	path, err := layout.Write(temporary, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return nil, err
	}
	written, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	if err := validate.Index(written); err != nil {
		return nil, fmt.Errorf("the OCI layout is not valid: %w", err)
	}
	files, err := directory(temporary)
	if err != nil {
		return nil, err
	}
	return archive(created, files...)
}

// unpack writes the root file system of an image to a directory.
func unpack(image v1.Image, dir string) error {
	files := mutate.Extract(image)
	return errors.Join(extract(files, dir), files.Close())
}

// tryImage runs the entrypoint of an image in its own root file system, as its user, and returns the output.
func tryImage(ctx context.Context, image v1.Image, args ...string) (output []byte, err error) {
	dir, err := os.MkdirTemp("", "capt-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(image, dir); err != nil {
		return nil, err
	}
	output, err = inRoot(ctx, dir, entrypoint, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running the entrypoint of the image: %w: %s", err, output)
	}
	return output, nil
}

// platformsOf returns the platforms of images, sorted.
func platformsOf(images map[platform]v1.Image) []platform {
	return slices.SortedFunc(maps.Keys(images), func(a, b platform) int { return strings.Compare(a.String(), b.String()) })
}
