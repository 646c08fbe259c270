// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// columns that help may have: it is read in terminals.
const columns = 100

func newCaptctl(arguments ...string) *cobra.Command {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	return New(name, arguments, streams)
}

// run runs captctl and returns what it printed.
func run(t *testing.T, program string, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	err = New(program, arguments, streams).ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// walk calls a function for every command; those of cobra are not ours.
func walk(command *cobra.Command, visit func(*cobra.Command)) {
	if command.Name() == "completion" || command.Name() == "help" {
		return
	}
	visit(command)
	for _, below := range command.Commands() {
		walk(below, visit)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	walk(newCaptctl(), func(command *cobra.Command) {
		t.Run(command.CommandPath(), func(t *testing.T) {
			assert.NotEmpty(t, command.Short)
			assert.False(t, strings.HasSuffix(command.Short, "."), "a list of commands has no full stops")
			assert.Greater(t, len(command.Long), 80, "help is a manual page")
			assert.Contains(t, command.Example, "captctl", "there is an example")
			for _, line := range strings.Split(command.Long+"\n"+command.UsageString(), "\n") {
				assert.LessOrEqual(t, len(line), columns, line)
			}
			command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
				if flag.Name != "help" {
					assert.True(t, strings.HasSuffix(flag.Usage, "."), "--%s: %q is not a sentence", flag.Name, flag.Usage)
				}
			})
			assert.True(t, command.HasSubCommands() || command.ValidArgsFunction != nil, "a shell would complete files of any kind")
		})
	})
}

func TestEveryExampleIsACommandThatCaptctlHas(t *testing.T) {
	walk(newCaptctl(), func(documented *cobra.Command) {
		shown := false
		for _, line := range strings.Split(documented.Example, "\n") {
			arguments, ok := strings.CutPrefix(strings.TrimSpace(line), "captctl ")
			if !ok {
				continue
			}
			root := newCaptctl()
			command, rest, err := root.Find(words(t, arguments))
			require.NoError(t, err, line)
			require.NoError(t, command.ParseFlags(rest), line)
			require.NoError(t, command.ValidateArgs(command.Flags().Args()), line)
			require.NoError(t, command.ValidateRequiredFlags(), line)
			require.NoError(t, command.ValidateFlagGroups(), line)
			shown = shown || strings.HasPrefix(command.CommandPath(), documented.CommandPath())
		}
		assert.True(t, shown, "%s has no example of itself", documented.CommandPath())
	})
}

// words are those of a shell, up to a pipe or a redirection. Text in quotes is one word.
func words(t *testing.T, line string) (found []string) {
	t.Helper()
	quote, word := rune(0), ""
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			if word == "|" || word == ">" || word == "#" || word == "<" {
				return found
			}
			if word != "" {
				found = append(found, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	require.Zero(t, quote, "a quote is open: %s", line)
	return found
}

func TestHelpListsEveryExitCode(t *testing.T) {
	out, _, err := run(t, name, "migrate", "--help")
	require.NoError(t, err)
	for outcome := migrate.Done; outcome <= migrate.Partly; outcome++ {
		assert.Regexp(t, fmt.Sprintf(`(?m)^  %d  \S`, outcome), out)
	}
}

func TestAsAPluginOfKubectlItSpeaksOfKubectl(t *testing.T) {
	for _, arguments := range [][]string{{"--help"}, {"migrate", "--help"}, {"migrate", "plan", "--help"}} {
		out, _, err := run(t, "/usr/local/bin/kubectl-capt", arguments...)
		require.NoError(t, err)
		assert.Contains(t, out, "kubectl capt migrate")
		assert.NotContains(t, out, "  captctl ")
	}
	_, _, err := run(t, "kubectl-capt", "migrate", "plan", "--nonsense")
	assert.EqualError(t, err, "unknown flag: --nonsense; kubectl capt migrate plan --help shows the flags")
}

func TestAsCompleterOfKubectlItCompletes(t *testing.T) {
	out, _, err := run(t, "/usr/local/bin/kubectl_complete-capt", "migrate", "")
	require.NoError(t, err)
	assert.Contains(t, out, "plan\tPlan what to write, and save")
	assert.NotContains(t, out, "Usage:")
}

func TestAShellCompletesFlagsFromWhatThereIs(t *testing.T) {
	complete := func(arguments ...string) string {
		out, _, err := run(t, name, append([]string{cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig(t)}, arguments...)...)
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, "table\nwide\njson\nyaml\n:4\n", complete("migrate", "plan", "--output", ""))
	assert.Equal(t, "none\nserver\n:4\n", complete("migrate", "apply", "plan.json", "--dry-run="))
	assert.Equal(t, "yaml\nyml\njson\n:8\n", complete("migrate", "plan", "--decisions", ""))
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("plan.json", nil, 0o600))
	for _, command := range []string{"show", "apply", "rollback"} {
		assert.Equal(t, "plan.json\n:0\n", complete("migrate", command, ""))
	}
	assert.Equal(t, "production\n:4\n", complete("migrate", "plan", "--context", ""))
	assert.Equal(t, ":4\n", complete("migrate", "plan", "-n", ""), "no cluster answers")
}

func TestWhatIsUnknownIsAnError(t *testing.T) {
	for complaint, arguments := range map[string][]string{
		`unknown command "chek" for "captctl migrate"; did you mean check?`:                               {"migrate", "chek"},
		`unknown command "migrat" for "captctl"; did you mean migrate?`:                                   {"migrat"},
		`unknown command "x" for "captctl"`:                                                               {"x"},
		`the usage is "captctl migrate apply PLAN|PLAN_ID [flags]"; captctl migrate apply --help shows`:   {"migrate", "apply"},
		`the usage is "captctl convert -f FILENAME [flags]"`:                                              {"convert", "a.yaml"},
		"unknown flag: --al; captctl migrate check --help shows the flags":                                {"migrate", "check", "--al"},
		`there is no output format "xml"; use one of table, wide, json, yaml`:                             {"version", "-o", "xml"},
		"finding the API server: stat /missing: no such file or directory; set --kubeconfig or --context": {"migrate", "check", "--kubeconfig", "/missing"},
	} {
		out, errOut, err := run(t, name, arguments...)
		require.ErrorContains(t, err, complaint)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
		assert.Empty(t, out+errOut, "main prints the error, and no usage before it")
	}
}

func TestVersionIsPrintedAsTextAndAsDocument(t *testing.T) {
	out, _, err := run(t, name, "version")
	require.NoError(t, err)
	assert.Regexp(t, `^captctl \S+ \(go1\.\S+, \S+/\S+\)\n$`, out)
	out, _, err = run(t, name, "version", "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, `"kind": "Version"`)
	assert.Contains(t, out, `"planVersion": "migrate.capt.cluster.x-k8s.io/v1"`)
}

func TestFlagsThatCannotWorkAreRejectedBeforeConnecting(t *testing.T) {
	file := saved(t, twoUnits(t, false))
	for complaint, arguments := range map[string][]string{
		"--concurrency must be at least 1":             {"apply", file, "--yes", "--concurrency", "0"},
		"--concurrency 500 is too high for --qps 20":   {"apply", file, "--yes", "--concurrency", "500"},
		"--max-failures must be at least 0":            {"apply", file, "--yes", "--max-failures", "-1"},
		"--wait must be more than 0":                   {"rollback", "x", "--yes", "--wait", "0s"},
		"--lease-duration must be at least 1s":         {"apply", file, "--yes", "--lease-duration", "1ms"},
		"--qps must be more than 0":                    {"check", "--qps", "0"},
		"--burst must be at least 1":                   {"plan", "--burst", "0"},
		"--dry-run=client is not supported":            {"apply", file, "--dry-run=client"},
		`--dry-run must be none or server, not "some"`: {"rollback", "x", "--yes", "--dry-run=some"},
		`--cluster "demo": must be NAMESPACE/NAME`:     {"apply", file, "--yes", "--cluster", "demo"},
		"--watch cannot be combined with":              {"status", "-w", "--detailed-exitcode"},
		`there is no output format "xml"`:              {"status", "-o", "xml"},
		"no such file or directory":                    {"plan", "--decisions", "missing.yaml"},
		`and "missing.json" is not a plan ID`:          {"show", "missing.json"},
		"apiVersion \"\" and kind \"\" are not those":  {"show", saved(t, &plan.Plan{})},
	} {
		env := undecided()
		_, _, err := env.run(t, append([]string{"migrate"}, arguments...)...)
		require.ErrorContains(t, err, complaint)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
		assert.Nil(t, env.config, "no cluster was connected to")
	}
}

func TestRequestsHaveTheUserAgentOfCaptctl(t *testing.T) {
	env := undecided()
	_, _, err := env.run(t, "migrate", "plan", "--server", "http://127.0.0.1:2")
	require.Error(t, err)
	assert.Regexp(t, `^captctl/\S+ \(`, env.config.UserAgent)
	assert.Equal(t, "http://127.0.0.1:2", env.config.Host)
}

func TestAClusterThatDoesNotAnswerCompletesNothing(t *testing.T) {
	env := undecided()
	env.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no")
	}
	out, _, err := env.run(t, cobra.ShellCompRequestCmd, "migrate", "show", "")
	require.NoError(t, err)
	assert.Equal(t, ":0\n", out)
	env = undecided()
	out, _, err = env.run(t, cobra.ShellCompRequestCmd, "migrate", "check", "-n", "")
	require.NoError(t, err)
	assert.Equal(t, "capt-system\ndefault\nkube-system\n:4\n", out)
}
