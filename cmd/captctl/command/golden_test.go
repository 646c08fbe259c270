// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// hidden are replaced: they differ between machines.
	hidden *strings.Replacer
}

// run adds a command whose time passes in steps.
func (s *session) run(env *environment, steps []time.Duration, arguments ...string) {
	s.Helper()
	s.WriteString("$ captctl " + strings.Join(arguments, " ") + "\n")
	out, errOut, err := "", "", error(nil)
	if len(steps) > 0 {
		out, errOut, err = env.after(s.T, steps, arguments...)
	} else {
		out, errOut, err = env.run(s.T, arguments...)
	}
	s.WriteString(out)
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
	file := kubeconfig(t)
	for name, run := range map[string]func(s *session){
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
		"check": func(s *session) { s.run(aFleet(), nil, "check") },
		"kubeconfig": func(s *session) {
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
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{T: t, hidden: strings.NewReplacer(file, "KUBECONFIG", cli.BuildVersion().Version, "VERSION")}
			run(s)
			text, path := s.hidden.Replace(s.String()), filepath.Join("testdata", name+".golden")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), text)
		})
	}
}
