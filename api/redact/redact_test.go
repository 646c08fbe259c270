// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/cputime"
	"github.com/capt-provider/capt/test/provider/failures"
)

// encodings are the forms in which Terraform and its providers can repeat a value.
func encodings(value string) map[string]string {
	marshaled, _ := json.Marshal(value)
	quoted := strconv.Quote(value)
	return map[string]string{
		"raw":            value,
		"JSON":           string(marshaled[1 : len(marshaled)-1]),
		"Go":             quoted[1 : len(quoted)-1],
		"query":          url.QueryEscape(value),
		"path":           url.PathEscape(value),
		"base64":         base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 raw":     base64.RawStdEncoding.EncodeToString([]byte(value)),
		"base64 url":     base64.URLEncoding.EncodeToString([]byte(value)),
		"base64 url raw": base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
}

func TestAKnownValueIsReplacedInEveryForm(t *testing.T) {
	for _, value := range []string{
		"hunter2", "correct horse battery staple", `pa"ss\wörd<&>%+/=?`, "tab\tand\nline", "${not.a.variable}", "12345678", "a/b?c=d&e",
	} {
		for name, form := range encodings(value) {
			t.Run(value+" as "+name, func(t *testing.T) {
				require.Equal(t, "it said [redacted], twice [redacted]!", Text("it said "+form+", twice "+form+"!", [][]byte{[]byte(value)}))
			})
		}
	}
}

func TestKnownValueIsFoundWithinBase64(t *testing.T) {
	for _, user := range []string{"a", "ab", "abc"} {
		header := base64.StdEncoding.EncodeToString([]byte(user + ":correct horse"))
		got := Text("it sent "+header, [][]byte{[]byte("correct horse")})
		require.Contains(t, got, "[redacted]")
		require.NotContains(t, got, header[4:len(header)-4])
	}
}

func TestKnownValueIsFoundInFoldedLines(t *testing.T) {
	require.Equal(t, "got [redacted].", Text("got first line second line.", [][]byte{[]byte("first line\n  second line\n")}))
}

func TestPartsOfAKnownValueAreReplaced(t *testing.T) {
	for name, row := range map[string]struct{ value, text, want string }{
		"a line":                   {"first-part\nsecond-part\n", "got second-part", "got [redacted]"},
		"a string in JSON":         {`{"user": "alice", "keys": [{"value": "hunter22"}]}`, `user: "hunter22"`, `user: "[redacted]"`},
		"JSON in JSON":             {`{"document": "{\"value\": \"hunter22\"}"}`, "got hunter22", "got [redacted]"},
		"not a name in JSON":       {`{"cluster": "hunter22"}`, "the cluster said hunter22", "the cluster said [redacted]"},
		"a value in tfvars":        {"vpc_cidr = \"10.0.0.0/16\"\nvalue = \"hunter22\"\n", "got hunter22", "got [redacted]"},
		"an escape in tfvars":      {`value = "hunter\"22"`, `got hunter"22`, "got [redacted]"},
		"an object in tfvars":      {`value = { user = "alice", other = "hunter22" }`, "got hunter22", "got [redacted]"},
		"a list in tfvars":         {"value = [\n  \"hunter22\",\n]\n", "got hunter22", "got [redacted]"},
		"a line of a credentials":  {"[default]\naws_access_key_id = one\naws_secret_access_key = hunter22\n", "got hunter22", "got [redacted]"},
		"a token in a kubeconfig":  {"users:\n- user:\n    token: hunter22\n", "got hunter22", "got [redacted]"},
		"but no region in it":      {"region = \"ap-northeast-1\"\n", "in ap-northeast-1", "in ap-northeast-1"},
		"nor a flag":               {"enabled = true\n", "it is true and enabled", "it is true and enabled"},
		"nor an id, ARN or number": {"a = \"vpc-0a1b2c3d4e5f60718\"\nb = \"arn:aws:iam::111122223333:role/demo\"\nc = \"111122223333\"", "vpc-0a1b2c3d4e5f60718 of arn:aws:iam::111122223333:role/demo", "vpc-0a1b2c3d4e5f60718 of arn:aws:iam::111122223333:role/demo"},
		"nor anything short":       {"value = \"a1b2c\"", "got a1b2c", "got a1b2c"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, Text(row.text, [][]byte{nil, []byte(row.value)}))
		})
	}
}

// What a user reads anyway, in the spec or in the outputs, is needed to understand a sentence.
func TestWordsOfPublicTextsAreKept(t *testing.T) {
	const public = `{"forProvider": {"module": "variable \"engine\" { default = \"postgres\" } # subnets are public", "vars": [{"key": "name", "value": "demo-blue"}]}, "poll": 1000000}`
	for name, row := range map[string]struct{ value, text, want string }{
		"a name in tfvars":                   {"cluster_name = \"demo-blue\"\n", "creating EKS Cluster (demo-blue)", "creating EKS Cluster (demo-blue)"},
		"a part of a name":                   {`{"team": "demo-blue", "prefix": "engine"}`, "of demo-blue and engine-1", "of demo-blue and engine-1"},
		"a word of a sentence":               {`visibility = "public"`, "it has some mapped public addresses", "it has some mapped public addresses"},
		"a number":                           {`poll = "1000000"`, "every 1000000 ms", "every 1000000 ms"},
		"in an object":                       {`value = { engine = "postgres", password = "hunter22" }`, "postgres refused hunter22", "postgres refused [redacted]"},
		"the vocabulary of a kubeconfig":     {`{"apiVersion": "v1", "kind": "Config", "token": "hunter22"}`, "Config of hunter22", "Config of [redacted]"},
		"but not a password":                 {`db_password = "postgres"`, "refused postgres", "refused [redacted]"},
		"nor a password in an object":        {`value = { password = "postgres" }`, "refused postgres", "refused [redacted]"},
		"nor a password in JSON":             {`{"credentials": [{"value": "postgres"}]}`, "refused postgres", "refused [redacted]"},
		"nor a value without a name":         {"postgres", "refused postgres", "refused [redacted]"},
		"nor an element without a name":      {"values = [\n  \"postgres\",\n]\n", "refused postgres", "refused [redacted]"},
		"nor a part of a public word":        {`value = "postgre"`, "refused postgre", "refused [redacted]"},
		"nor text that looks like a secret":  {`value = "AKIAIOSFODNN7EXAMPLE"`, "refused AKIAIOSFODNN7EXAMPLE", "refused [redacted]"},
		"nor what is not in the public text": {`owner = "platform"`, "creating platform-vpc", "creating [redacted]-vpc"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, Text(row.text, [][]byte{[]byte(row.value)}, public, "AKIAIOSFODNN7EXAMPLE"))
		})
	}
}

func TestAdjacentAndOverlappingValuesAreRedactedOnce(t *testing.T) {
	known := [][]byte{[]byte("abcdefgh"), []byte("efghijkl"), []byte("123456")}
	require.Equal(t, "x[redacted]x", Text("xabcdefghijkl123456x", known))
}

const (
	awsSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	jwt       = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJkZW1vIiwiZXhwIjoxfQ.c2lnbmF0dXJlLWlzLW5vdC1yZWFs"
)

func TestTextThatLooksLikeASecretIsRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"key AKIAIOSFODNN7EXAMPLE of demo":                                          "key [redacted] of demo",
		"key ASIAIOSFODNN7EXAMPLE.":                                                 "key [redacted].",
		"with " + awsSecret + ", refused":                                           "with [redacted], refused",
		"aws_secret_access_key = " + awsSecret:                                      "aws_secret_access_key = [redacted]",
		"AWS_SESSION_TOKEN=FwoGZXIvYXdzEJr%2F%2F refused":                           "AWS_SESSION_TOKEN=[redacted] refused",
		`{"SecretAccessKey":"abc/def+1","Expiration":"x"}`:                          `{"SecretAccessKey":"[redacted]","Expiration":"x"}`,
		`said {\"password\":\"hunter2\",\"user\":\"demo\"}`:                         `said {\"password\":\"[redacted]\",\"user\":\"demo\"}`,
		"token " + jwt + " expired":                                                 "token [redacted] expired",
		"token k8s-aws-v1.aHR0cHM6Ly9zdHM_ZXhhbXBsZQ here":                          "token [redacted] here",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nend": "[redacted]\nend",
		"-----BEGIN CERTIFICATE----- MIIB cut":                                      "[redacted]",
		`password = "hunter2"`:                                                      `password = "[redacted]"`,
		`db_password: hunter2`:                                                      `db_password: [redacted]`,
		`DB_PASSWORD='hun"ter2'`:                                                    `DB_PASSWORD='[redacted]'`,
		`client_secret=abc&state=1`:                                                 `client_secret=[redacted]&state=1`,
		`apiKey: a1b2c3d4e5`:                                                        `apiKey: [redacted]`,
		`client-key-data: "LS0t"`:                                                   `client-key-data: "[redacted]"`,
		`x-api-key = abc`:                                                           `x-api-key = [redacted]`,
		"https://demo:hunter2@git.example.com/demo.git":                             "https://[redacted]@git.example.com/demo.git",
		"git::https://ghp_abc@github.com/demo/vpc.git":                              "git::https://[redacted]@github.com/demo/vpc.git",
		"Authorization: Basic ZGVtbzpodW50ZXIy":                                     "Authorization: [redacted]",
		"Authorization: Bearer abc.def, retried":                                    "Authorization: [redacted], retried",
		"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=abc123 was refused": "Authorization: [redacted] was refused",
		"sent bearer a1b2c3d4e5 to it":                                         "sent bearer [redacted] to it",
		"sha 7657e5c54cd4931a41ebb01f78013a4a1f484fa14274d238c68753b13b79de72": "sha [redacted]",
		"?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20260101&X-Amz-Expires=300&X-Amz-Signature=abc1&X-Amz-SignedHeaders=host": "?X-Amz-Credential=[redacted]&X-Amz-Expires=300&X-Amz-Signature=[redacted]&X-Amz-SignedHeaders=host",
	} {
		t.Run(text, func(t *testing.T) { require.Equal(t, want, Text(text, nil)) })
	}
}

func TestDetailsForTroubleshootingAreKept(t *testing.T) {
	for _, text := range []string{
		"",
		"User: arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_AdministratorAccess_0a1b2c3d4e5f6a7b/Demo is not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::111122223333:role/demo",
		"arn:aws:iam::111122223333:oidc-provider/oidc.eks.ap-northeast-1.amazonaws.com/id/0A1B2C3D4E5F60718293A4B5C6D7E8F9",
		"arn:aws:elasticloadbalancing:ap-northeast-1:111122223333:loadbalancer/net/ABcdEF0a1b2c3d4E5f607/50dc6c495c0c9188",
		"secret: arn:aws:secretsmanager:ap-northeast-1:111122223333:secret:demo-a1b2c3",
		"RequestID: 7c1b0f52-6a0e-4f0c-9a53-0d3a1c1a7f10, api error AccessDenied",
		"RequestID: VV4KQNSO5AEMVJF66Q9ASUAAJGVV4KQNSO5AEMVJF66Q9ASUAAJG, HostID: eftixk72aD6Ap51TnqcoF8eFidJG9Z/2mkiDFu8yU9AS1ed4OpIszj7UDNEHGran=, api error",
		"status code: 403, request id: 7c1b0f52-6a0e-4f0c-9a53-0d3a1c1a7f10",
		"vpc-0a1b2c3d4e5f60718, subnet-0a1b2c3d4e5f60718 and sg-0a1b2c3d",
		"eks-default-20c1d2e3-f405-4617-8829-3a4b5c6d7e8f: AsgInstanceLaunchFailures",
		"https://0A1B2C3D4E5F60718293A4B5C6D7E8F9.gr7.ap-northeast-1.eks.amazonaws.com/version",
		"/tf/7c1b0f52-6a0e-4f0c-9a53-0d3a1c1a7f10/.terraform/modules/eks/modules/eks-managed-node-group/main.tf line 420",
		".terraform/providers/registry.terraform.io/hashicorp/aws/6.0.0/linux_amd64/terraform-provider-aws_v6.0.0_x5",
		"terraform-aws-modules/eks/aws//modules/self-managed-node-group-with-a-very-long-name-0123456789",
		"github.com/hashicorp/terraform-provider-aws/internal/service/eks.resourceClusterCreate",
		"role demo-AmazonEKSClusterNodeInstanceRole-1ABCDEF2GHIJ3 and demo-20260101030000000000000001-20260101030000000000000002",
		"MissingAuthenticationTokenException: and AsgInstanceLaunchFailuresOfTheNodeGroupNumber1OfTheCluster",
		"git::ssh://git@github.com/demo/vpc.git?ref=0a1b2c3d4e5f",
		"unsupported Kubernetes version 1.12, v6.0.0 of 2026-01-01T03:00:00Z in ap-northeast-1a",
		"api error InvalidClientTokenId: The security token included in the request is invalid.",
		"api error ExpiredToken: The security token included in the request is expired",
		`connect failed: cannot get credentials: cannot get credentials secret: Secret "aws" not found`,
		`secret: secrets is forbidden: User "system:serviceaccount:crossplane-system:provider-terraform" cannot get resource`,
		`12:   password = var.password`,
		`12:   condition = var.password == "" && local.token != null`,
		`in resource "aws_secretsmanager_secret" "this": 4: resource "aws_secretsmanager_secret" "this" {`,
		`+ master_password = (sensitive value)`,
		`secret_name = "demo", token_ttl = 3600, password_policy = "strict", enable_secret = true`,
		"bearer authentication is not supported",
		"failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata",
		"failed to get rate limit token, retry quota exceeded, 3 available, 5 requested",
		"conflicts with 10.0.1.0/24 of commit 0a1b2c3d4e5f",
	} {
		t.Run(text, func(t *testing.T) { require.Equal(t, text, Text(text, nil)) })
	}
}

// These parts of real errors are lost: the decoded authorization failure, and a presigned URL.
func TestErrorsRemainReadable(t *testing.T) {
	for _, sample := range failures.Samples() {
		t.Run(sample.Class+"/"+sample.Name, func(t *testing.T) {
			got := Text(sample.Stderr, nil)
			switch sample.Name {
			case "ec2-unauthorized-operation":
				require.Contains(t, got, "ec2:CreateVpc action. Encoded authorization failure message: [redacted]\n")
			case "provider-download-only-detail-explains":
				require.Contains(t, got, "X-Amz-Credential=[redacted]&X-Amz-Date=20260101T030000Z&X-Amz-Expires=300&X-Amz-Signature=[redacted]&X-Amz-SignedHeaders=host\":\nnet/http: TLS handshake timeout")
			default:
				require.Equal(t, sample.Stderr, got)
			}
		})
	}
}

func TestLongTextsAreRedactedInLinearTime(t *testing.T) {
	for _, text := range []string{"token: ", "token=arn:aws:", `token="`, "https://a@", "-----BEGIN A-----", "eyJ", "Authorization: Basic a ", "aB3/", "request id: "} {
		text = strings.Repeat(text, 1<<18/len(text))
		var got string
		took := cputime.Of(t, func() { got = Text(text, [][]byte{[]byte(text[:1<<14])}) })
		require.Less(t, took, 30*time.Second, text[:16]) // It takes half a second.
		require.LessOrEqual(t, len(got), 3*len(text))
	}
}

func FuzzRedact(f *testing.F) {
	for _, text := range []string{
		"", "it said ", "password=", `{"token": "`, "https://", "Authorization: Bearer ", "x[redacted]", "-----BEGIN A-----", "[redac",
		"AKIAIOSFODNN7EXAMPLE", awsSecret, jwt, "secret: secret: token=password:",
	} {
		for _, value := range []string{"hunter2", `a"b\c<d>é`, "redacted", "one\ntwo-three\n", `{"a": "hunter22"}`, "a = \"hunter22\"\nb = true"} {
			f.Add(text, value, " end")
			f.Add(text, value, text)
		}
	}
	f.Fuzz(func(t *testing.T, before, value, after string) {
		known := [][]byte{[]byte(value)}
		for name, form := range encodings(value) {
			text := before + form + after
			got := Text(text, known)

			require.Equal(t, got, Text(got, known), "redacting again changes nothing")
			require.LessOrEqual(t, len(got), 3*len(text)+len(Placeholder))
			if trimmed := strings.TrimSpace(value); len(trimmed) < minSecret || trimmed != value || isPublic(value) || !utf8.ValidString(value) || strings.Contains(value, Placeholder) {
				continue
			}
			for _, piece := range strings.Split(got, Placeholder) {
				assert.NotContains(t, piece, form, name)
			}
		}
	})
}

// Callers pass several values: of which one can be a part of another, or begin where another one ends.
func FuzzRedactSeveral(f *testing.F) {
	for _, values := range [][2]string{{"hunter2", "hunter22"}, {"abcdef123", "123xyz-uvw"}, {"a b c d", "c d e f"}, {`{"a": "hunter22"}`, "hunter22"}, {"redact", "[redacted"}, {"eu-central-1", "central-1-x"}} {
		for _, glue := range []string{"", " ", "=", "\n", `": "`, "%"} {
			f.Add(values[0], values[1], glue, uint8(0))
			f.Add(values[1], values[0], glue, uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, first, second, glue string, overlap uint8) {
		shared := int(overlap) % (min(len(first), len(second)) + 1)
		text := glue + first + glue + second + glue + first
		if strings.HasSuffix(first, second[:shared]) {
			text += first + second[shared:]
		}
		known := [][]byte{[]byte(first), []byte(second)}
		got := Text(text, known)
		require.Equal(t, got, Text(got, known), "redacting again changes nothing")
		require.Equal(t, got, Text(text, [][]byte{[]byte(second), []byte(first)}), "the order has no effect")
		require.LessOrEqual(t, len(got), 3*len(text)+len(Placeholder))
		for _, value := range []string{first, second} {
			if trimmed := strings.TrimSpace(value); len(trimmed) < minSecret || trimmed != value || isPublic(value) || strings.Contains(value, Placeholder) {
				continue
			}
			for _, piece := range strings.Split(got, Placeholder) {
				assert.NotContains(t, piece, value)
			}
		}
	})
}

// captctl shows variables of modules by their names.
func FuzzRedactVariables(f *testing.F) {
	for _, name := range []string{"password", "db_password", "region", "token", "api_key", "a\nb", "", "secret_name"} {
		for _, value := range []string{"hunter2-hunter2", "eu-central-1", "\n", `"`, "[redacted]", "x = y"} {
			f.Add(name, value)
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		got := Value(name, value)
		require.LessOrEqual(t, len(got), 3*len(value)+len(Placeholder))
		if strings.HasSuffix(name, "password") {
			require.Equal(t, Placeholder, got)
		}
	})
}
