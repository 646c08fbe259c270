// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/capt-provider/capt/test/sandbox/process"
)

const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// image is an unpacked image, and how to run it.
type image struct {
	root            string
	Env, Entrypoint []string
}

// unpackImage unpacks the image that docker load would load.
func unpackImage(t *testing.T) *image {
	t.Helper()
	dir := t.TempDir()
	i := &image{root: filepath.Join(dir, "root")}
	untar := func(file, to string) {
		require.NoError(t, os.MkdirAll(to, 0o755))
		_, err := output(t.Context(), "tar", "-xf", file, "-C", to)
		require.NoError(t, err)
	}
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, into))
	}
	untar(filepath.Join(prepared, "release", "capt-manager-linux-"+runtime.GOARCH+".tar"), dir)
	var manifests []struct {
		Config string
		Layers []string
	}
	read("manifest.json", &manifests)
	read(manifests[0].Config, &struct{ Config *image }{i})
	for _, layer := range manifests[0].Layers {
		untar(filepath.Join(dir, layer), i.root)
	}
	// A container runtime creates mount points.
	for _, path := range []string{accountPath, "/tmp/k8s-webhook-server/serving-certs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(i.root, path), 0o755))
	}
	return i
}

// inContainer runs a command where the root file system $1 is read-only, like its volumes: the directory $2 at $3, and $4 with the credentials of a
// ServiceAccount.
const inContainer = `
echo $$ > "$1.pid"
mount -o bind,ro "$1" "$1"
mount -o bind,ro "$2" "$1$3"
mount -o bind,ro "$4" "$1` + accountPath + `"
shift 4
exec env -i "$@"`

// container runs the image as a container runtime would: as the user of a Deployment, without rights, with its arguments, and thus on its ports.
func (i *image) container(d *appsv1.Deployment, from volumes, server string) (container, error) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return container{}, err
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		return container{}, err
	}
	pod := d.Spec.Template.Spec
	installed := pod.Containers[0]
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	args := []string{"--mount", "bash", "-euc", inContainer, "bash", i.root, from.certificate, installed.VolumeMounts[0].MountPath, from.account}
	args = slices.Concat(args, i.Env, env(d, installed.Env), []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port,
		setpriv, "--no-new-privs", "--bounding-set=-all,+sys_chroot,+setuid,+setgid",
		chroot, fmt.Sprintf("--userspec=%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup), "--groups=", i.root,
	}, i.Entrypoint, installed.Args)
	return container{process.Spec{Path: "unshare", Args: args}, 9443, 9440}, nil
}

// requireConfined requires that the running container has no rights and that it cannot write any directory.
func (i *image) requireConfined(t *testing.T) {
	t.Helper()
	pid, err := os.ReadFile(i.root + ".pid")
	require.NoError(t, err)
	process := filepath.Join("/proc", strings.TrimSpace(string(pid)))
	status, err := os.ReadFile(filepath.Join(process, "status"))
	require.NoError(t, err)
	for _, line := range []string{"Name:\tmanager", "Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "Groups:\t ", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		require.Contains(t, "\n"+string(status), "\n"+line+"\n")
	}
	// This path leads to what the process sees. For root, too, only the read-only file system prevents writing.
	root, directories := filepath.Join(process, "root"), 0
	require.NoError(t, filepath.WalkDir(root+"/", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			directories++
			require.ErrorIs(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600), syscall.EROFS, path)
		}
		return err
	}))
	require.Greater(t, directories, 5)
}

// The image of the release runs with the arguments of the shipped Deployment and with the restrictions of its Pods.
func TestTheImageRunsInAPod(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Fatal("This test does what a container runtime does, and needs its rights. Run it on Linux as root: sudo -E go test -run TestTheImageRunsInAPod ./test/installers")
	}
	image := unpackImage(t)
	env := newEnvironmentWith(t, image)
	env.initClusterAPI()
	env.runDocumented("kubectl apply --server-side -f out/release/install.yaml")
	env.requireLife(byDefault)
	image.requireConfined(t)
}
