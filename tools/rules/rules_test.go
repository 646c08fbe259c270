// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rulesFile writes the groups of the PrometheusRule to a file of Prometheus, and returns its path.
func rulesFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../config/prometheus/rules.yaml")
	require.NoError(t, err)
	var object struct {
		Spec map[string]any `yaml:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(text, &object))
	text, err = yaml.Marshal(object.Spec)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// testCase are series, one sample per minute, and the alerts that fire at some times.
type testCase struct {
	Name   string   `yaml:"name"`
	Series []string `yaml:"series"`
	// Firing has the alerts by time; an alert is its name and labels.
	Firing map[string][]string `yaml:"firing"`
}

func testCases(t *testing.T) (cases []testCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/alerts.yaml")
	require.NoError(t, err)
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&cases))
	require.NotEmpty(t, cases)
	return cases
}

// engine evaluates the rules every minute.
type engine struct {
	*promqltest.LazyLoader
	groups map[string]*rules.Group
}

func newEngine(t *testing.T, file string, series []string) engine {
	t.Helper()
	load := "load 1m\n  " + strings.Join(series, "\n  ")
	loader, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close()) })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), AppendableV2: loader.Storage(), Queryable: loader.Storage(),
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(),
		NameValidationScheme: model.UTF8Validation, Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	require.Empty(t, errs)
	require.NotEmpty(t, groups)
	return engine{loader, groups}
}

// firing evaluates the rules at a time, and returns the alerts that fire.
func (e engine) firing(t *testing.T, at time.Duration) []string {
	t.Helper()
	firing := []string{}
	now := time.Unix(0, 0).UTC().Add(at)
	e.WithSamplesTill(now, func(err error) {
		require.NoError(t, err)
		for _, group := range e.groups {
			group.Eval(e.Context(), now)
			for _, rule := range group.AlertingRules() {
				require.NoError(t, rule.LastError(), rule.Name())
				for _, alert := range rule.ActiveAlerts() {
					if alert.State == rules.StateFiring {
						firing = append(firing, rule.Name()+alert.Labels.MatchLabels(false, labels.AlertName, "severity").String())
					}
				}
			}
		}
	})
	return firing
}

func TestAlerts(t *testing.T) {
	file := rulesFile(t)
	for _, test := range testCases(t) {
		t.Run(test.Name, func(t *testing.T) {
			expected, last := map[time.Duration][]string{}, time.Duration(0)
			for text, alerts := range test.Firing {
				at, err := time.ParseDuration(text)
				require.NoError(t, err)
				expected[at], last = alerts, max(last, at)
			}
			engine := newEngine(t, file, test.Series)
			for at := time.Duration(0); at <= last; at += time.Minute {
				firing := engine.firing(t, at)
				if alerts, checked := expected[at]; checked {
					assert.ElementsMatch(t, alerts, firing, "after %s", at)
				}
			}
		})
	}
}

// TestEveryAlertIsTested: each alert fires in a test case, and is silent at an earlier time of the same case.
func TestEveryAlertIsTested(t *testing.T) {
	engine := newEngine(t, rulesFile(t), nil)
	for _, group := range engine.groups {
		for _, rule := range group.AlertingRules() {
			tested := false
			for _, test := range testCases(t) {
				fires, silent := false, false
				for _, alerts := range test.Firing {
					here := false
					for _, alert := range alerts {
						here = here || strings.HasPrefix(alert, rule.Name()+"{")
					}
					fires, silent = fires || here, silent || !here
				}
				tested = tested || fires && silent
			}
			assert.True(t, tested, "testdata/alerts.yaml has no case in which %s starts to fire", rule.Name())
			assert.NotZero(t, rule.HoldDuration(), rule.Name())
			assert.Equal(t, "https://github.com/capt-provider/capt/blob/main/docs/runbooks.md#"+strings.ToLower(rule.Name()), rule.Annotations().Get("runbook_url"))
			assert.NotEmpty(t, rule.Annotations().Get("summary"), rule.Name())
			assert.Contains(t, []string{"critical", "warning"}, rule.Labels().Get("severity"), rule.Name())
		}
	}
}

// known are the prefixes of the names of metrics. cmd/manager tests that the metrics with these prefixes exist.
var known = regexp.MustCompile(`^(capt|controller_runtime|workqueue|rest_client|leader_election|certwatcher|process|go)_`)

func TestEveryQueryIsValid(t *testing.T) {
	queries := []string{}
	for _, group := range newEngine(t, rulesFile(t), nil).groups {
		for _, rule := range group.Rules() {
			queries = append(queries, rule.Query().String())
		}
	}
	text, err := os.ReadFile("../../config/grafana/capt.json")
	require.NoError(t, err)
	var dashboard any
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ofDashboard := expressions(dashboard)
	require.NotEmpty(t, ofDashboard)
	for _, query := range append(queries, ofDashboard...) {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(substitute.Replace(query))
		require.NoError(t, err, query)
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				assert.Regexp(t, known, selector.Name, query)
			}
			return nil
		})
	}
}

// substitute has values for the variables of the dashboard.
var substitute = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$namespace", ".*", "$cluster", ".*")

// expressions returns the queries of the panels below a node of the dashboard.
func expressions(node any) (found []string) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok && key == "expr" {
				found = append(found, text)
			}
			found = append(found, expressions(value)...)
		}
	case []any:
		for _, value := range node {
			found = append(found, expressions(value)...)
		}
	}
	return found
}
