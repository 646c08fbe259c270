// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/test/cputime"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/failures"
)

// phases are prefixes of the provider before an error of Terraform.
var phases = []string{
	"connect failed: cannot initialize Terraform configuration: ",
	"observe failed: cannot diff (i.e. plan) Terraform configuration: ",
	"create failed: cannot apply Terraform configuration: ",
	"update failed: cannot apply Terraform configuration: ",
	"delete failed: cannot destroy Terraform configuration: ",
}

// classify returns the class of the message of condition Synced of a Workspace.
func classify(message string) Class { return diagnose(message).class }

func TestClassesOfAllSamplesInAllPhases(t *testing.T) {
	for _, sample := range failures.Samples() {
		t.Run(sample.Class+"/"+sample.Name, func(t *testing.T) {
			for _, phase := range phases {
				want := Class(sample.Class)
				if strings.HasPrefix(phase, destroyPrefix) && unsaved.matches(newFlatText(sample.Stderr)) {
					want = ClassNetwork // The next run finds what is gone.
				}
				for _, stderr := range []string{sample.Stderr, redact.Text(sample.Stderr, nil)} {
					require.Equal(t, want, classify(phase+executor.Failure(stderr).Error()), phase)
				}
			}
		})
	}
}

// classes returns every class, as each has samples.
func classes() (all []Class) {
	for _, class := range failures.Classes() {
		all = append(all, Class(class))
	}
	return all
}

func TestClasses(t *testing.T) {
	all := classes()
	require.ElementsMatch(t, []Class{ClassAuth, ClassQuota, ClassThrottle, ClassLock, ClassTimeout, ClassConfig, ClassInterrupted, ClassNetwork, ClassProviderPod, ClassUnknown}, all)
	passing := slices.DeleteFunc(all, func(class Class) bool { return !class.IsTransient() })
	require.ElementsMatch(t, []Class{ClassThrottle, ClassLock, ClassTimeout, ClassNetwork, ClassProviderPod}, passing)
	require.GreaterOrEqual(t, len(failures.Samples()), 25)
}

func TestTheSummaryIsEnoughUnlessTheSampleNeedsItsDetail(t *testing.T) {
	for _, sample := range failures.Samples() {
		if sample.Stderr == "" {
			continue // There is no summary.
		}
		t.Run(sample.Class+"/"+sample.Name, func(t *testing.T) {
			summary, _, _ := strings.Cut(phases[2]+executor.Failure(sample.Stderr).Error(), tailMark)
			found := ruleOf(summary, false)
			if sample.NeedsDetail() {
				require.False(t, found.isDecisive(), found.class)
			} else {
				require.False(t, found.vague && found.class != ClassLock, found.class)
				require.Equal(t, Class(sample.Class), found.class)
			}
		})
	}
}

// The API server limits messages to 32,768 characters. What is left of the output is used.
func TestClassesOfTruncatedMessages(t *testing.T) {
	for _, sample := range failures.Samples() {
		t.Run(sample.Class+"/"+sample.Name, func(t *testing.T) {
			message := phases[2] + executor.Failure(sample.Stderr).Error()
			readable, _, _ := strings.Cut(message, tailMark)
			fallback := classify(readable)
			for cut := len(readable); cut < len(message); cut++ {
				got := classify(message[:cut])
				if fallback == Class(sample.Class) {
					require.Equal(t, fallback, got, cut)
				} else {
					require.Contains(t, []Class{fallback, Class(sample.Class)}, got, cut)
				}
			}
		})
	}
	stderr := "\nError: creating EKS Cluster (demo)\n\nThrottlingException: Rate exceeded\n" + strings.Repeat("\nError: something else\n", 2000)
	message := phases[2] + executor.Failure(stderr).Error()
	require.Equal(t, ClassThrottle, classify(message[:len(message)-40]))
}

// Errors of the provider, the runtime of Crossplane and the API server.
func TestErrorsOfTheProvider(t *testing.T) {
	for message, want := range map[string]Class{
		"": ClassUnknown,
		"cannot determine creation result - remove the crossplane.io/external-create-pending annotation if it is safe to proceed":                                                                                     ClassInterrupted,
		"create failed: cannot apply Terraform configuration: context deadline exceeded":                                                                                                                              ClassTimeout,
		"create failed: cannot apply Terraform configuration: signal: killed":                                                                                                                                         ClassTimeout,
		"update failed: cannot apply Terraform configuration: error waiting for child process to terminate: exit status 1: shutdown while running terraform command: context canceled":                                ClassInterrupted,
		"update failed: cannot apply Terraform configuration: error waiting for child process to terminate: exit status 1: shutdown while running terraform command: context deadline exceeded":                       ClassTimeout,
		`connect failed: cannot get credentials: cannot get credentials secret: Secret "aws" not found`:                                                                                                               ClassAuth,
		`connect failed: cannot get credentials: cannot get credentials secret: Get "https://10.96.0.1:443/api/v1/namespaces/crossplane-system/secrets/aws": dial tcp 10.96.0.1:443: connect: connection refused`:     ClassNetwork,
		`connect failed: failed to resolve provider config: cannot get provider config: ProviderConfig.tf.upbound.io "aws" not found`:                                                                                 ClassConfig,
		`observe failed: cannot determine Terraform options: cannot get tfvars: ConfigMap "vars" not found`:                                                                                                           ClassConfig,
		`cannot create or update connection secret: refusing to modify uncontrolled secret of type "Opaque"`:                                                                                                          ClassConfig,
		`cannot create or update connection secret: secrets "demo" is forbidden: unable to create new content in namespace demo because it is being terminated`:                                                       ClassConfig,
		`cannot create or update connection secret: secrets is forbidden: User "system:serviceaccount:crossplane-system:provider-terraform" cannot create resource "secrets" in API group "" in the namespace "demo"`: ClassAuth,
		`cannot update managed resource: Operation cannot be fulfilled on workspaces.tf.upbound.io "demo": the object has been modified; please apply your changes to the latest version and try again`:               ClassLock,
	} {
		require.Equal(t, want, classify(message), message)
	}
}

func TestSpecificRulesComeFirst(t *testing.T) {
	for summary, want := range map[string]Class{
		"validating provider credentials: operation error STS: GetCallerIdentity, api error ThrottlingException: User is not authorized to perform that many requests": ClassThrottle,
		"failed to refresh cached credentials, operation error STS: AssumeRole, api error Throttling: Rate exceeded":                                                   ClassThrottle,
		"no EC2 IMDS role found, operation error ec2imds: GetMetadata, canceled, context deadline exceeded":                                                            ClassAuth,
		"creating Lambda Function (demo): InvalidParameterValueException: Your request has been throttled by EC2. EC2 Error Code: RequestLimitExceeded":                ClassThrottle,
		`Get "https://registry.terraform.io/.well-known/terraform.json": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`:                   ClassNetwork,
		"Error acquiring the state lock: operation error DynamoDB: PutItem, ConditionalCheckFailedException: The conditional request failed, and AccessDenied":         ClassLock,
		"Error acquiring the state lock: context deadline exceeded":                                                                                                    ClassLock,
		"creating EC2 VPC (AccessDenied-demo): unexpected state":                                                                                                       ClassUnknown,
		"waiting for EKS Cluster (demo) create: unexpected state 'FAILED', wanted target 'ACTIVE'. last error: AccessDenied: the role lacks AmazonEKSClusterPolicy":    ClassAuth,
		`creating PostgreSQL Database: pq: password authentication failed for user "demo"`:                                                                             ClassUnknown,
		"this plugin is newer than your current Terraform":                                                                                                             ClassUnknown,
		"getting credentials: exec: executable aws failed with exit code 254: cluster not found":                                                                       ClassAuth,
		"Unsupported argument: An argument named \"deletion_protection\" is not expected here":                                                                         ClassConfig,
		`creating Database: workspace "demo" already exists`:                                                                                                           ClassConfig,
		`Get "https://10.0.1.7/api/v1/namespaces": dial tcp 10.0.1.7:443: connect: connection refused`:                                                                 ClassNetwork,
		"running a script: cp: cannot create 'errored': No space left on device":                                                                                       ClassProviderPod,
		"\x1b[31mcreating EC2 EIP: AddressLimitExceeded: The maximum number of addresses has been reached.":                                                            ClassQuota,
	} {
		require.Equal(t, want, classify(phases[2]+executor.Failure("Error: "+summary+"\n").Error()), summary)
	}
}

func TestTheFirstErrorDecides(t *testing.T) {
	stderr := "Warning: Argument is deprecated\n\nUse AccessDenied instead.\n\n" +
		"Error: creating one thing\n\nIt said nothing.\n\nError: creating another\n\nVpcLimitExceeded: The maximum\n\nError: Unsupported argument\n\nAccessDenied\n"
	require.Equal(t, ClassQuota, classify(phases[2]+executor.Failure(stderr).Error()))
}

func TestBrokenTailsAreIgnored(t *testing.T) {
	for _, tail := range []string{
		"", "x", "H4sI", "====", "\xff\xfe", strings.Repeat("A", 1<<20), "H4sIAAAAAAAA/", base64.StdEncoding.EncodeToString([]byte("no gzip")),
		base64.StdEncoding.EncodeToString(append(zipped(t, "Error: AccessDenied\n")[:10], "garbage"...)),
	} {
		require.Equal(t, ClassUnknown, classify(`create failed: Summary: x. To see the full error run: echo "`+tail), tail[:min(len(tail), 20)])
	}
	require.Equal(t, ClassThrottle, classify(`create failed: Throttling: Rate exceeded. To see the full error run: echo "!!!" | base64 -d | gunzip`))
}

func TestWhatAnErrorSays(t *testing.T) {
	const message = "│ Error: creating it:\n│ InvalidSubnetID.NotFound: The subnet\n│ ID 'a' does not exist"
	for name, row := range map[string]struct {
		codes, phrases []string
		want           bool
	}{
		"a code":                      {codes: []string{"InvalidSubnetID"}, want: true},
		"one of several codes":        {codes: []string{"InvalidVpcID", "InvalidSubnetID.NotFound"}, want: true},
		"a code in another case":      {codes: []string{"invalidsubnetid"}},
		"a part of a code":            {codes: []string{"InvalidSubnet"}},
		"a phrase across a line":      {phrases: []string{"the subnet id '"}, want: true},
		"one of several phrases":      {phrases: []string{"the vpc id '", "does not exist"}, want: true},
		"a phrase when no code fits":  {codes: []string{"InvalidVpcID"}, phrases: []string{"does not exist"}, want: true},
		"another phrase":              {phrases: []string{"already exists"}},
		"nothing that is looked for":  {},
		"what is only in the heading": {phrases: []string{"creating it:"}, want: true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, Matches(message, row.codes, row.phrases)) })
	}
}

func TestABombIsNotUnpacked(t *testing.T) {
	bomb := base64.StdEncoding.EncodeToString(zipped(t, strings.Repeat("Error: \n", 16<<20/8)))
	message := phases[2] + `Terraform encountered an error. Summary: x. To see the full error run: echo "` + bomb + `" | base64 -d | gunzip`
	output, _ := unpack(message)
	require.LessOrEqual(t, len(output), maxUnpacked)

	took := cputime.Of(t, func() { require.Equal(t, ClassUnknown, Explain(message, Secrets{}, "").Class) })
	require.Less(t, took, time.Minute) // It takes half a second.
}

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func FuzzClassify(f *testing.F) {
	for _, sample := range failures.Samples() {
		message := phases[2] + executor.Failure(sample.Stderr).Error()
		f.Add(message)
		f.Add(message[:len(message)/2])
	}
	f.Add("Error: \xff Throttling\xff │ echo \"H4sI====")
	f.Fuzz(func(t *testing.T, message string) {
		class := classify(message)
		assert.Contains(t, classes(), class)
		assert.Equal(t, class, classify(message), "deterministic")
		assert.LessOrEqual(t, len(Explain(message, Secrets{}, "").Message), maxMessageLength)
		output, _ := unpack(message)
		assert.LessOrEqual(t, len(output), maxUnpacked)
	})
}
