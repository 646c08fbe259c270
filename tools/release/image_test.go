// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain makes this program a manager in an image: it prints its user and the files that it can write.
func TestMain(m *testing.M) {
	if os.Getenv("PATH") != "/" {
		os.Exit(m.Run())
	}
	fmt.Println("user", os.Getuid(), os.Getgid())
	if len(os.Args) != 2 || os.Args[1] != "--help" {
		os.Exit(2)
	}
	if os.Getuid() == 65532 && os.WriteFile("/file", nil, 0o600) == nil {
		os.Exit(3)
	}
}

func thisProgram(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

var thisPlatform = platform{runtime.GOOS, runtime.GOARCH}

func TestImageRunsItsEntrypointWithoutRoot(t *testing.T) {
	image, err := newImage(thisProgram(t), "v0.4.0", thisPlatform, time.Unix(0, 0))
	require.NoError(t, err)
	output, err := tryImage(t.Context(), image, "--help")
	require.NoError(t, err)
	if os.Getuid() == 0 {
		assert.Equal(t, "user 65532 65532\n", string(output))
	} else {
		assert.Equal(t, fmt.Sprintln("user", os.Getuid(), os.Getgid()), string(output))
	}
	_, err = tryImage(t.Context(), image, "--wrong")
	require.ErrorContains(t, err, "exit status 2")
}

func TestImageHasOnlyTheManagerAndWhatItNeeds(t *testing.T) {
	image, err := newImage([]byte("program"), "v0.4.0", thisPlatform, time.Unix(0, 0))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, unpack(image, dir))
	modes := map[string]fs.FileMode{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		info, infoErr := entry.Info()
		modes[name] = info.Mode().Perm()
		require.NoError(t, infoErr)
		return err
	}))
	assert.Equal(t, map[string]fs.FileMode{
		".": 0o755, "etc": 0o755, "etc/group": 0o644, "etc/passwd": 0o644, "etc/ssl": 0o755, "etc/ssl/certs": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644, "manager": 0o755,
	}, modes)
	authorities, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM(authorities))
	assert.Greater(t, strings.Count(string(authorities), "BEGIN CERTIFICATE"), 100)
}

// The same files give the same bytes, and those are what the library reads again.
func TestImagesAreReproducible(t *testing.T) {
	created := time.Unix(1_700_000_000, 0).UTC()
	tag, err := name.NewTag("registry.example.org/capt-manager:v0.4.0")
	require.NoError(t, err)
	write := func() (dir string, sums []byte) {
		dir, images := t.TempDir(), map[platform]v1.Image{}
		for _, p := range []platform{{"linux", "amd64"}, {"linux", "arm64"}} {
			images[p], err = newImage([]byte(p.arch), "v0.4.0", p, created)
			require.NoError(t, err)
		}
		require.NoError(t, writeImages(dir, tag, created, images))
		sums, err = checksums(dir)
		require.NoError(t, err)
		return dir, sums
	}
	dir, sums := write()
	_, again := write()
	require.Equal(t, string(sums), string(again))
	require.Regexp(t, `(?s)^[0-9a-f]{64}  capt-manager-linux-amd64.tar\n[0-9a-f]{64}  capt-manager-linux-arm64.tar\n[0-9a-f]{64}  capt-manager-oci.tar\n$`, string(sums))

	loaded, err := tarball.ImageFromPath(filepath.Join(dir, "capt-manager-linux-arm64.tar"), &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(loaded))
	file, err := loaded.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "linux/arm64 "+user, file.OS+"/"+file.Architecture+" "+file.Config.User)
	assert.Equal(t, []string{entrypoint}, file.Config.Entrypoint)
	assert.Equal(t, created, file.Created.Time)

	files := t.TempDir()
	data, err := os.ReadFile(filepath.Join(dir, "capt-manager-oci.tar"))
	require.NoError(t, err)
	require.NoError(t, extract(bytes.NewReader(data), files))
	path, err := layout.FromPath(files)
	require.NoError(t, err)
	index, err := path.ImageIndex()
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1, "tools like skopeo copy the only image of an archive")
	inner, err := index.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err = inner.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	assert.Equal(t, "arm64", manifest.Manifests[1].Platform.Architecture)
}

func TestDockerfileMakesTheSameImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	stages := regexp.MustCompile(`(?m)^FROM `).Split(string(text), -1)
	assert.Equal(t, []string{
		"scratch", "COPY --from=build /root-filesystem/ /", "WORKDIR /", "ENV PATH=/", "USER " + user, `ENTRYPOINT ["` + entrypoint + `"]`,
	}, strings.Split(strings.TrimSpace(stages[len(stages)-1]), "\n"))
	assert.Contains(t, stages[1], "-root-filesystem=/root-filesystem", "what writes these files also makes the images of a release")
}

func TestBillOfMaterialsListsTheModulesOfAProgram(t *testing.T) {
	path, err := os.Executable()
	require.NoError(t, err)
	data, err := billOfMaterials(path, "program", "v0.4.0", time.Unix(0, 0))
	require.NoError(t, err)
	bom := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &bom))
	assert.Equal(t, "CycloneDX", bom["bomFormat"])
	assert.Equal(t, "1970-01-01T00:00:00Z", field(bom, "metadata", "timestamp"))
	found := map[any]any{}
	for _, c := range bom["components"].([]any) {
		found[field(c, "name")] = field(c, "purl")
	}
	assert.Equal(t, "pkg:golang/std@"+strings.TrimPrefix(runtime.Version(), "go"), found["std"])
	assert.Regexp(t, `^pkg:golang/github.com/google/go-containerregistry@v`, found["github.com/google/go-containerregistry"])
	assert.NotContains(t, bom, "serialNumber", "it would differ from run to run")
}

func TestBillOfMaterialsOfAnImageListsTheCertificateAuthorities(t *testing.T) {
	program, err := exec.LookPath("go") // It has no certificate authorities itself.
	require.NoError(t, err)
	data, err := billOfMaterials(program, "program", "v0.4.0", time.Unix(0, 0), authorities)
	require.NoError(t, err)
	assert.Regexp(t, `"purl": "pkg:golang/`+authorities+`@v`, string(data))
}
