// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser_test opens the page of captctl report in a browser. It is run by make test-browser, not by make test, because CAPT's other tests
// need no browser. It fails where none is installed.
package browser_test

import (
	"bytes"
	_ "embed"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/test/builder/fleets"
)

// browser is the program: $BROWSER, or the first of those that are installed.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("BROWSER"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	require.Fail(t, "no browser", "install Chromium (Debian: apt-get install chromium-headless-shell), or set BROWSER to its program")
	return ""
}

// run runs a headless browser with a page.
func run(t *testing.T, arguments ...string) (out, console string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), browser(t), append([]string{
		"--headless", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=10000", "--user-data-dir=" + t.TempDir(),
	}, arguments...)...)
	if os.Getuid() == 0 {
		command.Args = append(command.Args, "--no-sandbox") // Chromium refuses to run as root with it.
	}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	require.NoError(t, command.Run(), stderr.String())
	return stdout.String(), stderr.String()
}

// page is the page of captctl report for a number of Clusters.
func page(t *testing.T, clusters int) []byte {
	t.Helper()
	streams, _, stdout, _ := genericiooptions.NewTestIOStreams()
	environment := cli.NewEnvironment(streams)
	environment.Clock = clock.RealClock{}
	objects := fleets.Objects(fleets.New(clusters, time.Now()))
	environment.Access.Connect = func(*rest.Config) (client.WithWatch, error) {
		return fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).Build(), nil
	}
	server := "http://127.0.0.1:1"
	environment.Access.APIServer = &server
	command := fleet.NewReport(environment)
	command.SetArgs(nil)
	require.NoError(t, command.ExecuteContext(t.Context()))
	return stdout.Bytes()
}

// checks opens the page in frames, uses it, and replaces itself with what it found.
//
//go:embed checks.html
var checks []byte

// TestTheReportInABrowser: what is checked is in checks.html. With SCREENSHOTS=<directory> it also writes pictures of the page to look at.
func TestTheReportInABrowser(t *testing.T) {
	report := page(t, 7)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/report":
			_, _ = w.Write(report)
		case "/checks":
			_, _ = w.Write(checks)
		default:
			if r.URL.Path != "/favicon.ico" {
				t.Errorf("the page loads %s", r.URL)
			}
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	out, console := run(t, "--window-size=1400,900", "--dump-dom", server.URL+"/checks")
	assert.NotRegexp(t, `(?i)console.*(error|refused|violat)`, console)
	assert.Contains(t, out, "<pre>all checks passed</pre>")
	for _, failure := range regexp.MustCompile(`FAILED: [^\n<]*`).FindAllString(out, -1) {
		t.Error(failure)
	}
	if directory := os.Getenv("SCREENSHOTS"); directory != "" {
		for _, shot := range []struct {
			name, size, scheme string
		}{{"phone", "390,3200", "1"}, {"phone-dark", "390,3200", "0"}, {"desktop", "1280,2400", "1"}, {"desktop-dark", "1280,2400", "0"}} {
			file := filepath.Join(directory, "report-"+shot.name+".png")
			run(t, "--window-size="+shot.size, "--blink-settings=preferredColorScheme="+shot.scheme, "--screenshot="+file, server.URL+"/report")
			t.Logf("wrote %s", file)
		}
	}
}

// TestAPageOfALargeFleetIsUsable logs how long a browser needs for the page of 1,000 Clusters.
func TestAPageOfALargeFleetIsUsable(t *testing.T) {
	const n = 1000
	report := page(t, n)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/report" {
			_, _ = w.Write(report)
			return
		}
		_, _ = w.Write(checks)
	}))
	defer server.Close()
	out, _ := run(t, "--window-size=1400,900", "--dump-dom", server.URL+"/checks?large")
	assert.Contains(t, out, "<pre>all checks passed</pre>")
	t.Logf("%d Clusters: %.1f MB; %s", n, float64(len(report))/1e6, regexp.MustCompile(`times: [^<]*`).FindString(out))
}
