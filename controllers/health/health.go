// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package health has the health checks of a control plane as a table, and evaluates them for its status.
package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// Names of the checks.
const (
	// APIServer: the API server answers GET /readyz with 200, with a certificate that the kubeconfig trusts.
	APIServer = "APIServer"
	// Version: the API server runs the version of spec.
	Version = "Version"
	// Credentials: the kubeconfig can be used, and the API server accepts its credentials.
	Credentials = "Credentials"
	// Workspace: Terraform has applied the Workspace.
	Workspace = "Workspace"
	// Dependencies: nothing that the control plane waits for is missing.
	Dependencies = "Dependencies"
	// Fargate: the Fargate profiles match spec.
	Fargate = "Fargate"
)

// Unanswered is why the result of APIServer is not known before the first answer.
const Unanswered = "waiting for the first answer: the network may not reach the API server"

// Result of a check. The zero value means that there is nothing new, and that the last result applies.
type Result struct {
	Status  controlplanev1.HealthState
	Message string
}

// Healthy is the result of a check that passes.
func Healthy() Result { return Result{Status: controlplanev1.HealthHealthy} }

// Unhealthy is the result of a check that fails.
func Unhealthy(message string) Result { return Result{controlplanev1.HealthUnhealthy, message} }

// Unknown is the result of a check that could not run.
func Unknown(message string) Result { return Result{controlplanev1.HealthUnknown, message} }

// Probed has the results of the checks that connect to the API server.
type Probed struct {
	APIServer, Version, Credentials Result
}

// NotProbed are the results while the API server cannot be probed.
func NotProbed(why string) Probed { return Probed{Unknown(why), Unknown(why), Unknown(why)} }

// Facts are what the checks evaluate.
type Facts struct {
	Probed
	// Disabled is true when the API server is not probed. Its checks are then absent.
	Disabled bool
	// Workspace, Dependencies and Fargate are what the conditions of the control plane report.
	Workspace, Dependencies, Fargate Result
}

// Check is a health check.
type Check struct {
	Name string
	// Evaluate returns the result.
	Evaluate func(*Facts) Result
	// Hint says how to recover from a failure.
	Hint string
	// Probes is true for checks that connect to the API server.
	Probes bool
}

// Checks returns the table of checks; docs/status.md has it, too.
func Checks() []Check {
	return []Check{
		{
			Name: APIServer, Probes: true, Evaluate: func(f *Facts) Result { return f.APIServer },
			Hint: "Check the EKS cluster, its certificate and the network. If CAPT is not meant to reach it, set spec.endpointProbe to Disabled",
		},
		{
			Name: Version, Probes: true, Evaluate: func(f *Facts) Result { return f.Version },
			Hint: "Set spec.version to the version that runs, or find out what changed it",
		},
		{
			Name: Credentials, Probes: true, Evaluate: func(f *Facts) Result { return f.Credentials },
			Hint: "Correct the output kubeconfig of the module, or grant the user of the kubeconfig access to the EKS cluster",
		},
		{Name: Workspace, Evaluate: func(f *Facts) Result { return f.Workspace }, Hint: "See the message of the condition"},
		{Name: Dependencies, Evaluate: func(f *Facts) Result { return f.Dependencies }, Hint: "See the message of the condition"},
		{Name: Fargate, Evaluate: func(f *Facts) Result { return f.Fargate }, Hint: "See the message of the condition"},
	}
}

// Evaluate returns the health for status. last is what status has; what did not change is kept, so that it causes no write.
func Evaluate(f *Facts, last *controlplanev1.Health, now time.Time) *controlplanev1.Health {
	health := &controlplanev1.Health{Overall: controlplanev1.HealthHealthy}
	for _, check := range Checks() {
		if check.Probes && f.Disabled {
			continue
		}
		result := check.Evaluate(f)
		if check.Probes && result.Status == "" && f.APIServer.Status != "" && Status(last, check.Name) == controlplanev1.HealthUnknown {
			result = Unknown("not known before check APIServer passes") // Why it was not known may be outdated.
		}
		is := check.status(result, Find(last, check.Name), now)
		health.Checks = append(health.Checks, is)
		if check.Probes && is.Status == controlplanev1.HealthUnknown && Status(health, APIServer) == controlplanev1.HealthHealthy {
			continue // An API server that answers is healthy, also if CAPT has no credentials to find out more.
		}
		health.Overall = worse(health.Overall, is.Status)
	}
	return health
}

// status is the status of a check with a result. was is its last status; nil when there is none.
func (c Check) status(result Result, was *controlplanev1.HealthCheck, now time.Time) controlplanev1.HealthCheck {
	switch {
	case result.Status != "":
	case was != nil:
		return *was
	default:
		result = Unknown(Unanswered)
	}
	if result.Status == controlplanev1.HealthUnhealthy {
		result.Message += ". " + c.Hint
	}
	since := metav1.NewTime(now)
	is := controlplanev1.HealthCheck{Name: c.Name, Status: result.Status, Message: result.Message, LastTransitionTime: &since}
	if was != nil && was.Status == is.Status {
		is.LastTransitionTime = was.LastTransitionTime
	}
	return is
}

func worse(a, b controlplanev1.HealthState) controlplanev1.HealthState {
	for _, state := range []controlplanev1.HealthState{controlplanev1.HealthUnhealthy, controlplanev1.HealthUnknown} {
		if a == state || b == state {
			return state
		}
	}
	return controlplanev1.HealthHealthy
}

// NoneFails reports whether no check of status fails.
func NoneFails(health *controlplanev1.Health) bool {
	return health == nil || health.Overall != controlplanev1.HealthUnhealthy
}

// Find returns a check of status; nil when it has none of this name.
func Find(health *controlplanev1.Health, name string) *controlplanev1.HealthCheck {
	if health == nil {
		return nil
	}
	for i := range health.Checks {
		if health.Checks[i].Name == name {
			return &health.Checks[i]
		}
	}
	return nil
}

// Status returns the status of a check; empty when it is absent.
func Status(health *controlplanev1.Health, name string) controlplanev1.HealthState {
	if check := Find(health, name); check != nil {
		return check.Status
	}
	return ""
}
