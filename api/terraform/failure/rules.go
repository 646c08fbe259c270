// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

// Object is what a user looks at first to correct an error.
type Object string

// Objects.
const (
	ObjectTemplate       Object = "WorkspaceTemplate" // The module and its variables, in the WorkspaceTemplate and in the object that has the variables.
	ObjectModuleSource   Object = "ModuleSource"      // The address and the version of a module, and the credentials for it.
	ObjectFluxSource     Object = "FluxSource"        // The GitRepository or OCIRepository that has the module.
	ObjectSecret         Object = "Secret"            // A Secret or ConfigMap that varFiles or env read.
	ObjectProviderConfig Object = "ProviderConfig"    // The ProviderConfig, and the Secrets that it names.
	ObjectWorkspace      Object = "Workspace"         // The Workspace of provider-terraform.
	ObjectProviderPod    Object = "ProviderPod"       // The Pod of provider-terraform: its disk, memory, image and plugin cache.
	ObjectCredentials    Object = "Credentials"       // The credentials for AWS.
	ObjectPermissions    Object = "Permissions"       // The IAM policies, or the RBAC, of the identity that was accepted.
	ObjectAWSAccount     Object = "AWSAccount"        // The AWS account: its quotas, and what it is activated for.
	ObjectNamespace      Object = "Namespace"         // A policy, a webhook or a quota of a namespace of Kubernetes.
	ObjectAWS            Object = "AWS"               // AWS itself.
	ObjectBackend        Object = "Backend"           // The storage of the state.
	ObjectState          Object = "State"             // The Terraform state.
	ObjectLock           Object = "Lock"              // The lock of the state.
	ObjectNetwork        Object = "Network"           // The network between provider-terraform and a service.
	ObjectCluster        Object = "Cluster"           // The API server of the workload cluster.
	ObjectNodeGroup      Object = "NodeGroup"         // A managed node group of EKS.
	ObjectVersion        Object = "Version"           // spec.version of the CAPTControlPlane.
	ObjectExisting       Object = "ExistingResource"  // A resource that exists, but is not in the state.
	ObjectLeftover       Object = "Leftover"          // A resource that is not in the state and blocks a destroy.
)

// Description is the object in a sentence.
func (o Object) Description() string {
	return map[Object]string{
		ObjectTemplate: "the module of the WorkspaceTemplate and its variables", ObjectModuleSource: "the address and the version of the module, and the credentials for it",
		ObjectFluxSource: "the Flux source of the module", ObjectSecret: "the Secret or ConfigMap that the Workspace reads", ObjectProviderConfig: "the ProviderConfig, and the Secrets that it names",
		ObjectWorkspace: "the Workspace", ObjectProviderPod: "the Pod of provider-terraform", ObjectCredentials: "the credentials for AWS",
		ObjectPermissions: "the permissions of the identity", ObjectAWSAccount: "the AWS account", ObjectNamespace: "the policies, webhooks and quotas of the namespace", ObjectAWS: "AWS", ObjectBackend: "the backend of the Terraform state",
		ObjectState: "the Terraform state", ObjectLock: "the lock of the Terraform state", ObjectNetwork: "the network", ObjectCluster: "the API server of the cluster",
		ObjectNodeGroup: "the node group", ObjectVersion: "spec.version of the CAPTControlPlane", ObjectExisting: "the resource that exists in AWS", ObjectLeftover: "what is left in AWS",
	}[o]
}

// rule is what is known about the errors that it matches. An error matches if it has a code, a phrase or a summary and, if there are any, one of also.
type rule struct {
	class  Class
	object Object
	// advice is empty if the advice of the class or of the stage is good enough.
	advice string
	// vague is true for summaries of Terraform whose cause is in the detail.
	vague bool
	// destroys is true if the rule is for terraform destroy only.
	destroys bool
	// codes are whole words, with the case of AWS.
	codes []string
	// phrases are in lower case, and match in any case and anywhere.
	phrases []string
	// summaries are in lower case, and match only at the beginning of an error.
	summaries []string
	also      []string
}

var unclassified = &rule{class: ClassUnknown, object: ObjectTemplate}

// killed is the rule of a run that printed nothing.
var killed = &rule{class: ClassInterrupted, object: ObjectState}

// ConfigurationFile is where provider-terraform writes spec.configuration of a ProviderConfig.
const ConfigurationFile = "crossplane-provider-config.tf"

// configuration is the rule of an error that Terraform finds in this file, if nothing but the module would be the cause.
var configuration = &rule{class: ClassConfig, object: ObjectProviderConfig, advice: "The file is spec.configuration of the ProviderConfig, not a part of the module: correct it there. " + retries}

// unsaved is the rule of a run of which the state could not be saved. It comes before all others, whatever else went wrong: each run that follows
// creates again what this one has created.
var unsaved = &rule{
	class: ClassConfig, object: ObjectState,
	advice: "Resources that this run created exist outside of the Terraform state, and each run creates them again. CAPT pauses the Workspace: " +
		"import or delete these resources, and correct the backend (docs/recovery.md, A state that cannot be saved). The kubernetes backend stores at most 1 MiB: use the s3 backend.",
	phrases: []string{"failed to save state", "failed to persist state to backend", "errored.tfstate", "catastrophic error has prevented"},
}

// uidOfWorkspace is replaced by the UID of the Workspace in an advice.
const uidOfWorkspace = "UID-of-the-Workspace"

// workspaceArguments and secretArguments are replaced by the arguments with which kubectl finds the Workspace, and its connection Secret.
const (
	workspaceArguments = "WORKSPACE"
	secretArguments    = "SECRET"
)

// programs are those of the image of provider-terraform v1.
const programs = "The module runs a program that provider-terraform cannot find. Its image has only terraform, bash, git and curl, and the tools of Alpine Linux: no aws, jq, kubectl or ssh. " +
	"Use a data source or a resource instead (for a token of EKS: aws_eks_cluster_auth), or an image that has the program."

// networkLeftover is the rule of parts of a VPC that something uses. Its advice has the place of their IDs.
var networkLeftover = rule{
	class: ClassConfig, object: ObjectLeftover, destroys: true,
	advice: "Resources that are not in the Terraform state still use %s, usually load balancers, network interfaces or security groups that workloads created. " +
		"Delete them as described in docs/deletion-reference.md (Leftovers in the VPC). " + retries,
	codes: []string{"DependencyViolation", "InvalidGroup.InUse", "InvalidNetworkInterface.InUse"},
}

// rules in the order in which they are matched: specific texts first. A throttled or unreachable service comes before credentials that
// could not be read from it, and a deadline after what used up the time. testdata/corpus.yaml has texts for them.
var rules = []rule{
	// Locks.
	{
		class: ClassLock, object: ObjectWorkspace, advice: "Another client changed the object at the same time. " + retries,
		phrases: []string{"the object has been modified; please apply your changes"},
	},
	{
		class: ClassLock, object: ObjectCluster,
		advice:  "Another Helm operation runs in the workload cluster. " + retries + " If none runs, an interrupted one has left the release pending: roll it back with helm rollback.",
		phrases: []string{"another operation (install/upgrade/rollback) is in progress"},
	},
	{
		class: ClassLock, object: ObjectAWS, advice: "AWS is changing the same resource. " + retries,
		codes: []string{"ConcurrentModificationException", "ConcurrentModification", "OperationAborted"}, // IAM, Route 53, S3.
		phrases: []string{
			" in status creating", " in status updating", " in status deleting", // EKS changes one Fargate profile of a cluster at a time.
			"currently has an update in progress", " currently has update ", "currently not in active state",
			"' is not in active status", // EKS, while the cluster is created or deleted (from the API, as moto mocks it).
		},
	},
	{ // Terraform's "workspace new", which provider-terraform runs when "workspace select" fails. It prints no "Error:".
		class: ClassNetwork, object: ObjectBackend, advice: "The backend could not be read a moment before, so that the Terraform workspace was not found. " + retries + persists + "check the backend.",
		summaries: []string{`workspace "`}, also: []string{`" already exists`},
	},
	{
		class: ClassLock, object: ObjectLock,
		codes: []string{"ConditionalCheckFailedException", "PreconditionFailed"}, // The s3 backend with DynamoDB, and with a lock file.
		phrases: []string{
			"state is already locked by another", "http remote state already locked", "lock info:", // The kubernetes backend of either tool; every backend.
			"error locking state", "workspace is already locked", "error releasing the state lock", "does not match existing lock", // Terraform's core.
		},
	},
	// Interrupted runs.
	{
		class: ClassInterrupted, object: ObjectState,
		phrases: []string{
			"cannot determine creation result",                           // Crossplane's runtime: the provider was terminated during a create.
			"shutdown while running terraform command: context canceled", // provider-terraform was stopped.
			"execution halted", "operation canceled", "request cancelled", //nolint:misspell // Terraform's core after SIGTERM, as it spells it.
			"context canceled",                           // An AWS request under way at that moment.
			"plugin did not respond", " plugin crashed!", // Terraform's core: the plugin of a provider crashed, or ran out of memory.
		},
	},
	{ // A second run reads what the first one has created.
		class: ClassUnknown, object: ObjectTemplate, advice: "This is a bug of a Terraform provider, which a second run usually passes. " + retries + persists + "use another version of the Terraform provider.",
		summaries: []string{"provider produced in"},
	},
	{class: ClassConfig, object: ObjectTemplate, phrases: []string{"because it is being terminated"}}, // The API server: the namespace is being deleted.
	// The Pod of provider-terraform: no module causes these errors.
	{
		class: ClassProviderPod, object: ObjectProviderPod,
		advice: "The disk of provider-terraform is full: each Workspace has a directory in /tf, with its own copy of the Terraform providers unless pluginCache of the ProviderConfig is true. " + retries +
			" Use a larger volume for /tf, or fewer Workspaces (docs/provider-terraform.md).",
		phrases: []string{"no space left on device", "disk quota exceeded"},
	},
	{
		class: ClassProviderPod, object: ObjectProviderPod,
		advice: "The plugin cache of provider-terraform is damaged, or the file .terraform.lock.hcl of the module has no checksums for linux. " + retries + persists +
			"add them (terraform providers lock -platform=linux_amd64), or restart provider-terraform.",
		phrases: []string{"checksums previously recorded"},
	},
	{
		class: ClassProviderPod, object: ObjectProviderPod,
		advice: "The plugin cache or the working directory of provider-terraform is damaged, for example because two runs wrote it at the same time. The module is not the cause. " + retries + persists + "restart provider-terraform.",
		phrases: []string{
			"text file busy", "match any of the checksums", "there is no package for", "unable to acquire file lock", "it is still not detected in", "provider binary not found",
			"plugin reinitialization required", "the specified plugin cache dir", "failed to install provider from shared cache",
		},
		summaries: []string{"required plugins are not installed", "inconsistent dependency lock file", "module not installed"},
	},
	{
		class: ClassProviderPod, object: ObjectProviderPod,
		advice: "provider-terraform cannot write the working directory of this Workspace, so its volume /tf or the directory is damaged. The module is not the cause. " + retries + persists +
			"correct in the Pod what the error names, or restart provider-terraform.",
		phrases: []string{"cannot make terraform configuration directory", "cannot write terraform configuration"},
	},
	{
		class: ClassProviderPod, object: ObjectProviderPod,
		advice:  "A Terraform provider did not start in time: provider-terraform has too little memory or CPU for the runs of this moment. " + retries + persists + "raise its resources, or lower --max-reconcile-rate.",
		phrases: []string{"timeout while waiting for plugin to start", "authentication handshake failed: context deadline exceeded"},
	},
	{
		class: ClassConfig, object: ObjectProviderPod, advice: programs,
		phrases: []string{"executable file not found in", "exit status 127", ": command not found", "must be available and on the path", "cannot run ssh:"},
	},
	{
		class: ClassAuth, object: ObjectCredentials, advice: "The program that gets the credentials for the cluster failed. Correct the credentials in its environment. " + retries,
		phrases: []string{"exec: executable "}, also: []string{" failed with exit code"},
	},
	{class: ClassConfig, object: ObjectProviderPod, advice: programs, phrases: []string{"exec: executable "}, also: []string{" not found"}},
	{
		class: ClassConfig, object: ObjectTemplate,
		advice:  "A value in vars of the WorkspaceTemplate is too long for a command line. Pass it in varmap or varFiles.",
		phrases: []string{"argument list too long"},
	},
	// The kubernetes and helm providers of a module.
	{
		class: ClassConfig, object: ObjectBackend,
		advice:  "The backend kubernetes has no cluster: its config_path in the ProviderConfig names no kubeconfig. Correct it, or set in_cluster_config = true. " + retries,
		phrases: []string{"failed to get existing workspaces", "tfstate"}, also: []string{"dial tcp 127.0.0.1:80:", "dial tcp [::1]:80:"},
	},
	{
		class: ClassConfig, object: ObjectTemplate,
		advice: "The kubernetes or helm provider of the module has no cluster: its configuration is empty, because the cluster does not exist yet or any more. Move what it manages to a template of its own that waits for the cluster, " +
			"or remove it from the state: terraform state rm (docs/deletion-reference.md, Other leftovers).",
		phrases: []string{"://localhost/", "dial tcp 127.0.0.1:80:", "dial tcp [::1]:80:", "kubernetes cluster unreachable: invalid configuration"},
	},
	{
		class: ClassAuth, object: ObjectCluster,
		advice:    "The cluster rejects the identity of Terraform. Give the role of the ProviderConfig an access entry of the EKS cluster, or correct the credentials of the kubernetes provider or backend. " + retries,
		phrases:   []string{"you must be logged in to the server", "asked for the client to provide credentials"}, // Kubernetes.
		summaries: []string{"unauthorized.", "unauthorized on ", "unauthorized with "},                            // The kubernetes provider.
	},
	// Resources that cannot be destroyed. AWS names what uses them only partly.
	{ // The next run finds what this one has destroyed, and removes it from the state.
		class: ClassNetwork, object: ObjectBackend, destroys: true,
		advice:  "The state could not be saved; what was destroyed meanwhile stays in it until the next run. " + retries + persists + "correct the backend in the ProviderConfig.",
		phrases: unsaved.phrases,
	},
	{
		class: ClassConfig, object: ObjectTemplate,
		advice:  "The module protects this resource (prevent_destroy). Remove the protection in the WorkspaceTemplate, or in AWS, if it may be destroyed. " + retries,
		phrases: []string{"prevent_destroy set, but"}, summaries: []string{"instance cannot be destroyed", "resource instance cannot be destroyed"},
	},
	{
		class: ClassConfig, object: ObjectTemplate, destroys: true,
		advice:  "AWS protects this resource from deletion. Set the variable of the module that disables the protection, or disable it in AWS, if it may be destroyed. " + retries,
		phrases: []string{"deletion protection", "deletion_protection", "cannot delete protected"},
	},
	{
		class: ClassConfig, object: ObjectLeftover, destroys: true,
		advice: "Node groups or Fargate profiles that are not in the Terraform state belong to the cluster. Delete them as described in docs/deletion-reference.md (Other leftovers). " + retries,
		codes:  []string{"ResourceInUseException"}, also: []string{" attached", "fargate profile"},
	},
	{
		class: ClassConfig, object: ObjectLeftover, destroys: true,
		advice: "Instance profiles, policies or instances that are not in the Terraform state still use it, for example those of Karpenter. Remove them as described in docs/deletion-reference.md (Other leftovers). " + retries,
		codes:  []string{"DeleteConflict"},
	},
	{
		class: ClassConfig, object: ObjectLeftover, destroys: true,
		advice:  "It is not empty, or something that is not in the Terraform state still uses it. Empty it, or delete what uses it (docs/deletion-reference.md, Other leftovers). " + retries,
		codes:   []string{"BucketNotEmpty", "RepositoryNotEmptyException", "HostedZoneNotEmpty"},
		phrases: []string{" is still using it", "is currently in use by"},
	},
	networkLeftover,
	{
		class: ClassTimeout, object: ObjectLeftover, destroys: true, advice: networkLeftover.advice,
		phrases: []string{"timeout while waiting for"}, also: []string{"subnet", "internet gateway", "security group", "network interface"},
	},
	// Limits.
	{
		class: ClassThrottle, object: ObjectAWS,
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
		},
	},
	{
		class: ClassQuota, object: ObjectNamespace,
		advice:  "A ResourceQuota of Kubernetes limits the namespace, not AWS. Raise it, or delete objects that are not needed: kubectl get resourcequota -A. " + retries,
		phrases: []string{"is forbidden: exceeded quota:"},
	},
	{
		class: ClassQuota, object: ObjectAWSAccount,
		codes: []string{ // EC2's capacity and spot instances, S3.
			"InsufficientInstanceCapacity", "InsufficientHostCapacity", "MaxSpotInstanceCountExceeded", "TooManyBuckets",
		},
		phrases: []string{
			"limitexceeded",                                                                                                                                                  // VpcLimitExceeded, LimitExceeded of IAM, ResourceLimitExceededException of EKS and 100 more.
			"servicequotaexceeded", "cannot exceed quota", "reached your quota", "your quota allows for", "than your current instance limit", "than your current vcpu limit", // IAM, auto scaling, EC2.
		},
	},
	// Credentials and permissions.
	{ // GitHub and proxies answer with 403 to what they limit.
		class: ClassNetwork, object: ObjectNetwork, phrases: []string{"failed to retrieve authentication checksums"},
	},
	{
		class: ClassAuth, object: ObjectModuleSource,
		advice: "The credentials for the source of the module are missing or rejected, or it does not exist. Add them to the credentials of the ProviderConfig: .git-credentials for git over https " +
			"(the image of provider-terraform has no ssh), .terraformrc for a registry. " + retries,
		phrases: []string{
			"permission denied (publickey", "host key verification failed", "could not read username for", "authentication failed for 'http", "repository not found", "could not read from remote repository",
			"requires authentication credentials", "rejected the given authentication credentials", // A registry.
		},
	},
	{
		class: ClassAuth, object: ObjectAWSAccount,
		advice: "The AWS account is not activated for this service or region, or is being verified. Correct this in AWS; a verification takes up to four hours. " + retries,
		codes:  []string{"OptInRequired", "SubscriptionRequiredException", "PendingVerification"}, phrases: []string{"account is currently blocked"},
	},
	{
		class: ClassAuth, object: ObjectBackend, advice: "The backend of the Terraform state rejects the credentials, or they lack a permission for it. Correct the backend or the credentials in the ProviderConfig. " + retries,
		codes: []string{"AccessDenied", "Forbidden"}, also: []string{"error refreshing state:", "error loading state", " in s3 bucket "},
	},
	{
		class: ClassAuth, object: ObjectBackend, advice: "The backend of the Terraform state rejects the credentials. Correct them in the ProviderConfig. " + retries,
		phrases: []string{"http remote state endpoint requires auth", "http remote state endpoint invalid auth"},
	},
	{
		class: ClassAuth, object: ObjectPermissions,
		advice:  "The identity that the message names lacks a permission in Kubernetes. Grant it with a Role and a RoleBinding. " + retries,
		phrases: []string{" is forbidden: user "}, // Kubernetes' RBAC, as the kubernetes backend returns it.
	},
	{
		class: ClassAuth, object: ObjectPermissions,
		advice: "The identity of the ProviderConfig lacks a permission. Add it to its IAM policy, and check service control policies (docs/aws.md). " + retries,
		codes:  []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "NotAuthorized"},
		phrases: []string{
			"is not authorized to perform",
			"missing permissions for ", // EKS, under the code of a bad request (awsdocs/amazon-eks-user-guide issue 279, aws-cdk issue 7614).
		},
	},
	{
		class: ClassAuth, object: ObjectCredentials,
		codes: []string{
			"AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "IncompleteSignature",
			"MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidToken", "InvalidIdentityToken", // Keys.
			"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", // Age, and clocks.
			"Unauthorized", "Forbidden", // Kubernetes, registries.
		},
		phrases: []string{
			"statuscode: 403", "status code: 403", "statuscode: 401", "status code: 401", // AWS.
			"no ec2 imds role found", // The AWS SDK when all sources of credentials failed, also because of the network.
			"aws account id not allowed", "sso session has expired",
		},
	},
	{class: ClassLock, object: ObjectLock, vague: true, phrases: []string{"error acquiring the state lock"}}, // Terraform's core: the lock may be held, refused or not reachable.
	// The network.
	{
		class: ClassNetwork, object: ObjectFluxSource, advice: "Flux has not fetched the source of the module: it is not ready. " + retries + persists + "check the GitRepository or OCIRepository.",
		phrases: []string{"artefact for '"}, also: []string{" is not ready"}, //nolint:misspell // As the provider spells it.
	},
	{
		class: ClassNetwork, object: ObjectState,
		advice:  "S3 returned an older state than DynamoDB has recorded. " + retries + persists + "compare both, and correct the Digest in the DynamoDB table.",
		phrases: []string{"does not have the expected content"},
	},
	{
		class: ClassNetwork, object: ObjectNetwork,
		codes: []string{ // Internal errors of AWS.
			"InternalFailure", "InternalError", "InternalServerError", "InternalServerException", "ServerException",
			"ServiceUnavailable", "ServiceUnavailableException",
		},
		phrases: []string{
			"dial tcp", "no such host", "server misbehaving", "connection refused", "connection reset by peer", "connection timed out",
			"no route to host", "network is unreachable", "i/o timeout", "tls handshake timeout", "x509:", "client.timeout exceeded",
			"request canceled while waiting for connection", "unexpected eof", `": eof`, "broken pipe", "proxyconnect tcp",
			"http2: client connection lost",                                                                                     // Go's net, crypto and net/http.
			"request send failed",                                                                                               // The AWS SDK before one of those.
			"could not connect to", "could not resolve host", "temporary failure in name resolution", "ssl certificate problem", // Registries, git.
			"statuscode: 500", "statuscode: 502", "statuscode: 503", "statuscode: 504", "bad gateway", "service unavailable", "gateway timeout",
			"http remote state internal server error",
			"etcdserver:", "was unable to return a response in the time allotted", // Kubernetes.
		},
	},
	{
		class: ClassAuth, object: ObjectProviderConfig, vague: true, advice: "provider-terraform cannot read the Secret that the ProviderConfig names in its credentials. Create the Secret, or correct the ProviderConfig. " + retries,
		phrases: []string{"cannot get credentials"},
	},
	{
		class: ClassAuth, object: ObjectCredentials, vague: true, // The AWS CLI and its library; the AWS provider.
		phrases: []string{"unable to locate credentials", "no valid credential sources", "failed to refresh cached credentials", "cannot assume iam role", "static credentials are empty"},
	},
	{
		class: ClassTimeout, object: ObjectAWS,
		codes: []string{"RequestTimeout", "RequestTimeoutException", "DeadlineExceeded"}, // AWS, gRPC.
		phrases: []string{
			"timeout while waiting for", "couldn't find resource (", // The AWS provider's waiters.
			"timed out waiting for", "operation timed out", // Kubernetes, Helm.
			"context deadline exceeded", "signal: killed", // Go, and provider-terraform when its own timeout passed.
		},
	},
	// The module and its variables.
	// Crossplane's runtime.
	{
		class: ClassConfig, object: ObjectWorkspace,
		advice: "spec.managementPolicies of the Workspace lets provider-terraform only plan, not create. Remove it, and also spec.template.spec.managementPolicies of the WorkspaceTemplate if it is there: kubectl edit " +
			workspaceArguments,
		phrases: []string{"external resource does not exist"},
	},
	{
		class: ClassConfig, object: ObjectWorkspace,
		advice: "A Secret of another client has the name of the connection Secret, and provider-terraform does not overwrite it. Keep a copy if something uses it, and delete it: kubectl delete " +
			secretArguments + ". " + retries,
		phrases: []string{"refusing to modify uncontrolled secret"},
	},
	{
		class: ClassConfig, object: ObjectNamespace,
		advice:  "provider-terraform cannot write the Workspace or its connection Secret. Change what rejects it: a policy, a webhook, or the role of provider-terraform. " + retries,
		phrases: []string{"cannot create or update connection secret", "cannot update object: workspaces", "cannot update managed resource"}, // Crossplane's runtime.
	},
	// provider-terraform, before Terraform runs.
	{
		class: ClassConfig, object: ObjectProviderConfig,
		phrases: []string{"cannot get providerconfig", "failed to resolve provider config", "cannot get provider config"}, // v0 and v1.
	},
	{
		class: ClassConfig, object: ObjectSecret,
		advice:  "A Secret or ConfigMap in env of the Workspace, or a key of it, does not exist or cannot be read. Create it, or correct the WorkspaceTemplate. " + retries,
		phrases: []string{"cannot resolve variables"},
	},
	{
		class: ClassConfig, object: ObjectSecret,
		advice:  "A Secret or ConfigMap in varFiles of the Workspace cannot be read. Recreate it, or correct the WorkspaceTemplate. " + retries,
		phrases: []string{"cannot get tfvars"},
	},
	{
		class: ClassConfig, object: ObjectFluxSource,
		advice:  "Create the Flux source, or correct spec.template.spec.forProvider.module: it names a GitRepository or OCIRepository, as Kind::namespace/name. " + retries,
		phrases: []string{"cannot get flux artefact terraform module"}, //nolint:misspell // As the provider spells it.
	},
	{
		class: ClassConfig, object: ObjectModuleSource,
		advice:    "Correct the address, the path or the version of the module in the WorkspaceTemplate. " + retries,
		phrases:   []string{"cannot get remote terraform module", "exited with 1: error: pathspec", "bad response code: 404"},
		summaries: []string{"module not found", "module has no versions", "unresolvable module version constraint", "module subdirectory not found", "unreadable module directory"},
	},
	{
		class: ClassConfig, object: ObjectTemplate,
		advice:  "Correct the source of the Terraform provider in required_providers of the module, of modules that it calls, or of spec.configuration of the ProviderConfig. If provider-terraform installs providers from a mirror only, the mirror must have it. " + retries,
		phrases: []string{"does not have a provider named", "was not found in any of the search locations"},
	},
	{
		class: ClassConfig, object: ObjectTemplate,
		advice:  "Correct initArgs, planArgs, applyArgs or destroyArgs in spec.template.spec.forProvider of the WorkspaceTemplate. " + retries,
		phrases: []string{"flag provided but not defined"},
	},
	// The backend and the state.
	{
		class: ClassConfig, object: ObjectBackend,
		advice: "The backend in the ProviderConfig is not the one with which the working directory of this Workspace was initialized. If it is the right one and has the state, remove the directory /tf/" + uidOfWorkspace +
			" in the Pod of provider-terraform, or restart the Pod. Otherwise restore the former one: with a backend that does not have the state, Terraform creates everything again.",
		phrases: []string{"failed to decode current backend config"}, summaries: []string{"backend initialization required", "backend configuration changed"},
	},
	{
		class: ClassConfig, object: ObjectBackend,
		advice: "The backend has no state of this Workspace any more. Restore the state from a backup: without it, Terraform creates everything again beside what exists. " +
			"Only if nothing of it exists any more, remove the directory " + uidOfWorkspace + " below /tf in the Pod of provider-terraform. " + retries, // captctl shows no command for it.
		phrases: []string{"currently selected workspace"},
	},
	{
		class: ClassConfig, object: ObjectBackend,
		advice: "Correct the backend of the Terraform state in the ProviderConfig. It needs workspaces, as the backends s3 and kubernetes have them, and a bucket that exists. " + retries,
		codes:  []string{"NoSuchBucket"}, also: []string{`in the "s3" backend`, "s3 bucket does not exist"},
	},
	{
		class: ClassConfig, object: ObjectBackend, advice: "Correct the backend of the Terraform state in the ProviderConfig. It needs workspaces, as the backends s3 and kubernetes have them. " + retries,
		phrases: []string{
			"s3 bucket does not exist", "workspaces not supported", "no state file was found", "the secret name tfstate-", "unsupported backend type",
			"failed to initialize kubernetes configuration",
		},
	},
	{
		class: ClassConfig, object: ObjectState,
		advice:  "A newer version of Terraform or of a Terraform provider has written the state. Update the image of provider-terraform, or the version of the provider in the module, or restore the state. " + retries,
		phrases: []string{"unsupported state file format", "managed by newer provider version"},
	},
	{
		class: ClassConfig, object: ObjectState,
		advice:  "The state of this Workspace does not exist any more. Make sure in AWS that nothing of it exists, then remove the finalizers of the Workspace.",
		phrases: []string{"cannot delete terraform workspace"}, also: []string{"doesn't exist"},
	},
	// AWS.
	{
		class: ClassConfig, object: ObjectVersion,
		advice:  "EKS supports other versions, and updates a cluster by one minor version at a time, never to an older one. If AWS has upgraded the cluster, set spec.version of the CAPTControlPlane to the version that runs; else to the next one. " + retries,
		phrases: []string{"unsupported kubernetes version", "unsupported kubernetes minor version update"},
	},
	{
		class: ClassConfig, object: ObjectNodeGroup,
		advice: "EC2 started the nodes, but they did not join the cluster. Check the node role and its access entry, and the route from their subnets to the API server and to the registries. " + retries,
		codes:  []string{"NodeCreationFailure"},
	},
	{
		class: ClassConfig, object: ObjectNodeGroup,
		advice: "EKS cannot evict Pods from nodes that it replaces. Check the PodDisruptionBudgets of the cluster, and Pods that do not terminate. " + retries,
		codes:  []string{"PodEvictionFailure"},
	},
	{
		class: ClassConfig, object: ObjectExisting,
		advice: "A resource with this name exists, but is not in the Terraform state: an interrupted run, another cluster or another client has created it. Import it into the state, delete it, or use another name. " + retries,
		codes:  []string{"EntityAlreadyExists", "AlreadyExistsException", "BucketAlreadyExists", "BucketAlreadyOwnedByYou"},
		phrases: []string{
			".duplicate:", "already exists", "is already in use on this cluster", "cannot re-use a name that is still in use", // AWS, by the suffix of the code; EKS; Helm.
		},
	},
	{
		class: ClassConfig, object: ObjectTemplate,
		codes: []string{
			"ValidationException", "ValidationError", "InvalidParameter", "InvalidParameterException", "InvalidParameterValue",
			"InvalidParameterValueException", "InvalidParameterCombination", "InvalidRequest", "InvalidRequestException", "InvalidInput",
			"MissingParameter", "UnknownParameter", "MalformedPolicyDocument", "MalformedPolicyDocumentException", "UnsupportedOperation", "UnsupportedAvailabilityZoneException",
			"InvalidSubnet", "InvalidVpc", "InvalidVpcID", "InvalidSubnetID", "InvalidGroup", "InvalidPermission", "InvalidKMSKey",
			"ResourceInUseException", "ResourceNotFoundException", "NoSuchBucket", "NoSuchEntity", "DependencyViolation", "DeleteConflict", "BucketNotEmpty", "AlreadyAssociated", // AWS.
			"Ec2SubnetInvalidConfiguration", "InsufficientFreeAddresses", "InsufficientFreeAddressesInSubnet", "ConfigurationConflict", // Health issues of EKS.
		},
		phrases: []string{
			"notfound:", ".malformed:", // AWS, by the suffix of the code.
			"couldn't find resource", "your query returned no results", "no matching ", // Data sources.
			"expected length of ", "cannot be longer than ", // Arguments.
			"no available releases match", "is no longer available", "openpgp: key expired", `" does not exist`, "no configuration has been provided", // Installation, backends.
			"admission webhook", // Kubernetes.
		},
		summaries: []string{ // Terraform's core.
			"invalid ", "unsupported ", "missing ", "reference to undeclared", "duplicate ", "conflicting ", "incorrect ", "inconsistent conditional",
			"no value for required variable", "value for undeclared variable", "argument or block definition required", "unclosed ", "unterminated ",
			"call to unknown function", "error in function call", "not enough function arguments", "too many function arguments", "cycle: ", "self-referential",
			"attempt to index null value", "attempt to get attribute from null value", "iteration over null value", "unexpected attribute", "output refers to sensitive",
			"provider configuration not present", "unresolvable ",
			"resource precondition failed", "resource postcondition failed", "module output value precondition failed", "check block assertion failed", "failed to read ",
		},
	},
	// Installation: a version that does not exist, credentials, or a registry that is not reachable. The detail has the cause.
	{class: ClassConfig, object: ObjectModuleSource, vague: true, advice: "Correct the address or the version of the module in the WorkspaceTemplate, or the credentials for it. " + retries, summaries: []string{"failed to download module"}},
	{
		class: ClassNetwork, object: ObjectNetwork, vague: true,
		summaries: []string{"failed to query available provider packages", "failed to resolve provider packages", "failed to install provider", "error accessing remote module registry"},
	},
}
