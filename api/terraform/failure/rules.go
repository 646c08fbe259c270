// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

// rules in the order in which they are matched: specific texts first. A throttled or unreachable service comes before credentials that
// could not be read from it, and a deadline after what used up the time.
var rules = []rule{
	{class: ClassLock,
		codes: []string{
			"ConditionalCheckFailedException", "PreconditionFailed", // The s3 backend with DynamoDB, and with a lock file.
			"ConcurrentModificationException", "ConcurrentModification", "OperationAborted", // IAM, Route 53, S3.
		},
		phrases: []string{
			"state is already locked by another", "lock info:", // The kubernetes backend of either tool; every backend.
			"error locking state", "workspace is already locked", "error releasing the state lock", // Terraform's core.
			" in status creating", " in status updating", " in status deleting", "currently has an update in progress", // EKS changes one profile of a cluster at a time.
			"' is not in active status",                                   // EKS, while the cluster is created or deleted (from the API, as moto mocks it).
			"another operation (install/upgrade/rollback) is in progress", // Helm.
		}},
	{class: ClassInterrupted,
		phrases: []string{
			"cannot determine creation result",                           // Crossplane's runtime: the provider was terminated during a create.
			"shutdown while running terraform command: context canceled", // provider-terraform was stopped.
			"execution halted", "operation canceled", "request cancelled", //nolint:misspell // Terraform's core after SIGTERM, as it spells it.
			"context canceled",                           // An AWS request under way at that moment.
			"plugin did not respond", " plugin crashed!", // Terraform's core: the plugin of a provider crashed, or ran out of memory.
			"failed to save state", "failed to persist state to backend", "errored.tfstate", // Terraform's core.
		}},
	{class: ClassConfig,
		phrases: []string{"because it is being terminated"}}, // The API server: the namespace is being deleted.
	{class: ClassThrottle,
		codes: []string{ // Codes that the AWS SDK treats as throttling, and those of IAM that EKS returns.
			"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
			"TooManyRequestsException", "ProvisionedThroughputExceededException", "TransactionInProgressException", "RequestLimitExceeded",
			"BandwidthLimitExceeded", "SlowDown", "PriorRequestNotComplete", "EC2ThrottledException", "IAMThrottling", "IamThrottling",
		},
		phrases: []string{
			"rate exceeded", "request limit exceeded", "has been throttled", // Messages of these codes, when other errors quote them.
			"statuscode: 429", "status code: 429", "too many requests", // HTTP, from AWS and registries.
			"failed to get rate limit token", "retry quota exceeded", // The AWS SDK limits itself.
			"client rate limiter wait returned an error", // client-go limits itself.
		}},
	{class: ClassQuota,
		codes: []string{ // EC2's capacity and spot instances, S3.
			"InsufficientInstanceCapacity", "InsufficientHostCapacity", "MaxSpotInstanceCountExceeded", "TooManyBuckets",
		},
		phrases: []string{
			"limitexceeded",                                                     // VpcLimitExceeded, LimitExceeded of IAM, ResourceLimitExceededException of EKS and 100 more.
			"servicequotaexceeded", "cannot exceed quota", "reached your quota", // IAM, auto scaling.
			"exceeded quota:", // A ResourceQuota of Kubernetes.
		}},
	{class: ClassAuth,
		codes: []string{
			"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "NotAuthorized", "AuthFailure", // Policies.
			"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "IncompleteSignature",
			"MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidToken", "InvalidIdentityToken", // Keys.
			"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", // Age, and clocks.
			"OptInRequired", "SubscriptionRequiredException", "PendingVerification", // The account.
			"Unauthorized", "Forbidden", // Kubernetes, registries.
		},
		phrases: []string{
			"is not authorized to perform", "statuscode: 403", "status code: 403", "statuscode: 401", "status code: 401", // AWS.
			"missing permissions for ",                                                           // EKS, under the code of a bad request (awsdocs/amazon-eks-user-guide issue 279, aws-cdk issue 7614).
			"no ec2 imds role found",                                                             // The AWS SDK when all sources of credentials failed, also because of the network.
			" is forbidden: user ",                                                               // Kubernetes' RBAC, as the kubernetes backend returns it.
			"you must be logged in to the server", "asked for the client to provide credentials", // Kubernetes.
		}},
	{class: ClassLock, vague: true,
		phrases: []string{"error acquiring the state lock"}}, // Terraform's core: the lock may be held, refused or not reachable.
	{class: ClassNetwork,
		codes: []string{ // Internal errors of AWS.
			"InternalFailure", "InternalError", "InternalServerError", "InternalServerException", "ServerException",
			"ServiceUnavailable", "ServiceUnavailableException",
		},
		phrases: []string{
			"dial tcp", "no such host", "server misbehaving", "connection refused", "connection reset by peer", "connection timed out",
			"no route to host", "network is unreachable", "i/o timeout", "tls handshake timeout", "x509:", "client.timeout exceeded",
			"request canceled while waiting for connection", "unexpected eof", `": eof`, "broken pipe", "proxyconnect tcp",
			"http2: client connection lost",                                                          // Go's net, crypto and net/http.
			"request send failed",                                                                    // The AWS SDK before one of those.
			"could not connect to", "could not resolve host", "temporary failure in name resolution", // Registries, git.
			"statuscode: 500", "statuscode: 502", "statuscode: 503", "statuscode: 504", "bad gateway", "service unavailable", "gateway timeout",
			"etcdserver:", "was unable to return a response in the time allotted", // Kubernetes.
		}},
	{class: ClassAuth, vague: true,
		phrases: []string{
			"cannot get credentials",                                                                                                        // provider-terraform: the Secret that a ProviderConfig names.
			"no valid credential sources", "failed to refresh cached credentials", "cannot assume iam role", "static credentials are empty", // The AWS provider.
		}},
	{class: ClassTimeout,
		codes: []string{"RequestTimeout", "RequestTimeoutException", "DeadlineExceeded"}, // AWS, gRPC.
		phrases: []string{
			"timeout while waiting for", "couldn't find resource (", // The AWS provider's waiters.
			"timed out waiting for", "operation timed out", // Kubernetes, Helm.
			"context deadline exceeded", "signal: killed", // Go, and provider-terraform when its own timeout passed.
		}},
	{class: ClassConfig,
		codes: []string{
			"ValidationException", "ValidationError", "InvalidParameter", "InvalidParameterException", "InvalidParameterValue",
			"InvalidParameterValueException", "InvalidParameterCombination", "InvalidRequest", "InvalidRequestException", "InvalidInput",
			"MissingParameter", "UnknownParameter", "MalformedPolicyDocument", "UnsupportedOperation", "UnsupportedAvailabilityZoneException",
			"InvalidSubnet", "InvalidVpc", "InvalidVpcID", "InvalidSubnetID", "InvalidGroup", "InvalidPermission", "InvalidKMSKey",
			"ResourceInUseException", "ResourceNotFoundException", "NoSuchBucket", "NoSuchEntity", "DependencyViolation", "DeleteConflict",
			"EntityAlreadyExists", "AlreadyExistsException", "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty", // AWS.
			"NodeCreationFailure", "Ec2SubnetInvalidConfiguration", // Health issues of node groups.
		},
		phrases: []string{
			".notfound:", ".duplicate:", ".malformed:", "already exists", // AWS, by the suffix of the code.
			"no available releases match", "match any of the checksums", "s3 bucket does not exist", `" does not exist`, "no configuration has been provided", // Installation, backends.
			"cannot get providerconfig", "failed to resolve provider config", // provider-terraform v0 and v1.
			"admission webhook",                                                                                                     // Kubernetes.
			"cannot get provider config", "cannot resolve variables", "cannot get tfvars", "refusing to modify uncontrolled secret", // provider-terraform.
		},
		summaries: []string{ // Terraform's core.
			"invalid ", "unsupported ", "missing ", "reference to undeclared", "duplicate ", "conflicting ", "incorrect ", "inconsistent conditional",
			"no value for required variable", "value for undeclared variable", "argument or block definition required", "unclosed ", "unterminated ",
			"call to unknown function", "error in function call", "not enough function arguments", "too many function arguments", "cycle: ",
			"attempt to index null value", "attempt to get attribute from null value", "iteration over null value", "unexpected attribute",
			"module not installed", "unreadable module directory", "inconsistent dependency lock file", "provider configuration not present",
			"backend initialization required", "backend configuration changed", "instance cannot be destroyed",
			"resource precondition failed", "resource postcondition failed", "module output value precondition failed", "check block assertion failed", "failed to read ",
		}},
	{class: ClassNetwork, vague: true,
		summaries: []string{ // Installation: a version that does not exist, or a registry that is not reachable.
			"failed to query available provider packages", "failed to resolve provider packages", "failed to install provider", "failed to download module",
		}},
}
