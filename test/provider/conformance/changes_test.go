// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"compress/gzip"
	"encoding/base64"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// secretOf is what the connection Secret holds at a generation.
func secretOf(generation, world string) string {
	return "generation=" + generation + " password=hidden world=" + world + ` zones=["a","b"]`
}

func firstApplyRunning(s *subject) {
	s.hold(apply)
	s.create()
	s.reached(apply)
	require.Equal(s, shown{marks: []string{externalName, createPending, finalizer}}, s.look(),
		"no conditions, no outputs, and an empty Secret")
	require.Equal(s, s.GetName(), s.GetAnnotations()["crossplane.io/external-name"])
}

func firstObservation(s *subject) {
	s.free(apply)
	s.untilRest("1")
	begun := externalName + " " + createPending + " " + finalizer
	done := externalName + " " + createPending + " " + createSucceeded + " " + finalizer
	end := done + " " + available + " " + success + " outputs"
	require.Equal(s, []string{
		"",
		externalName,
		externalName + " " + finalizer,
		begun,
		done,
		done + " " + creating + " " + success,
		end,
	}, s.history.until(end))
}

func reachesRest(s *subject) {
	s.create()
	s.untilRest("1")
}

func outputsAreTyped(s *subject) {
	require.Equal(s, map[string]any{"generation": "1", "world": "as it was", "zones": []any{"a", "b"}}, s.look().outputs)
}

func secretHoldsAll(s *subject) {
	secret := s.secret()
	require.EqualValues(s, "connection.crossplane.io/v1alpha1", secret.Type)
	require.Equal(s, s.GetUID(), secret.OwnerReferences[0].UID)
	require.Equal(s, secretOf("1", "as it was"), s.look().secret)

	secret.Data["zone"] = []byte("of an output that is no more")
	delete(secret.Data, "zones")
	require.NoError(s, s.api.Update(s.Context(), secret))
	s.touch()
	s.until("the missing key", func(v shown) bool { return strings.Contains(v.secret, "zones=") })
	require.Contains(s, s.look().secret, "zone=of an output that is no more")
}

// Nothing but a plan brings a Secret back, and the one that is due by itself is minutes away.
func metadataEditTriggersPlan(s *subject) {
	require.NoError(s, s.api.Delete(s.Context(), s.secret()))
	s.touch()
	s.until("its Secret again", func(v shown) bool { return v.secret == secretOf("1", "as it was") })
}

func updateBeingApplied(s *subject) {
	before, conditionsBefore := s.look(), s.settled()
	require.True(s, before.checksum)
	s.hold(apply)
	s.generation("2")
	s.reached(apply)
	applying := s.look()
	require.Equal(s, s.script.Version0, applying.current)
	applying.current = true
	require.Equal(s, before, applying, "nothing changes")

	s.free(apply)
	rest := s.untilRest("2")
	require.Contains(s, rest.secret, "generation=2 ")
	require.False(s, rest.checksum, "what applied drops the checksum")
	if s.script.Version0 {
		require.Equal(s, conditionsBefore, conditions(s.Unstructured), "version 0 moves no condition at all")
	} else {
		require.NotEqual(s, conditionsBefore, conditions(s.Unstructured), "Synced is about the new generation")
	}
	s.touch()
	s.until("a checksum", func(v shown) bool { return v.checksum })
}

// settled are the conditions, so old that any write now would give them another time.
func (s *subject) settled() []any {
	s.Helper()
	list := conditions(s.Unstructured)
	require.Eventually(s, func() bool {
		for _, entry := range list {
			at, err := time.Parse(time.RFC3339, entry.(map[string]any)["lastTransitionTime"].(string)) //nolint:forcetypeassert // the CRD says so
			if err != nil || time.Since(at) < 1100*time.Millisecond {
				return false
			}
		}
		return true
	}, timeout, tick)
	return list
}

func driftBeingApplied(s *subject) {
	before, conditionsBefore := s.look(), conditions(s.Unstructured)
	s.hold(apply)
	s.drifts("flooded")
	s.touch()
	s.reached(apply)
	require.Equal(s, before, s.look(), "Ready stays True")

	s.free(apply)
	rest := s.until("what drifted", func(v shown) bool { return v.outputs["world"] == "flooded" })
	require.Equal(s, []string{available, success}, []string{rest.ready, rest.synced})
	require.Equal(s, conditionsBefore, conditions(s.Unstructured), "the generation is the same: no condition reports it")
}

func updateFailed(s *subject) {
	s.fail(apply)
	s.generation("3")
	failed := s.untilConditions(available, failure)
	require.Equal(s, "update failed: cannot apply Terraform configuration: "+
		"Terraform encountered an error. Summary: local-exec provisioner error", readable(failed.message))
	require.Contains(s, unpacked(s, failed.message), "exit status 7")
	require.Equal(s, "2", failed.outputs["generation"])

	s.free(apply)
	require.Empty(s, s.untilRest("3").message)
}

// unpacked is what stands in the tail of a message.
func unpacked(s *subject, message string) string {
	s.Helper()
	match := regexp.MustCompile(`\. To see the full error run: echo "([A-Za-z0-9+/=]+)" \| base64 -d \| gunzip$`).FindStringSubmatch(message)
	require.NotNil(s, match, message)
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(match[1])))
	require.NoError(s, err)
	text, err := io.ReadAll(reader)
	require.NoError(s, err)
	return strings.Join(strings.Fields(string(text)), " ") // OpenTofu breaks lines.
}

func planFailed(s *subject) {
	s.patch(`{"spec":{"forProvider":{"varmap":{"settings":"no object"}}}}`)
	failed := s.untilConditions(available, failure)
	require.Equal(s, "observe failed: cannot diff (i.e. plan) Terraform configuration: "+
		"Terraform encountered an error. Summary: Invalid value for input variable", readable(failed.message))

	s.patch(`{"spec":{"forProvider":{"varmap":{"settings":{"zones":["c"]}}}}}`)
	s.until("the corrected value", func(v shown) bool { return v.synced == success && strings.Contains(v.secret, `zones=["c"]`) })
}

func paused(s *subject) {
	s.patch(`{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`)
	before := s.untilConditions(available, frozen)
	s.generation("4")
	s.untilSeen()
	s.untilConditions(available, frozen)
	require.Equal(s, before.outputs, s.look().outputs, "nothing is applied")

	s.patch(`{"metadata":{"annotations":{"crossplane.io/paused":null}},"spec":{"managementPolicies":[]}}`)
	s.untilSeen()
	require.Equal(s, before.outputs, s.untilConditions(available, frozen).outputs, "without any policy it is paused, too")

	s.patch(`{"spec":{"managementPolicies":["*"]}}`)
	s.untilRest("4")
}
