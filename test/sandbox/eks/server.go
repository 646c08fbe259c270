// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package eks simulates Amazon EKS: each cluster is a second kube-apiserver on loopback, with its own certificate authority
// and its own keys in the sandbox's etcd. A Terraform module starts and stops it with the sandbox command, so the server is
// detached and identified by the files in its directory.
package eks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// Server is one cluster. Terraform reads the files endpoint, ca.crt and kubeconfig in its directory.
type Server struct {
	// Dir is the sandbox's directory.
	Dir string
	// Name is the name of the cluster.
	Name string
}

// namePattern is EKS's rule for cluster names. It also rejects paths.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// Validate checks the name.
func (s Server) Validate() error {
	if !namePattern.MatchString(s.Name) {
		return fmt.Errorf("%q is not a cluster name: must be 1 to 100 letters, digits, '-' and '_', beginning with a letter or digit", s.Name)
	}
	return nil
}

// Folder is the directory of the server's files.
func (s Server) Folder() string { return filepath.Join(process.EKS(s.Dir), s.Name) }

// Endpoint is the URL of the cluster. It is empty if the cluster does not exist.
func (s Server) Endpoint() string {
	data, err := os.ReadFile(s.file("endpoint"))
	if err != nil {
		return ""
	}
	return string(data)
}

func (s Server) file(name string) string { return filepath.Join(s.Folder(), name) }

// Recorded returns the record of the server, which is the first process. Without a server, it is not alive. The second one is kwok, if the
// cluster has had node groups.
func (s Server) Recorded() (*process.State, error) {
	recorded, err := process.Load(s.Folder())
	if errors.Is(err, fs.ErrNotExist) {
		return &process.State{Processes: []process.Recorded{{Spec: process.Spec{Name: "cluster " + s.Name, Log: s.file("kube-apiserver.log"), Dir: s.Dir}}}}, nil
	}
	return recorded, err
}

// Process returns the ID of the server's process.
func (s Server) Process() (process.ID, error) {
	recorded, err := s.Recorded()
	if err != nil {
		return process.ID{}, err
	}
	return recorded.Processes[0].ID, nil
}

// List returns the clusters of a sandbox.
func List(dir string) ([]Server, error) {
	entries, err := os.ReadDir(process.EKS(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var servers []Server
	for _, entry := range entries {
		if entry.IsDir() {
			servers = append(servers, Server{Dir: dir, Name: entry.Name()})
		}
	}
	return servers, nil
}

// Stop stops the cluster and removes its process and its directory. Its keys stay in etcd: another cluster has others. A missing cluster is not an error, so
// that a destroy can be repeated. A cluster with Fargate profiles or node groups is not stopped.
func (s Server) Stop(ctx context.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if _, err := os.Stat(s.Folder()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(s.requireNoProfiles(), s.requireNoGroups()); err != nil {
		return err
	}
	recorded, err := s.Recorded()
	if err != nil {
		return err
	}
	// Clients before the server.
	for _, p := range slices.Backward(recorded.Processes) {
		if err := p.Stop(stopGrace); err != nil {
			return err
		}
	}
	// The lock file stays: removing it would let a third command lock a new file while a second waits on this one.
	return os.RemoveAll(s.Folder())
}

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
	recorded, err := s.Recorded()
	if err != nil {
		return err
	}
	if recorded.Processes[0].Alive() && recorded.Ready && recorded.Version == wanted {
		return nil
	}
	if recorded.Version != wanted {
		if err := s.requireNodesFor(wanted, recorded.Version); err != nil {
			return err
		}
	}
	if err := recorded.Processes[0].Stop(stopGrace); err != nil {
		return err
	}
	recorded.Version = wanted
	return s.launch(ctx, sandbox, recorded)
}

// launch runs the server, on another port if another process uses the first one.
func (s Server) launch(ctx context.Context, sandbox, recorded *process.State) error {
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, sandbox, recorded)
		// Once an endpoint was published, clients use it, so the port must not change.
		if err == nil || attempt == attempts || !process.PortTaken(err) || recorded.Ready {
			return err
		}
		recorded.Ports = nil
	}
}

// check loads the sandbox and validates the version before anything is changed.
func (s Server) check(ctx context.Context, version string) (sandbox *process.State, wanted string, err error) {
	if err := s.Validate(); err != nil {
		return nil, "", err
	}
	minor, err := minorVersion(version)
	if err != nil {
		return nil, "", err
	}
	sandbox, err = process.Load(s.Dir)
	if err != nil {
		return nil, "", fmt.Errorf("found no sandbox in %s: %w", s.Dir, err)
	}
	return sandbox, minor.String(), supported(ctx, sandbox.Binaries[binaries.KubeAPIServer], minor)
}

// run starts the server and returns when it is ready. The file of the endpoint means that the cluster exists.
func (s Server) run(ctx context.Context, sandbox, recorded *process.State) error {
	if recorded.Ports == nil {
		if err := s.create(recorded); err != nil {
			return err
		}
	}
	config := apiserver.Config{
		Port: recorded.Ports[portName], EtcdEndpoint: sandbox.EtcdEndpoint, EtcdPrefix: recorded.EtcdPrefix, Dir: s.Folder(), EmulatedVersion: recorded.Version,
	}
	server := &recorded.Processes[0]
	server.Path, server.Args = sandbox.Binaries[binaries.KubeAPIServer], config.Args()
	server.Health, server.CA = config.URL()+"/readyz", s.file("ca.crt")
	save := func(*process.Process) error { return recorded.Save(s.Folder()) }
	if _, err := server.Run(ctx, save); err != nil {
		return err
	}
	recorded.Ready = true
	return errors.Join(process.WriteFile(s.file("endpoint"), []byte(config.URL())), save(nil))
}

const portName = "apiserver"

// create chooses what never changes once the cluster exists, because its clients rely on it: the port, certificates, the kubeconfig, and the keys in etcd.
func (s Server) create(recorded *process.State) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	recorded.Ports, recorded.EtcdPrefix = map[string]int{portName: port}, "/eks/"+s.Name+"/"+rand.Text()
	authority, err := pki.NewAuthority("eks-" + s.Name)
	if err != nil {
		return err
	}
	if err := apiserver.WritePKI(s.Folder(), authority); err != nil {
		return err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	kubeconfig, err := pki.Kubeconfig(s.Name, apiserver.Config{Port: port}.URL(), authority.Bundle(), "admin", admin)
	if err != nil {
		return err
	}
	return process.WriteFile(s.file("kubeconfig"), kubeconfig)
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

// Status is the status of a Fargate profile or of a managed node group in EKS.
type Status string

// The simulated statuses. Only node groups are updated, fail and are degraded.
const (
	Creating     Status = "CREATING"
	Active       Status = "ACTIVE"
	Updating     Status = "UPDATING"
	Deleting     Status = "DELETING"
	CreateFailed Status = "CREATE_FAILED"
	Degraded     Status = "DEGRADED"
)

// operation is what the files of Fargate profiles and node groups have in common.
type operation struct {
	Status Status `json:"status,omitempty"`
	// Worker is the process that creates, updates or deletes the object. It is empty when the operation has ended.
	Worker process.ID `json:"worker,omitzero"`
}

// inFlight reports whether an operation runs. An object whose worker was killed keeps its status and does not block others.
func (o operation) inFlight() bool { return o.Worker.Alive() }

// began records this process as the worker.
func began(status Status) (operation, error) {
	worker, err := process.Identify(os.Getpid())
	return operation{Status: status, Worker: worker}, err
}

// exclusively calls a function while no other command changes the cluster, which must exist.
func (s Server) exclusively(ctx context.Context, change func() error) error {
	// Check before locking: the lock creates the directory of the cluster.
	if s.Endpoint() == "" {
		return fmt.Errorf("ResourceNotFoundException: No cluster found for name: %s", s.Name)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}

// pause waits. It returns the cause if the command is interrupted.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(duration):
		return nil
	}
}

// files are the objects of one kind in the directory of a cluster: one file per object.
type files[T any] struct{ dir, suffix string }

func (f files[T]) path(name string) string { return filepath.Join(f.dir, name+f.suffix) }

func (f files[T]) read(name string) (*T, error) {
	data, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object := new(T)
	if err := json.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path(name), err)
	}
	return object, nil
}

func (f files[T]) list() (objects []T, err error) {
	paths, err := filepath.Glob(f.path("*")) // Without temporary files.
	for _, path := range paths {
		object, err := f.read(strings.TrimSuffix(filepath.Base(path), f.suffix))
		switch {
		case err != nil:
			return nil, err
		case object != nil: // Not deleted concurrently.
			objects = append(objects, *object)
		}
	}
	return objects, err
}

func (f files[T]) write(name string, object T) error {
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return process.WriteFile(f.path(name), append(data, '\n'))
}

func (f files[T]) remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
