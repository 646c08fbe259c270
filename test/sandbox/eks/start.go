// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// stopGrace is how long a server may take to end before it is killed. Open watches would delay it for a minute.
const stopGrace = 3 * time.Second

// attempts limits how often a server is started when another process takes its port.
const attempts = 5

// Start ensures that the cluster runs with the given minor version. If the version differs, it restarts the server on the same
// port with the same certificate authority.
//
// The version is emulated: the server has the APIs and feature gates of that version, and /version reports it in
// emulationMajor and emulationMinor. The version of the binary is in gitVersion, major and minor.
func (s Server) Start(ctx context.Context, version string) error {
	sandbox, wanted, err := s.check(ctx, version)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	id, err := s.Process()
	if err != nil {
		return err
	}
	if id.Alive() && s.Version() == wanted && s.Endpoint() != "" {
		return nil
	}
	if err := id.Stop(stopGrace); err != nil {
		return err
	}
	return s.launch(ctx, sandbox, wanted)
}

// launch runs the server, on another port if another process uses the first one.
func (s Server) launch(ctx context.Context, sandbox *state.State, version string) error {
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, sandbox, version)
		// Once an endpoint was published, clients use it, so the port must not change.
		if err == nil || attempt == attempts || !process.PortTaken(err) || s.Endpoint() != "" {
			return err
		}
		if err := os.Remove(s.file("port")); err != nil {
			return err
		}
	}
}

// check loads the sandbox and validates the version before anything is changed.
func (s Server) check(ctx context.Context, version string) (sandbox *state.State, wanted string, err error) {
	if err := s.Validate(); err != nil {
		return nil, "", err
	}
	minor, err := minorVersion(version)
	if err != nil {
		return nil, "", err
	}
	sandbox, err = state.Load(s.Dir)
	if err != nil {
		return nil, "", fmt.Errorf("found no sandbox in %s: %w", s.Dir, err)
	}
	return sandbox, minor.String(), supported(ctx, sandbox.Binaries[binaries.KubeAPIServer], minor)
}

// run starts the server and returns when it is ready. The endpoint is written last: its file means that the cluster exists.
func (s Server) run(ctx context.Context, sandbox *state.State, version string) error {
	authority, err := pki.LoadOrNewAuthority(s.Folder(), "eks-"+s.Name)
	if err != nil {
		return err
	}
	port, err := s.port()
	if err != nil {
		return err
	}
	config := apiserver.Config{
		Port:            port,
		EtcdEndpoint:    sandbox.EtcdEndpoint,
		EtcdPrefix:      s.etcdPrefix(),
		Dir:             s.Folder(),
		EmulatedVersion: version,
	}
	if err := s.writeFiles(authority, config); err != nil {
		return err
	}
	server, err := process.Start(process.Spec{
		Name: "kube-apiserver of " + s.Name,
		Path: sandbox.Binaries[binaries.KubeAPIServer],
		Args: config.Args(),
		Log:  s.Log(),
	})
	if err != nil {
		return err
	}
	if err := s.record(server.ID()); err != nil {
		server.Kill()
		return err
	}
	if err := process.WaitReady(ctx, apiserver.Client(authority.Bundle()), config.URL()+"/readyz", server); err != nil {
		server.Kill()
		return err
	}
	return errors.Join(
		state.WriteFile(s.file("version"), []byte(version)),
		state.WriteFile(s.file("endpoint"), []byte(config.URL())))
}

// writeFiles writes certificates and kubeconfig once: existing clients must trust a restarted server.
func (s Server) writeFiles(authority *pki.Authority, config apiserver.Config) error {
	if err := state.WriteFile(s.file("port"), []byte(strconv.Itoa(config.Port))); err != nil {
		return err
	}
	if s.Endpoint() != "" {
		return nil
	}
	if err := apiserver.WritePKI(s.Folder(), authority); err != nil {
		return err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	kubeconfig, err := pki.Kubeconfig(s.Name, config.URL(), authority.Bundle(), "admin", admin)
	if err != nil {
		return err
	}
	return state.WriteFile(s.file("kubeconfig"), kubeconfig)
}

// lock serializes commands for one cluster.
func (s Server) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.Folder(), 0o700); err != nil {
		return nil, err
	}
	unlock, err = process.Lock(ctx, s.Folder()+".lock", nil)
	if err != nil {
		return nil, fmt.Errorf("waiting for another command on %s: %w", s.Name, err)
	}
	return unlock, nil
}

// A kube-apiserver can emulate the three minor versions before its own, but none before 1.31, which introduced
// emulation.
const (
	emulatedMinors  = 3
	firstEmulatable = 31
)

// minorVersion returns 1.35 for 1.35, v1.35, 1.35.2 and v1.35.2.
func minorVersion(text string) (*version.Version, error) {
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a Kubernetes version: use one such as 1.35", text)
	}
	return version.MajorMinor(parsed.Major(), parsed.Minor()), nil
}

// supported rejects a version that the binary cannot emulate, before anything is started.
func supported(ctx context.Context, binary string, wanted *version.Version) error {
	output, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return fmt.Errorf("reading the version of %s: %w", binary, err)
	}
	own, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(output)), "Kubernetes "))
	if err != nil {
		return fmt.Errorf("reading the version of %s: %w", binary, err)
	}
	newest := version.MajorMinor(own.Major(), own.Minor())
	oldest := version.MajorMinor(own.Major(), oldestMinor(own.Minor()))
	if wanted.LessThan(oldest) || newest.LessThan(wanted) {
		return fmt.Errorf("kube-apiserver %s of the sandbox can run as Kubernetes %s to %s, but not %s",
			own, oldest, newest, wanted)
	}
	return nil
}

func oldestMinor(own uint) uint {
	if own < firstEmulatable {
		return own
	}
	return max(own-emulatedMinors, firstEmulatable)
}
