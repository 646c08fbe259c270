// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package recovery decides how CAPT recovers a control plane from failures of Terraform: when to try which action, and when to stop. It is
// pure; docs/recovery.md describes it for users.
//
// Attempts of CAPT are separate from the retries of provider-terraform, which never end. Everything that a decision depends on is in the
// spec and in status.recovery, so a restart of the manager changes nothing.
package recovery

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Defaults of spec.recovery.
const (
	defaultMaxRetries     = 5
	defaultInitialSeconds = 30
	defaultMaxSeconds     = 1800
	defaultFactor         = 2
)

// providerRetries is how long the first attempt waits at least after an error that the provider retries: until then it has retried about
// seven times, and its own backoff has reached one minute.
const providerRetries = 2 * time.Minute

// readyPeriod is how long a control plane must be Ready before its attempts are reset.
const readyPeriod = time.Hour

// policy is what CAPT does by default about a class of errors.
type policy struct {
	// actions in their order. Without actions, only a change of the inputs or a manual retry makes CAPT ask the provider to run again.
	actions []controlplanev1.RecoveryActionType
	// providerFirst is true if the retries of the provider are likely to help.
	providerFirst bool
	// advice is what the user must do when there are no actions.
	advice string
}

func policyOf(class failure.Class) policy {
	reapply := []controlplanev1.RecoveryActionType{controlplanev1.RecoveryReapply}
	switch class {
	case failure.ClassAuth:
		return policy{advice: "Correct the credentials of the ProviderConfig, or their permissions"}
	case failure.ClassQuota:
		return policy{advice: "Request an increase of the AWS quota, or delete resources that are not needed"}
	case failure.ClassConfig:
		return policy{advice: "Correct the WorkspaceTemplate, the variables or the ProviderConfig"}
	case failure.ClassInterrupted:
		return policy{actions: []controlplanev1.RecoveryActionType{controlplanev1.RecoveryClearInterruptedCreate, controlplanev1.RecoveryReapply}}
	case failure.ClassThrottle, failure.ClassLock, failure.ClassTimeout, failure.ClassNetwork, failure.ClassProviderPod, failure.ClassUnknown:
	}
	return policy{actions: reapply, providerFirst: true}
}

func maxRetries(strategy *controlplanev1.RecoveryStrategy) int32 {
	if strategy == nil {
		return defaultMaxRetries
	}
	return ptr.Deref(strategy.MaxRetries, defaultMaxRetries)
}

// backoff is the wait before an attempt, which are counted from 0. The jitter is a function of the object and the attempt, so that equal
// control planes do not retry at the same time, and one decision has one result.
func backoff(strategy *controlplanev1.RecoveryStrategy, seed string, attempt int32) time.Duration {
	var b controlplanev1.Backoff
	if strategy != nil {
		b = strategy.Backoff
	}
	limit := float64(cmp.Or(b.MaxSeconds, defaultMaxSeconds))
	wait := float64(cmp.Or(b.InitialSeconds, defaultInitialSeconds)) * math.Pow(float64(cmp.Or(b.Factor, defaultFactor)), float64(attempt))
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%d/%s", attempt, seed) // It never fails.
	jitter := 0.9 + 0.2*float64(hash.Sum32())/math.MaxUint32
	return time.Duration(min(wait, limit) * jitter * float64(time.Second))
}

// maxWait is more than any wait between attempts: a later time in status was computed with another strategy or a wrong clock.
func maxWait(strategy *controlplanev1.RecoveryStrategy, seed string) time.Duration {
	return max(providerRetries, backoff(strategy, seed, math.MaxInt8)) * 5 / 4
}

// timeoutOf is how long an action may take.
func timeoutOf(action controlplanev1.RecoveryAction) time.Duration {
	if action.TimeoutSeconds > 0 {
		return time.Duration(action.TimeoutSeconds) * time.Second
	}
	switch action.Type {
	case controlplanev1.RecoveryRequeue:
		return time.Minute
	case controlplanev1.RecoveryReapply:
		return 5 * time.Minute
	case controlplanev1.RecoveryClearInterruptedCreate, controlplanev1.RecoveryRecreateFargateProfile, controlplanev1.RecoveryRecreateWorkspace:
	}
	return 30 * time.Minute
}

// actionsFor returns the actions that can help with a failure, and why others cannot, which is empty for those that have nothing to do with it.
func actionsFor(in Input) (usable []controlplanev1.RecoveryAction, refused string) {
	byDefault := policyOf(in.Failure.Class)
	if len(byDefault.actions) == 0 {
		return nil, byDefault.advice
	}
	var list []controlplanev1.RecoveryAction
	if in.Strategy != nil {
		list = in.Strategy.Actions
	}
	if len(list) == 0 {
		for _, of := range byDefault.actions {
			list = append(list, controlplanev1.RecoveryAction{Type: of})
		}
	}
	for _, action := range list {
		switch ok, why := applies(in, action); {
		case ok:
			usable = append(usable, action)
		case refused == "":
			refused = why
		}
	}
	return usable, cmp.Or(refused, "spec.recovery.actions has no action for this error. Correct its cause, or add an action")
}

// applies reports whether an action can help, and why not.
func applies(in Input, action controlplanev1.RecoveryAction) (ok bool, why string) {
	f := in.Failure
	switch action.Type {
	case controlplanev1.RecoveryRequeue, controlplanev1.RecoveryReapply:
		return !f.CreateInterrupted, "" // The provider would report the interrupted create again.
	case controlplanev1.RecoveryClearInterruptedCreate:
		if !f.CreateInterrupted {
			return false, ""
		}
		return f.CreateNotRecoverable == "", Refused(action.Type, f.CreateNotRecoverable)
	case controlplanev1.RecoveryRecreateFargateProfile:
		profile, limited := action.Parameters[controlplanev1.ProfileParameter]
		if f.Profile == "" || limited && profile != f.Profile {
			return false, ""
		}
		return !f.Retained, Refused(action.Type, "spec.deletionPolicy of the WorkspaceTemplateApply of Fargate profile "+f.Profile+" is Retain")
	case controlplanev1.RecoveryRecreateWorkspace:
		if f.Profile != "" {
			return false, ""
		}
		refused := RefuseRecreation(action, in.History)
		return refused == "", Refused(action.Type, refused)
	}
	return false, ""
}

// Refused is the message that an action is refused, and why; empty without a reason.
func Refused(action controlplanev1.RecoveryActionType, why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s is refused: %s. Condition Ready has the error, and what to do about it", action, why)
}
