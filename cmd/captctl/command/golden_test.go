// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/test/builder"
)

// session is what users see of commands: their output, what they print beside it, and their error.
type session struct {
	*testing.T
	strings.Builder
	// hidden are replaced, each by the text that follows it: they differ between machines.
	hidden []string
}

// file is a file with a text, which the output calls by its name.
func (s *session) file(name, text string) string {
	s.Helper()
	directory := s.TempDir()
	path := filepath.Join(directory, name)
	require.NoError(s, os.WriteFile(path, []byte(text), 0o600))
	s.hidden = append(s.hidden, directory+string(filepath.Separator), "")
	return path
}

// run adds a command whose time passes in steps.
func (s *session) run(env *environment, steps []time.Duration, arguments ...string) {
	s.Helper()
	out, errOut, err := "", "", error(nil)
	if len(steps) > 0 {
		out, errOut, err = env.after(s.T, steps, arguments...)
	} else {
		out, errOut, err = env.run(s.T, arguments...)
	}
	s.add(out, errOut, err, arguments...)
}

// add adds a command and what it printed.
func (s *session) add(out, errOut string, err error, arguments ...string) {
	s.WriteString("$ captctl " + strings.Join(arguments, " ") + "\n" + out)
	if errOut != "" {
		s.WriteString("--- standard error\n" + errOut)
	}
	if err != nil {
		s.WriteString("--- error\n")
		output.NewPrinter(s, output.Table, true).Text("", output.Plain, cli.Line(err))
	}
	s.WriteString("\n")
}

// TestOutputOfCommands compares what commands print with files. UPDATE_GOLDEN=1 writes them; read the difference.
func TestOutputOfCommands(t *testing.T) {
	for name, run := range sessions() {
		t.Run(name, func(t *testing.T) {
			s := &session{T: t, hidden: []string{cli.BuildVersion().Version, "VERSION", runtime.Version(), "GO", runtime.GOOS + "/" + runtime.GOARCH, "PLATFORM"}}
			run(s)
			text, path := strings.NewReplacer(s.hidden...).Replace(s.String()), filepath.Join("testdata", name+".golden")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), text)
		})
	}
}

// TestEachCommandHasAGoldenFile: those of migrate are in test/captctl and cmd/captctl/migration, and the output of completion is cobra's.
func TestEachCommandHasAGoldenFile(t *testing.T) {
	var all strings.Builder
	files, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	walk(newCaptctl(), func(command *cobra.Command) {
		path := command.CommandPath()
		if command.Runnable() && !command.HasSubCommands() && !regexp.MustCompile("^captctl (migrate|completion|help)").MatchString(path) {
			assert.Regexp(t, `(?m)^\$ `+path+`( |$)`, all.String())
		}
	})
}

// sessions are the golden files, by name.
func sessions() map[string]func(s *session) {
	return map[string]func(s *session){
		"run": func(s *session) {
			r := newRunner()
			s.run(&r.environment, aSecond, "run", "team-a/good")
			r = newRunner()
			r.checksum = ""
			s.run(&r.environment, aSecond, "run", "team-a/good", "--only", "controlplane")
			r = newRunner()
			r.row = builder.UpdateFailed
			s.run(&r.environment, aSecond, "run", "team-a/good", "-o", "wide")
			r = newRunner()
			r.silent = true
			s.run(&r.environment, []time.Duration{time.Second, time.Minute}, "run", "team-a/good", "--timeout", "1m")
		},
		"wait": func(s *session) {
			s.run(aFleet(), nil, "wait", "team-a/good", "--for", "ready")
			s.run(aFleet(), nil, "wait", "team-a/broken", "--for", "ready")
			s.run(aFleet(), []time.Duration{time.Second, time.Minute}, "wait", "team-a/growing", "--for", "version=1.36", "--timeout", "1m")
			s.run(aFleet(), nil, "wait", "team-a/god", "--for", "ready")
		},
		"get": func(s *session) {
			s.run(aFleet(), nil, "get", "-A")
			s.run(aFleet(), nil, "get", "-A", "-o", "wide")
			s.run(aFleet(), nil, "get", "-n", "team-z")
			s.run(heldCluster(""), nil, "get", "team-a/demo")
		},
		"describe": func(s *session) {
			s.run(aFleet(), nil, "describe", "team-a/good")
			s.run(aFleet(), nil, "describe", "team-a/broken")
			s.run(heldCluster(""), nil, "describe", "team-a/demo")
			s.run(aFleet(), nil, "describe", "team-a/god")
		},
		"tree": func(s *session) {
			s.run(aFleet(), nil, "tree", "team-a/broken")
			s.run(sharedFleet(), nil, "tree", "--impact", "WorkspaceTemplate/platform/eks")
		},
		"logs": func(s *session) {
			env, _ := aFailingWorkspace()
			s.run(env, nil, "logs", "wta/team-a/failing")
			s.run(aFleet(), nil, "logs", "team-a/good")
		},
		"report": func(s *session) {
			out, errOut, err := heldCluster("").run(s.T, "report")
			s.add(regexp.MustCompile(`(?s)<(style|script)[^>]*>.*?</(style|script)>`).ReplaceAllString(out, ""), errOut, err, "report")
		},
		"actions": func(s *session) {
			for _, action := range []string{"pause", "resume", "retry", "reconcile"} {
				env := aFleet()
				s.run(env, nil, action, "team-a/good")
				s.run(env, nil, action, "team-a/good", "team-a/god")
			}
		},
		"diff": func(s *session) {
			s.run(templated(s.T, "a"), nil, "diff")
			s.run(templated(s.T, "a", "b"), nil, "diff", "-f", s.file("eks.yaml", strings.ReplaceAll(eksTemplate, "size = 1", "size = 2")))
		},
		"plan": func(s *session) {
			for _, arguments := range [][]string{{"team-a/demo", "team-b/shop"}, {"team-a/demo", "-o", "wide"}, {"team-a/nowhere"}} {
				out, errOut, err := newPlanningManager().plan(s.T, arguments...)
				s.add(out, errOut, err, append([]string{"plan"}, arguments...)...)
			}
		},
		"adopt": func(s *session) {
			s.Setenv("PATH", "")
			env := templated(s.T, "a")
			config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": "terraform {\n  backend \"s3\" {}\n}\n"}}}
			config.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"))
			config.SetName("default")
			env.objects = append(env.objects, config)
			place := []string{"--vpc-id", "vpc-1", "--region", "eu-central-1", "--version", "v1.35.0"}
			state := []string{"adopt", "state", "--cluster", "team-a/shop", "--control-plane-template", "platform/eks", "--state-name", "shop"}
			s.run(env, nil, state...)
			s.run(env, nil, append(state, place...)...)
			imports := append([]string{"adopt", "import", "--cluster", "team-a/shop", "--control-plane-template", "platform/eks", "--import", "terraform_data.eks=shop"}, place...)
			s.run(env, nil, imports...)
			for _, object := range env.objects {
				if template, is := object.(*infrav1.WorkspaceTemplate); is && template.Name == "eks" {
					template.Spec.Template.Spec.ForProvider.Module += "resource \"terraform_data\" \"eks\" {}\n"
				}
			}
			env.connected = nil
			s.run(env, nil, imports...)
			s.run(env, nil, "adopt", "list", "--provider-config", "ClusterProviderConfig/default")
			s.run(env, nil, "adopt", "release", "--cluster", "team-a/a")
			s.run(env, nil, "adopt", "release", "--cluster", "team-a/nowhere")
		},
		"disaster-recovery": func(s *session) {
			r := newRunner()
			config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": "terraform {\n  backend \"kubernetes\" {\n    secret_suffix = \"x\"\n  }\n}"}}}
			config.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"))
			config.SetName("default")
			r.objects = append(r.objects, config)
			backup := s.file("backup.json.gz", "")
			s.run(&r.environment, nil, "backup", "--file", backup, "--secrets")
			s.run(&r.environment, nil, "backup", "--file", backup)
			s.run(&environment{}, nil, "restore", "--file", backup)
			s.run(&environment{}, nil, "restore", "--file", s.file("damaged.json.gz", "no"))
			s.run(&r.environment, nil, "evacuate", "team-a/good", "--yes")
		},
		"files": func(s *session) {
			s.run(&environment{}, nil, "validate", "-f", s.file("manifests.yaml", invalid))
			s.run(&environment{}, nil, "convert", "-f", s.file("apply.yaml", legacyApply))
			s.run(&environment{}, nil, "version")
		},
		"template-files": func(s *session) {
			s.Setenv("PATH", "")
			module := vpcModule(s.T, map[string]string{"main.tf": vpcMain, "variables.tf": vpcVariables})
			s.hidden = append(s.hidden, module, "modules/vpc")
			template, errOut, err := (&environment{}).run(s.T, "template", "init", module, "--name", "vpc", "--provider-config", "aws")
			s.add(template, errOut, err, "template", "init", module, "--name", "vpc", "--provider-config", "aws")
			file := s.file("vpc.yaml", template)
			s.run(&environment{}, nil, "template", "variables", "-f", file)
			s.run(&environment{}, nil, "template", "test", "-f", file)
			s.run(&environment{}, nil, "template", "render", "-f", file, "--var", "vpc_name=demo", "--var", "environment=test")
			s.run(&environment{}, nil, "template", "render", "-f", file, "--var", "environmen=test")
			s.run(&environment{}, nil, "template", "test", "-f", s.file("wrong.yaml", strings.Replace(template, "var.cidr", "var.cdr", 1)))
		},
		"template-rollout": func(s *session) {
			plans := newPlans()
			s.run(plans.environment, nil, "template", "plan", "team-a/vpc")
			s.run(plans.environment, nil, "template", "status", "team-a/vpc")
			s.run(plans.environment, nil, "template", "approve", "team-a/vpc", "--revision", "2", "--yes")
			s.run(plans.environment, nil, "template", "approve", "team-a/vpc", "--revision", "2", "--yes", "--allow-destroy")
			staging := newStaging()
			s.run(staging.environment, nil, "template", "pause", "team-a/vpc")
			s.run(staging.environment, nil, "template", "resume", "team-a/vpc", "--yes")
			s.run(staging.environment, nil, "template", "rollback", "team-a/vpc", "--yes")
			s.run(heldCluster(contentA), nil, "template", "approve-change", "team-a/demo")
			s.run(heldCluster(""), nil, "template", "approve-change", "team-a/demo", "--revision", contentB, "--yes")
		},
		"check": func(s *session) { s.run(aFleet(), nil, "check") },
		"kubeconfig": func(s *session) {
			t, file := s.T, kubeconfig(s)
			s.hidden = append(s.hidden, file, "KUBECONFIG")
			s.run(aFleet(), nil, "kubeconfig", "team-a/good")
			env := aFleet()
			env.objects = append(env.objects, kubeconfigSecret(t, "good-kubeconfig", "good", "https://good"))
			s.run(env, nil, "kubeconfig", "team-a/good")
			env.objects = append(env.objects, kubeconfigSecret(t, "good-user-kubeconfig", "good", "https://good"))
			env.connected = nil
			s.run(env, nil, "kubeconfig", "team-a/good", "--merge", "--kubeconfig", file)
			s.run(env, nil, "kubeconfig", "team-a/good", "--merge", "--kubeconfig", file, "--context-name", "production")
		},
		"template-list": func(s *session) {
			staging := newStaging()
			ready := builder.WorkspaceTemplate("eks", builder.WithNamespace("team-a"))
			ready.CreationTimestamp, ready.Status.Users = before(90), ptr.To[int32](4)
			invalid := builder.WorkspaceTemplate("dns", builder.WithNamespace("team-b"))
			invalid.CreationTimestamp, invalid.Status.Users = before(5), ptr.To[int32](0)
			invalid.Status.Conditions = []metav1.Condition{{Type: infrav1.ValidCondition, Status: metav1.ConditionFalse, Reason: "ModuleInvalid", Message: "main.tf line 3: an argument is missing"}}
			staging.template.CreationTimestamp, staging.template.Status.Users, staging.template.Status.OutdatedUsers = before(60), ptr.To[int32](3), ptr.To[int32](2)
			staging.objects = append(staging.objects, ready, invalid)
			s.run(staging.environment, nil, "template", "list", "-A")
			s.run(staging.environment, nil, "template", "list", "-n", "team-c")
		},
		"get-retained": func(s *session) {
			env := aFleet()
			env.objects = append(env.objects, claimed("old-vpc", "vpc-1", terraform.ScopeNamespaced), claimed("older-vpc", "vpc-2", terraform.ScopeCluster))
			s.run(env, nil, "get", "--retained")
			s.run(env, nil, "get", "--retained", "-o", "yaml")
			s.run(aFleet(), nil, "get", "--retained")
		},
	}
}
