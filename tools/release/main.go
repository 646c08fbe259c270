// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Release makes the files of a release: manifests for kubectl and clusterctl, a Helm chart, images, captctl, SBOMs and checksums. The same commit
// and the same version of Go give the same files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// release has the options of a release.
type release struct {
	root, out, version, imageName string
	tag                           name.Tag
	platforms                     []platform
	created                       time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", "../..", "Directory of the repository.")
	out := flags.String("out", "../../out/release", "Directory for the files. Existing files are removed.")
	version := flags.String("version", "", "Version of the release, for example v0.4.0. Its series must be in config/clusterctl/metadata.yaml.")
	image := flags.String("image", "capt-manager", "Name of the image, without a tag.")
	list := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "Platforms of captctl. Those of Linux also get an image. With none, only manifests and the chart are written.")
	files := flags.String("root-filesystem", "", "Write only the root file system of the image for the first platform to this directory (used by the Dockerfile).")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := release{root: *root, version: *version, imageName: *image}
	var err, tagErr, timeErr, outErr error
	r.platforms, err = parsePlatforms(*list)
	r.tag, tagErr = name.NewTag(*image+":"+*version, name.WithDefaultRegistry(""))
	r.created, timeErr = creationTime(os.Getenv("SOURCE_DATE_EPOCH"))
	r.out, outErr = filepath.Abs(*out) // go build runs in another directory.
	if err := errors.Join(err, tagErr, timeErr, outErr, checkVersion(*root, *version)); err != nil {
		return err
	}
	if *files != "" {
		if len(r.platforms) == 0 {
			return errors.New("-root-filesystem needs -platforms")
		}
		return r.writeRootFileSystem(ctx, *files)
	}
	return r.write(ctx)
}

// creationTime returns the time of all files: of a commit, or 1970.
func creationTime(seconds string) (time.Time, error) {
	if seconds == "" {
		seconds = "0"
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be a number of seconds: %w", err)
	}
	return time.Unix(unix, 0).UTC(), nil
}

// checkVersion requires a version that clusterctl can use: semantic, and of a series in metadata.yaml.
func checkVersion(root, version string) error {
	parts := regexp.MustCompile(`^v(\d+)\.(\d+)\.\d+(-[0-9A-Za-z.-]+)?$`).FindStringSubmatch(version)
	if parts == nil {
		return fmt.Errorf("-version: %q is not a version like v0.4.0", version)
	}
	metadata, err := fs.ReadFile(os.DirFS(root), "config/clusterctl/metadata.yaml")
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^- major: ` + parts[1] + `\n  minor: ` + parts[2] + `\n`).Match(metadata) {
		return fmt.Errorf("-version: the series %s.%s is not in config/clusterctl/metadata.yaml. Add it", parts[1], parts[2])
	}
	return nil
}

// write makes all files.
func (r *release) write(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil { //nolint:gosec // Releases are public.
		return err
	}
	if err := r.writeManifests(); err != nil {
		return err
	}
	images := map[platform]v1.Image{}
	for _, p := range r.platforms {
		if err := r.writeCaptctl(ctx, p); err != nil {
			return err
		}
		if p.os == "linux" {
			image, err := r.image(ctx, p)
			if err != nil {
				return err
			}
			images[p] = image
		}
	}
	if len(images) > 0 {
		if err := writeImages(r.out, r.tag, r.created, images); err != nil {
			return err
		}
	}
	sums, err := checksums(r.out)
	if err != nil {
		return err
	}
	return writeFile(r.out, "checksums.txt", sums)
}

func (r *release) writeManifests() error {
	files, err := manifests(r.root, installation{defaultNamespace, "", r.imageName, r.version})
	if err != nil {
		return err
	}
	templates, err := newChart(r.root, r.imageName, r.version)
	if err != nil {
		return err
	}
	if files["capt-"+r.version[1:]+".tgz"], err = packageChart(templates, r.created); err != nil {
		return err
	}
	for _, name := range sorted(files) {
		if err := writeFile(r.out, name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeCaptctl(ctx context.Context, p platform) error {
	file := filepath.Join(r.out, "captctl-"+p.suffix())
	if err := build(ctx, r.root, "captctl", r.version, p, file); err != nil {
		return err
	}
	return r.writeSBOM(file, "captctl", p)
}

func (r *release) writeSBOM(file, program string, p platform, beside ...string) error {
	bom, err := billOfMaterials(file, program, r.version, r.created, beside...)
	if err != nil {
		return err
	}
	return writeFile(r.out, program+"-"+p.suffix()+".cdx.json", bom)
}

// image builds the manager and its image, and starts it once if it is for this machine.
func (r *release) image(ctx context.Context, p platform) (image v1.Image, err error) {
	dir, err := os.MkdirTemp("", "capt-manager-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "manager")
	if err := buildManager(ctx, r.root, r.version, p, file); err != nil {
		return nil, err
	}
	if err := r.writeSBOM(file, "capt-manager", p, authorities); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file) //nolint:gosec // It was built above.
	if err != nil {
		return nil, err
	}
	if image, err = newImage(data, r.version, p, r.created); err != nil {
		return nil, err
	}
	if p == (platform{runtime.GOOS, runtime.GOARCH}) {
		_, err = tryImage(ctx, image, "--help")
	}
	return image, err
}

func (r *release) writeRootFileSystem(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // The user of the image reads it.
		return err
	}
	r.out = os.TempDir() // For the SBOM, which is not part of the image.
	image, err := r.image(ctx, r.platforms[0])
	if err != nil {
		return err
	}
	return unpack(image, dir)
}

func writeFile(dir, name string, data []byte) error {
	return os.WriteFile(filepath.Join(dir, name), data, 0o644) //nolint:gosec // Releases are public.
}
