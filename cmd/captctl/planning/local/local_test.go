// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// asProcess is set if the test binary is captctl, for tests that send signals.
const asProcess = "CAPT_TEST_LOCAL_PLAN"

func TestMain(m *testing.M) {
	if file := os.Getenv(asProcess); file != "" {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		text, err := os.ReadFile(file)
		w := &world{spec: string(text)}
		if err == nil {
			_, err = w.run(ctx, os.Stdout, os.Stderr, Options{program: os.Getenv("CAPT_TEST_TOFU")})
		}
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, context.Canceled) {
			os.Exit(1)
		}
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// world is a management cluster with one Workspace, whose spec and ProviderConfig are YAML.
type world struct {
	spec, config string
	objects      []client.Object
	forbidden    string // name of the Secret that must not be read.
	recreated    bool
	scope        terraform.Scope
	configKind   string // configKind of the ProviderConfig; one of the kind ProviderConfig of the scope Namespaced is in team-a.
	access       func(*cli.Access)
}

func (w *world) run(ctx context.Context, out, errOut io.Writer, o Options) (changed int, err error) {
	object := func(kind, name, text string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			panic(err)
		}
		object.SetGroupVersionKind(w.scope.GroupVersionKind().GroupVersion().WithKind(kind))
		object.SetName(name)
		return object
	}
	workspace := object("Workspace", "demo-vpc", w.spec)
	config := object(cmp.Or(w.configKind, "ClusterProviderConfig"), "default", w.config)
	if w.scope.OrDefault() == terraform.ScopeNamespaced {
		workspace.SetNamespace("team-a")
		if w.configKind == "ProviderConfig" {
			config.SetNamespace("team-a")
		}
	}
	workspace.SetUID("uid")
	workspace.SetAnnotations(map[string]string{render.ExternalNameAnnotation: "team-a-demo-vpc"})
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo-vpc"}}
	apply.Status.WorkspaceRef = render.ReferenceTo(workspace)
	if w.recreated {
		workspace.SetUID("another")
	}
	reader := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(workspace, config).WithObjects(w.objects...).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if key.Name == w.forbidden {
				return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("no"))
			}
			return c.Get(ctx, key, into, options...)
		}}).Build()
	streams := genericiooptions.IOStreams{Out: out, ErrOut: errOut}
	environment := &cli.Environment{IOStreams: streams, Access: cli.NewAccess(errOut)}
	if w.access != nil {
		w.access(environment.Access)
	}
	objects := &overview.Objects{Cluster: &clusterv1.Cluster{}, CAPTCluster: &infrav1.CAPTCluster{}, Applies: []*infrav1.WorkspaceTemplateApply{apply}}
	objects.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name = apply.Name
	return o.Run(ctx, environment, reader, objects)
}

// plan plans in a directory for temporary files of its own, of which nothing may be left.
func (w *world) plan(t *testing.T, o Options) (out, errOut string, changed int, err error) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var stdout, stderr strings.Builder
	changed, err = w.run(t.Context(), &stdout, &stderr, o)
	left, listed := os.ReadDir(temporary)
	require.NoError(t, listed)
	assert.Empty(t, left)
	return stdout.String(), stderr.String(), changed, err
}

func tofuBinary(t *testing.T) string {
	t.Helper()
	path, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	return path
}

// backendIn is a backend in a directory.
func backendIn(directory string) string {
	return fmt.Sprintf("terraform {\n  backend \"local\" {\n    workspace_dir = %q\n  }\n}\n", directory)
}

// indented is a text as a block of YAML.
func indented(text string) string {
	return "|\n" + strings.ReplaceAll("\n"+strings.TrimSuffix(text, "\n"), "\n", "\n      ")[1:] + "\n"
}

const resources = `variable "name" { type = string }
variable "zones" { type = list(string) }
variable "password" {
  type      = string
  sensitive = true
}
variable "env" { default = "" }
resource "terraform_data" "vpc" {
  input = { name = var.name, zones = var.zones, env = var.env }
}
output "password" {
  value     = var.password
  sensitive = true
}
`

// applied applies the module, as provider-terraform would.
func applied(t *testing.T, module string, vars ...executor.Var) {
	t.Helper()
	e, err := tofu.New(tofu.Options{Binary: tofuBinary(t), WorkDir: t.TempDir()}).Open(t.Context(), executor.Module{UID: "uid", Files: map[string][]byte{"main.tf": []byte(module)}})
	require.NoError(t, err)
	require.NoError(t, e.Init(t.Context(), nil))
	require.NoError(t, e.SelectWorkspace(t.Context(), "team-a-demo-vpc"))
	require.NoError(t, e.Apply(t.Context(), executor.RunOptions{Vars: vars}))
}

func TestAPlanShowsValuesAndChangesNothing(t *testing.T) {
	state := t.TempDir()
	module := backendIn(state) + resources
	applied(t, module, executor.Var{Key: "name", Value: "demo"}, executor.Var{Key: "zones", Value: `["a"]`}, executor.Var{Key: "password", Value: "hidden-canary"})
	file := filepath.Join(state, "team-a-demo-vpc", "terraform.tfstate")
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	elsewhere := filepath.Join(t.TempDir(), "plan")
	w := &world{objects: []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "zones"}, Data: map[string]string{"file": `{"zones": ["a"], "name": "of the file"}`}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "inputs"}, Data: map[string][]byte{"file": []byte("password = \"hidden-canary\"\n"), "env": []byte("x")}},
	}, spec: `spec:
  forProvider:
    source: Inline
    vars: [{key: name, value: of vars}]
    varFiles:
    - {source: ConfigMapKey, format: JSON, configMapKeyRef: {name: zones, key: file}}
    - {source: SecretKey, secretKeyRef: {name: inputs, namespace: other, key: file}}
    varmap: {name: demo}
    env: [{name: TF_VAR_env, value: ""}, {name: TF_DATA_DIR, value: /tmp}]
    planArgs: ["-json", "-out", "` + elsewhere + `", "-lock=true", "-parallelism=2"]
    initArgs: ["-force-copy", "-upgrade"]
    module: ` + indented(module)}
	t.Setenv("TF_CLI_CONFIG_FILE", os.DevNull)
	t.Setenv("TF_VAR_name", "of the shell")
	t.Setenv("TF_WORKSPACE", "of-the-shell")
	t.Setenv("TF_CLI_ARGS", "-nonsense")
	out, errOut, changed, err := w.plan(t, Options{program: tofuBinary(t)})
	require.NoError(t, err, errOut)
	assert.Zero(t, changed)
	assert.Contains(t, out, "# WorkspaceTemplateApply demo-vpc (vpc)\n")
	assert.Contains(t, out, "No changes.")
	assert.Equal(t, "Warning: The environment variable TF_DATA_DIR of the Workspace is not used: it could change more than the plan\n"+
		"Warning: The arguments [-json -out -force-copy] of the Workspace are not used\n", errOut)

	w.spec = strings.Replace(w.spec, "varmap: {name: demo}", "varmap: {name: renamed, password: hidden-canary-2}", 1)
	out, _, changed, err = w.plan(t, Options{program: tofuBinary(t)})
	require.NoError(t, err)
	assert.Equal(t, 1, changed)
	assert.Regexp(t, `~ +name += "demo" -> "renamed"`, out)
	assert.NotContains(t, out, "hidden-canary")
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(before), sha256.Sum256(after))
	assert.NoFileExists(t, elsewhere)

	w.spec = strings.Replace(w.spec, "varmap: {name: renamed", "varmap: {name: [1]", 1)
	_, errOut, _, err = w.plan(t, Options{program: tofuBinary(t)})
	assert.ErrorContains(t, err, "WorkspaceTemplateApply demo-vpc (vpc): tofu ")
	assert.ErrorContains(t, err, "plan failed, see above: exit status 1")
	assert.Contains(t, errOut, "Invalid value for input variable")
}

func TestNothingOfTheWorkspaceMakesTerraformWriteElsewhere(t *testing.T) {
	in, parameters := &inputs{files: map[string]string{}}, &terraform.WorkspaceParameters{
		PlanArgs: []string{"-generate-config-out", "../a.tf", "-generate-config-out=/a.tf", "-refresh=false"},
		Env:      []terraform.EnvVar{{Name: "TF_LOG_PATH", Value: "/a"}, {Name: "TF_PLUGIN_CACHE_DIR", Value: "/a"}, {Name: "TF_LOG", Value: "INFO"}},
	}
	require.NoError(t, values{}.addEnvironment(t.Context(), in, parameters.Env))
	require.NoError(t, values{}.addVariables(t.Context(), in, parameters))
	assert.Equal(t, []string{"-refresh=false"}, in.planArgs)
	assert.Equal(t, []string{"TF_LOG=INFO"}, in.env)
	assert.Len(t, in.notes, 3)
}

func TestNoTerraformWorkspaceIsCreated(t *testing.T) {
	for name, others := range map[string][]string{"no other": nil, "others": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			for _, other := range others {
				require.NoError(t, os.Mkdir(filepath.Join(state, other), 0o700))
			}
			w := &world{spec: "spec: {forProvider: {source: Inline, module: 'output \"x\" { value = 1 }'}}", config: "spec:\n  a:\n    configuration: " + indented(backendIn(state))}
			w.config = strings.Replace(w.config, "  a:\n    configuration", "    configuration", 1)
			_, _, _, err := w.plan(t, Options{program: tofuBinary(t)})
			require.ErrorContains(t, err, "the backend local has no Terraform workspace team-a-demo-vpc, which captctl does not create. ")
			left, err := os.ReadDir(state)
			require.NoError(t, err)
			assert.Len(t, left, len(others))
		})
	}
}

func TestAModuleIsDownloaded(t *testing.T) {
	state, module, outside := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(module, "vpc"), 0o700))
	text := backendIn(state) + "module \"a\" {\n  source = \"../a\"\n}\noutput \"x\" { value = module.a.x }\n"
	require.NoError(t, os.WriteFile(filepath.Join(module, "vpc", "main.tf"), []byte(text), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(module, "a"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(module, "a", "main.tf"), []byte(`output "x" { value = "of a" }`), 0o600))
	applied(t, backendIn(state))
	w := &world{spec: "spec: {forProvider: {source: Remote, module: '" + module + "', entrypoint: /../vpc}}"}
	out, errOut, changed, err := w.plan(t, Options{program: tofuBinary(t)})
	require.NoError(t, err, errOut)
	assert.Equal(t, 1, changed)
	assert.Contains(t, out, `+ x = "of a"`)

	require.NoError(t, os.Symlink(outside, filepath.Join(module, "vpc", configurationFile)))
	w.config = "spec: {configuration: 'locals {}'}"
	_, _, _, err = w.plan(t, Options{program: tofuBinary(t)})
	assert.NoFileExists(t, outside)
	assert.ErrorContains(t, err, "path escapes from parent")
}

func TestWhatCannotBePlanned(t *testing.T) {
	const module = "spec: {forProvider: {source: Inline, module: 'locals {}'"
	for want, w := range map[string]world{
		"neither the module nor the ProviderConfig has a backend": {spec: module + "}}"},
		"was recreated by another client":                         {spec: module + "}}", recreated: true},
		"(source Flux), which only provider-terraform can reach":  {spec: "spec: {forProvider: {source: Flux, module: GitRepository::a/b}}"},
		`environment variable A: reading Secret team-a/s: secrets "s" is forbidden`: {
			spec: module + ", env: [{name: A, secretKeyRef: {name: s, key: k}}]}}", forbidden: "s",
		},
		"environment variable A: the key does not exist": {
			spec:    module + ", env: [{name: A, configMapKeyRef: {name: s, key: k}}]}}",
			objects: []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "s"}}},
		},
		"without this flag, Terraform uses the credentials of your environment: reading Secret system/aws: ": {
			spec: module + "}}", config: "spec: {credentials: [{filename: aws, source: Secret, secretRef: {namespace: system, name: aws, key: k}}]}", forbidden: "aws",
		},
		"the file aws of ClusterProviderConfig default has source Filesystem, which is in the Pod of provider-terraform": {
			spec: module + "}}", config: "spec: {credentials: [{filename: aws, source: Filesystem}]}",
		},
		"the state is in Secret system/tfstate-team-a-demo-vpc-s, and Terraform needs the rights to get and list": {
			spec: inCluster, forbidden: "tfstate-team-a-demo-vpc-s",
		},
		"there is no state, which would be in Secret system/tfstate-team-a-demo-vpc-s": {spec: inCluster},
		"the module is not valid: main.tf:1,1-2: ":                                     {spec: "spec: {forProvider: {source: Inline, module: a}}"},
	} {
		_, _, _, err := w.plan(t, Options{program: "/bin/echo", providerCredentials: true})
		assert.ErrorContains(t, err, want)
	}
	_, _, _, err := (&world{}).plan(t, Options{program: "/bin/echo", role: "fargate"})
	require.ErrorContains(t, err, "has no such WorkspaceTemplateApply")
	_, _, _, err = (&world{}).plan(t, Options{program: "/bin/nothing"})
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv("PATH", "")
	_, _, _, err = (&world{}).plan(t, Options{})
	require.ErrorContains(t, err, "neither tofu nor terraform is on PATH")
	assert.ErrorContains(t, (&Options{role: "x"}).Validate(), "--role must be one of [vpc controlplane fargate machinepool addon]")
}

// inCluster has its state in a Secret of the management cluster.
const inCluster = `spec:
  forProvider:
    source: Inline
    module: |
      terraform {
        backend "kubernetes" {
          secret_suffix     = "s"
          namespace         = "system"
          in_cluster_config = true
        }
      }
`

// recorder is a program that records how it is called, in its own directory.
func recorder(t *testing.T) (path string, read func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tofu")
	script := `#!/bin/sh
test "$1" = version && exit
{
  echo "$@" $TF_CLI_CONFIG_FILE | sed "s,$(dirname "$PWD"),ROOT,g"
  if test "$1" = plan; then
    for file in $(find .. ! -type d | sort); do echo "$file $(stat -c %a $file): $(cat $file)"; done
    env | grep -E '^(GIT_CONFIG_V|A=)' | sed "s,$(dirname "$PWD"),ROOT,g"
    stat -c %a ..
  fi
} >> "$0.log"
`
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	return path, func() string {
		text, err := os.ReadFile(path + ".log")
		require.NoError(t, err)
		return string(text)
	}
}

func TestTheDirectoryIsThatOfTheProvider(t *testing.T) {
	t.Setenv("TF_CLI_CONFIG_FILE", "")
	program, read := recorder(t)
	secret := func(key, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: key}, Data: map[string][]byte{"k": []byte(value)}}
	}
	w := &world{
		objects: []client.Object{secret("aws", "key"), secret("git", "https://u:p@example.com"), secret("rc", "# rc")},
		spec:    `spec: {forProvider: {source: Inline, inlineFormat: JSON, module: '{"terraform": {"backend": {"s3": {}}}}', vars: [{key: a, value: b}], varmap: {c: 1}, env: [{name: A, value: b}], initArgs: [-upgrade], planArgs: [-refresh=false]}}`,
		config: `spec:
  configuration: "terraform {\n}"
  backendFile: bucket = "b"
  credentials:
  - {filename: x/aws.ini, source: Secret, secretRef: {namespace: system, name: aws, key: k}}
  - {filename: .git-credentials, source: Secret, secretRef: {namespace: system, name: git, key: k}}
  - {filename: .terraformrc, source: Secret, secretRef: {namespace: system, name: rc, key: k}}
`,
	}
	_, errOut, _, err := w.plan(t, Options{program: program})
	require.NoError(t, err)
	assert.Equal(t, "Warning: Terraform uses the credentials of your environment, not those of ClusterProviderConfig default (aws.ini, .git-credentials, .terraformrc): "+
		"--provider-credentials changes that\n", errOut)
	assert.Equal(t, `init -backend-config=crossplane.remote.tfbackend -upgrade -input=false -lock=false -no-color
workspace select -no-color team-a-demo-vpc
plan -var=a=b -var-file=crossplane-provider-terraform-0.tfvars.json -refresh=false -input=false -detailed-exitcode -lock=false -no-color
../module/.terraform/environment 600: team-a-demo-vpc
../module/aws.ini 600: 
../module/crossplane-provider-config.tf 600: terraform {
}
../module/crossplane-provider-terraform-0.tfvars.json 600: {"c":1}
../module/crossplane.remote.tfbackend 600: bucket = "b"
../module/main.tf.json 600: {"terraform": {"backend": {"s3": {}}}}
A=b
700
`, read())

	program, read = recorder(t)
	_, errOut, _, err = w.plan(t, Options{program: program, providerCredentials: true})
	require.NoError(t, err)
	assert.Empty(t, errOut)
	for _, want := range []string{
		"../.git-credentials 600: https://u:p@example.com\n", "../module/.git-credentials 600: https://u:p@example.com\n", "../module/.terraformrc 600: # rc\n", "../module/aws.ini 600: key\n",
		"-lock=false -no-color .terraformrc\nworkspace select -no-color team-a-demo-vpc\nplan ", "GIT_CONFIG_VALUE_0=store --file='ROOT/.git-credentials'\n",
	} {
		assert.Contains(t, read(), want)
	}
}

// A Workspace or a ProviderConfig in a namespace refers to objects of that namespace only.
func TestFromWhichNamespacesValuesAreRead(t *testing.T) {
	const spec = "spec:\n  providerConfigRef: {name: default, kind: ProviderConfig}\n  forProvider: {source: Inline, inlineFormat: JSON, module: '{\"terraform\": {\"backend\": {\"s3\": {}}}}', " +
		"env: [{name: A, secretKeyRef: {namespace: system, name: s, key: k}}]}"
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Data: map[string][]byte{"k": []byte("of " + namespace)}}
	}
	for scope, want := range map[terraform.Scope]string{terraform.ScopeNamespaced: "team-a", terraform.ScopeCluster: "system"} {
		program, read := recorder(t)
		w := &world{
			scope: scope, configKind: "ProviderConfig", spec: spec, objects: []client.Object{secret("team-a"), secret("system")},
			config: "spec: {credentials: [{filename: aws, source: Secret, secretRef: {namespace: system, name: s, key: k}}]}",
		}
		_, _, _, err := w.plan(t, Options{program: program, providerCredentials: true})
		require.NoError(t, err)
		assert.Contains(t, read(), "aws 600: of "+want+"\n")
		assert.Contains(t, read(), "A=of "+want+"\n")
	}
}

// stateServer is an API server that has the state of a Workspace in a Secret.
func stateServer(t *testing.T, secret *corev1.Secret) (address string, requests func() string) {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, `{"version": 4, "terraform_version": "1.5.7", "serial": 1, "lineage": "a", "outputs": {"x": {"value": "before", "type": "string"}}, "resources": []}`)
	require.NoError(t, errors.Join(err, w.Close()))
	secret.Labels = map[string]string{"tfstate": "true", "tfstateSecretSuffix": "s", "tfstateWorkspace": "team-a-demo-vpc"}
	secret.Data = map[string][]byte{"tfstate": packed.Bytes()}
	var mutex sync.Mutex
	var seen strings.Builder
	discovered := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}}, "/apis": metav1.APIGroupList{},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: []string{"get"}}}},
	}
	secrets := "/api/v1/namespaces/" + secret.Namespace + "/secrets"
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Fprintln(&seen, request.Method, request.URL.Path)
		answer.Header().Set("Content-Type", "application/json")
		switch request.Method + request.URL.Path {
		case "GET" + secrets:
			err = json.NewEncoder(answer).Encode(corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, Items: []corev1.Secret{*secret}})
		case "GET" + secrets + "/" + secret.Name:
			err = json.NewEncoder(answer).Encode(secret)
		case "GET/api", "GET/apis", "GET/api/v1": // Discovery of captctl.
			err = json.NewEncoder(answer).Encode(discovered[request.URL.Path])
		default:
			answer.WriteHeader(http.StatusNotFound)
			err = json.NewEncoder(answer).Encode(apierrors.NewNotFound(corev1.Resource("secrets"), request.URL.Path).Status())
		}
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mutex.Lock()
		defer mutex.Unlock()
		return seen.String()
	}
}

func TestAStateInTheManagementClusterIsReadWithTheKubeconfig(t *testing.T) {
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "tfstate-team-a-demo-vpc-s"}}
	address, requests := stateServer(t, secret)
	file, other := filepath.Join(t.TempDir(), "kubeconfig"), "b"
	require.NoError(t, os.WriteFile(file, []byte(`{"kind": "Config", "apiVersion": "v1", "current-context": "a",
"contexts": [{"name": "a", "context": {"cluster": "a"}}, {"name": "b", "context": {"cluster": "b"}}],
"clusters": [{"name": "a", "cluster": {"server": "https://192.0.2.1"}}, {"name": "b", "cluster": {"server": "`+address+`"}}]}`), 0o600))
	w := &world{
		spec: inCluster + "      output \"x\" { value = \"after\" }\n", objects: []client.Object{secret.DeepCopy()},
		access: func(access *cli.Access) { access.KubeConfig, access.Context = &file, &other },
	}
	out, errOut, changed, err := w.plan(t, Options{program: tofuBinary(t)})
	require.NoError(t, err, errOut)
	assert.Equal(t, 1, changed)
	assert.Contains(t, out, `~ x = "before" -> "after"`)
	onlyRead := func() {
		assert.Equal(t, strings.Count(requests(), "\n"), strings.Count(requests(), "GET "), "something is written: %s", requests())
	}
	onlyRead()

	// With a kubeconfig of the ProviderConfig, and with the state of another Workspace only.
	w.spec = strings.Replace(w.spec, "in_cluster_config = true", fmt.Sprintf("config_path = %q\n          config_context = \"b\"", file), 1)
	out, errOut, _, err = w.plan(t, Options{program: tofuBinary(t)})
	require.NoError(t, err, errOut)
	assert.Contains(t, out, `~ x = "before" -> "after"`)
	w.spec = strings.Replace(w.spec, `"s"`, `"other"`, 1)
	_, _, _, err = w.plan(t, Options{program: tofuBinary(t)})
	require.ErrorContains(t, err, "there is no state, which would be in Secret system/tfstate-team-a-demo-vpc-other")
	onlyRead()
	w.spec = strings.Replace(w.spec, file, "nothing", 1)
	_, _, _, err = w.plan(t, Options{program: tofuBinary(t)})
	assert.ErrorContains(t, err, "(config_path of the backend) cannot be used: ")
}

func TestTheStatesOfABackendAreListed(t *testing.T) {
	list := func(backend string, used bool) (lines []string) {
		config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": backend}}}
		environment := &cli.Environment{IOStreams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}, Access: cli.NewAccess(io.Discard)}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "tfstate-team-a-demo-vpc-s"}}
		stateServer(t, secret)
		reader := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(secret).Build()
		found, err := States(t.Context(), environment, reader, config, tofuBinary(t), used, func(state string) (string, error) {
			return map[string]string{"used": "Workspace a", "default": "Workspace b"}[state], nil
		})
		require.NoError(t, err)
		for _, state := range found {
			lines = append(lines, fmt.Sprint(state.Name, " ", state.Empty, " ", state.User))
		}
		return lines
	}
	backend := backendIn(t.TempDir())
	applied(t, backend+`resource "terraform_data" "a" {}`)
	for _, name := range []string{"empty", "used"} {
		e, err := tofu.New(tofu.Options{Binary: tofuBinary(t), WorkDir: t.TempDir()}).Open(t.Context(), executor.Module{UID: "uid", Files: map[string][]byte{"main.tf": []byte(backend)}})
		require.NoError(t, err)
		require.NoError(t, errors.Join(e.Init(t.Context(), nil), e.SelectWorkspace(t.Context(), name)))
	}
	assert.Equal(t, []string{"default false Workspace b", "empty true ", "team-a-demo-vpc false ", "used false Workspace a"}, list(backend, false), "what has a user is not read")
	assert.Contains(t, list(backend, true), "used true Workspace a")
	assert.Equal(t, []string{"team-a-demo-vpc true "}, list("terraform {\n  backend \"kubernetes\" {\n    namespace = \"system\"\n    secret_suffix = \"s\"\n  }\n}\n", false))
}

// A plan that waits for an answer is interrupted.
func TestNothingIsLeftOfAnInterruptedPlan(t *testing.T) {
	for name, signals := range map[string][]syscall.Signal{"SIGTERM": {syscall.SIGTERM}, "SIGHUP": {syscall.SIGHUP}, "SIGPIPE": {syscall.SIGPIPE}, "SIGINT twice": {syscall.SIGINT, syscall.SIGINT}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer listener.Close() //nolint:errcheck // The test is over.
			state, temporary := t.TempDir(), t.TempDir()
			module := backendIn(state) + "data \"terraform_remote_state\" \"a\" {\n  backend = \"http\"\n  config = { address = \"http://" + listener.Addr().String() + "\" }\n}\n"
			applied(t, backendIn(state))
			spec := filepath.Join(t.TempDir(), "spec")
			require.NoError(t, os.WriteFile(spec, []byte("spec:\n  forProvider:\n    source: Inline\n    module: "+indented(module)), 0o600))

			self, err := os.Executable()
			require.NoError(t, err)
			command := exec.CommandContext(t.Context(), self)
			command.Env = append(os.Environ(), asProcess+"="+spec, "CAPT_TEST_TOFU="+tofuBinary(t), "TMPDIR="+temporary)
			stderr, err := command.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			printed := make(chan string)
			go func() {
				text, _ := io.ReadAll(bufio.NewReader(stderr))
				printed <- string(text)
			}()
			connection, err := listener.Accept() // Terraform plans.
			require.NoError(t, err)
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Len(t, left, 1)
			for _, signal := range signals {
				require.NoError(t, command.Process.Signal(signal))
				time.Sleep(50 * time.Millisecond)
			}
			assert.Contains(t, <-printed, "context canceled")
			require.Error(t, command.Wait())
			assert.Equal(t, 1, command.ProcessState.ExitCode())
			left, err = os.ReadDir(temporary)
			require.NoError(t, err)
			assert.Empty(t, left)
			require.NoError(t, connection.SetReadDeadline(time.Now().Add(10*time.Second)))
			_, err = io.Copy(io.Discard, connection)
			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "Terraform still runs")
		})
	}
}
