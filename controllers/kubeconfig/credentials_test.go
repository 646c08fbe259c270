// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// transport is all the network that the SDK has in these tests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(request *http.Request) (*http.Response, error) { return f(request) }

func over(f transport) func(*config.LoadOptions) error { return config.WithHTTPClient(f) }

// silent fails the test when anything is asked over the network.
func silent(t *testing.T) func(*config.LoadOptions) error {
	return over(func(request *http.Request) (*http.Response, error) {
		t.Errorf("%s was asked", request.URL.Host)
		return nil, errors.New("there is no network")
	})
}

// isolate takes away what the SDK would find on the machine that runs the test.
func isolate(t *testing.T) string {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	return dir
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func profile(key string) string {
	return fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = hunter2\n", key)
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// role is STS's answer to a web identity.
func role(key string, ends time.Time) *http.Response {
	return answer(http.StatusOK, fmt.Sprintf(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>hunter2</SecretAccessKey><SessionToken>hunter2</SessionToken><Expiration>%s</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, key, ends.UTC().Format(time.RFC3339)))
}

// denied is what AWS answers to a caller without permission.
func denied() *http.Response {
	return answer(http.StatusForbidden, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>hunter2</Message></Error></ErrorResponse>")
}

// withWebIdentity sets up what EKS gives the Pods of a ServiceAccount that has a role.
func withWebIdentity(t *testing.T) {
	t.Helper()
	dir := isolate(t)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/capt")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, dir, "token", "hunter2"))
}

// signer is the access key that signed the next token.
func signer(t *testing.T, tokens *kubeconfig.AWS) string {
	t.Helper()
	made, _, err := tokens.Token(t.Context(), "demo", "us-east-1")
	require.NoError(t, err)
	key, _, _ := strings.Cut(request(t, made).Query().Get("X-Amz-Credential"), "/")
	return key
}

func requireProblem(t *testing.T, tokens *kubeconfig.AWS, want string) {
	t.Helper()
	_, _, err := tokens.Token(t.Context(), "demo", "us-east-1")
	require.ErrorContains(t, err, want)
	assert.NotContains(t, fmt.Sprintf("%+v", err), "hunter2")
	require.NoError(t, tokens.Available(t.Context()), "credentials that fail are credentials")
}

func TestNoCredentialsAreConfigured(t *testing.T) {
	isolate(t)
	tokens := kubeconfig.NewAWS(clock.RealClock{}, false, silent(t))
	require.ErrorIs(t, tokens.Available(t.Context()), kubeconfig.ErrNoCredentials)
	_, _, err := tokens.Token(t.Context(), "demo", "us-east-1")
	require.ErrorIs(t, err, kubeconfig.ErrNoCredentials)
}

func TestCredentialsThatNeedNoNetwork(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, dir string){
		"environment": func(t *testing.T, _ string) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
		},
		"credentials file": func(t *testing.T, dir string) { writeFile(t, dir, "credentials", profile("AKIDTEST")) },
		"credentials file, and defaults by the region of the instance": func(t *testing.T, dir string) {
			t.Setenv("AWS_DEFAULTS_MODE", "auto")
			writeFile(t, dir, "credentials", profile("AKIDTEST"))
		},
		"command": func(t *testing.T, dir string) {
			writeFile(t, dir, "config", "[default]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"AKIDTEST\", \"SecretAccessKey\": \"hunter2\"}'\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			set(t, isolate(t))
			tokens := kubeconfig.NewAWS(clock.RealClock{}, false, silent(t))
			require.NoError(t, tokens.Available(t.Context()))
			assert.Equal(t, "AKIDTEST", signer(t, tokens))
		})
	}
}

func TestTheWebIdentityOfAServiceAccountIsExchangedOnceForAll(t *testing.T) {
	withWebIdentity(t)
	asked := atomic.Int32{}
	now := clocktesting.NewFakePassiveClock(signedAt)
	tokens := kubeconfig.NewAWS(now, false, over(func(request *http.Request) (*http.Response, error) {
		asked.Add(1)
		assert.Equal(t, "sts.us-east-1.amazonaws.com", request.URL.Host)
		return role("ASIAFIRST", signedAt.Add(time.Hour)), nil
	}))
	all := sync.WaitGroup{}
	for i := range 50 {
		all.Go(func() {
			if i%2 == 0 {
				assert.NoError(t, tokens.Available(t.Context()))
				return
			}
			_, _, err := tokens.Token(t.Context(), fmt.Sprintf("cluster-%d", i), "us-east-1")
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, asked.Load())
}

// The SDK has an HTTP client of its own for this agent, so a server on the loopback interface takes the agent's place.
func TestTheAgentOfEKSPodIdentityIsUsed(t *testing.T) {
	dir := isolate(t)
	agent := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		assert.Equal(t, "hunter2", request.Header.Get("Authorization"))
		_, err := io.WriteString(writer, `{"AccessKeyId": "ASIAPOD", "SecretAccessKey": "hunter2", "Token": "hunter2", "Expiration": "2026-03-04T11:00:00Z"}`)
		assert.NoError(t, err)
	}))
	t.Cleanup(agent.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", writeFile(t, dir, "token", "hunter2"))
	assert.Equal(t, "ASIAPOD", signer(t, kubeconfig.NewAWS(clocktesting.NewFakePassiveClock(signedAt), false, silent(t))))
}

func TestInstanceCredentialsNeedTheFlag(t *testing.T) {
	dir := isolate(t)
	asked := atomic.Int32{}
	metadata := over(func(request *http.Request) (*http.Response, error) {
		asked.Add(1)
		assert.Equal(t, "169.254.169.254", request.URL.Host)
		return answer(http.StatusNotFound, ""), nil
	})
	require.ErrorIs(t, kubeconfig.NewAWS(clock.RealClock{}, false, metadata).Available(t.Context()), kubeconfig.ErrNoCredentials)
	require.Zero(t, asked.Load())
	require.NoError(t, kubeconfig.NewAWS(clock.RealClock{}, true, metadata).Available(t.Context()))
	require.NotZero(t, asked.Load())

	// So does a profile with them.
	writeFile(t, dir, "config", "[default]\nregion = us-east-1\nrole_arn = arn:aws:iam::111122223333:role/capt\ncredential_source = Ec2InstanceMetadata\n")
	require.ErrorIs(t, kubeconfig.NewAWS(clock.RealClock{}, false, silent(t)).Available(t.Context()), kubeconfig.ErrNoCredentials)
}

func TestARotatedFileIsReadAgain(t *testing.T) {
	dir := isolate(t)
	writeFile(t, dir, "credentials", profile("AKIDOLD"))
	now := clocktesting.NewFakePassiveClock(signedAt)
	tokens := kubeconfig.NewAWS(now, false, silent(t))
	require.Equal(t, "AKIDOLD", signer(t, tokens))

	writeFile(t, dir, "credentials", profile("AKIDNEW"))
	now.SetTime(signedAt.Add(59 * time.Second))
	assert.Equal(t, "AKIDOLD", signer(t, tokens), "not at every token")
	now.SetTime(signedAt.Add(time.Minute))
	assert.Equal(t, "AKIDNEW", signer(t, tokens))

	// Who takes credentials away wants them used no more.
	require.NoError(t, os.Remove(filepath.Join(dir, "credentials")))
	now.SetTime(signedAt.Add(2 * time.Minute))
	require.ErrorIs(t, tokens.Available(t.Context()), kubeconfig.ErrNoCredentials)
}

func TestCredentialsAreRenewedBeforeTheyEndAndServeUntilThenIfThatFails(t *testing.T) {
	withWebIdentity(t)
	down, key := false, "ASIAFIRST"
	now := clocktesting.NewFakePassiveClock(signedAt)
	tokens := kubeconfig.NewAWS(now, false, over(func(*http.Request) (*http.Response, error) {
		if down {
			return denied(), nil
		}
		return role(key, now.Now().Add(time.Hour)), nil
	}))
	require.Equal(t, "ASIAFIRST", signer(t, tokens))
	key = "ASIASECOND"
	now.SetTime(signedAt.Add(50 * time.Minute))
	assert.Equal(t, "ASIAFIRST", signer(t, tokens))
	now.SetTime(signedAt.Add(52 * time.Minute))
	assert.Equal(t, "ASIASECOND", signer(t, tokens), "8 minutes before their end")

	down = true
	now.SetTime(signedAt.Add(52*time.Minute + 55*time.Minute))
	_, expires, err := tokens.Token(t.Context(), "demo", "us-east-1")
	require.NoError(t, err)
	assert.Equal(t, signedAt.Add(52*time.Minute+time.Hour), expires, "a token ends with the credentials that signed it")
	now.SetTime(signedAt.Add(52*time.Minute + time.Hour))
	requireProblem(t, tokens, "STS AssumeRoleWithWebIdentity: AWS answered AccessDenied")
	requireProblem(t, tokensAt(t, signedAt, signedAt), "have expired")
}

func TestAFailureStandsForAWhileAndIsThenTriedAgain(t *testing.T) {
	withWebIdentity(t)
	asked, down := 0, true
	now := clocktesting.NewFakePassiveClock(signedAt)
	tokens := kubeconfig.NewAWS(now, false, over(func(*http.Request) (*http.Response, error) {
		asked++
		if down {
			return denied(), nil
		}
		return role("ASIAFIRST", signedAt.Add(time.Hour)), nil
	}))
	for range 10 {
		requireProblem(t, tokens, "AWS answered AccessDenied")
	}
	assert.Equal(t, 1, asked)
	down = false
	now.SetTime(signedAt.Add(30 * time.Second))
	assert.Equal(t, "ASIAFIRST", signer(t, tokens))
}

func TestAnUnresponsiveServiceTimesOutForAllCallersTogether(t *testing.T) {
	withWebIdentity(t)
	synctest.Test(t, func(t *testing.T) {
		hangUp := make(chan struct{})
		tokens := kubeconfig.NewAWS(clock.RealClock{}, false, over(func(*http.Request) (*http.Response, error) {
			<-hangUp
			return nil, errors.New("hung up")
		}))
		start, all := time.Now(), sync.WaitGroup{}
		for range 10 {
			all.Go(func() { requireProblem(t, tokens, "no answer within 5s") })
		}
		all.Wait()
		assert.Equal(t, 5*time.Second, time.Since(start), "for all together")
		close(hangUp)
		time.Sleep(time.Hour) // In the time of synctest: until the SDK has timed out, too.
	})
}

func TestACallerThatTimesOutDoesNotDecideForTheOthers(t *testing.T) {
	withWebIdentity(t)
	caller, giveUp := context.WithCancel(t.Context())
	tokens := kubeconfig.NewAWS(clocktesting.NewFakePassiveClock(signedAt), false, over(func(request *http.Request) (*http.Response, error) {
		giveUp()
		if err := request.Context().Err(); err != nil {
			return nil, err
		}
		return role("ASIAFIRST", signedAt.Add(time.Hour)), nil
	}))
	require.NoError(t, tokens.Available(caller))
	assert.Equal(t, "ASIAFIRST", signer(t, tokens))
}

func TestWaitingForAnotherAttemptCanTimeOut(t *testing.T) {
	withWebIdentity(t)
	synctest.Test(t, func(t *testing.T) {
		hangUp := make(chan struct{})
		tokens := kubeconfig.NewAWS(clock.RealClock{}, false, over(func(*http.Request) (*http.Response, error) {
			<-hangUp
			return role("ASIAFIRST", time.Now().Add(time.Hour)), nil
		}))
		go func() { assert.Equal(t, "ASIAFIRST", signer(t, tokens)) }()
		synctest.Wait()
		caller, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := tokens.Token(caller, "demo", "us-east-1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(hangUp)
	})
}

func TestCredentialErrorsHaveNoSecrets(t *testing.T) {
	for name, row := range map[string]struct {
		config, profile string
		env             map[string]string
		want            string
	}{
		"a command that prints something else": {config: "[default]\ncredential_process = echo hunter2\n", want: "details omitted: they may contain credentials"},
		"a command that fails":                 {config: "[default]\ncredential_process = sh -c 'echo hunter2; exit 1'\n", want: "details omitted: they may contain credentials"},
		"a profile that is not there":          {env: map[string]string{"AWS_PROFILE": "hunter2"}, want: "AWS_PROFILE"},
		"half a key":                           {config: "[default]\naws_access_key_id = AKIDTEST\n", env: map[string]string{"AWS_PROFILE": "default"}, want: "cannot be used"},
		"a setting that cannot be read":        {env: map[string]string{"AWS_MAX_ATTEMPTS": "hunter2"}, want: "details omitted: they may contain credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := isolate(t)
			writeFile(t, dir, "config", row.config)
			for name, value := range row.env {
				t.Setenv(name, value)
			}
			requireProblem(t, kubeconfig.NewAWS(clock.RealClock{}, false, silent(t)), row.want)
		})
	}
}

// Its text names the port that the question was sent from, and a condition with it would be written at each attempt.
func TestResolutionErrorsAreDeterministic(t *testing.T) {
	withWebIdentity(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	requireProblem(t, kubeconfig.NewAWS(clock.RealClock{}, false, over(func(request *http.Request) (*http.Response, error) {
		lookup := &net.DNSError{Name: request.URL.Host, Server: "10.0.0.10:53", Err: "read udp 10.0.0.1:41972->10.0.0.10:53: i/o timeout", IsTimeout: true}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: lookup}
	})), "STS AssumeRoleWithWebIdentity: sts.us-east-1.amazonaws.com cannot be resolved")
}
