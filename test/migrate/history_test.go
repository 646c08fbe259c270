// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// What users alert on: conditions that were True and no longer are, and conditions that are True at all.
var (
	comforting = []string{
		infrav1.ReadyCondition, controlplanev1.AvailableCondition, controlplanev1.InitializedCondition, infrav1.VPCReadyCondition,
		clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneAvailableCondition,
	}
	alarming = []string{infrav1.DegradedCondition, infrav1.FailedCondition}
)

// history is every status that each condition of a fleet had, in order, as watches report it.
type history struct {
	*environment
	began time.Time

	lock     sync.Mutex
	statuses map[string][]string
	versions map[types.UID]string
}

// history starts watches, which end with the test.
func (env *environment) history() *history {
	env.Helper()
	c := &history{environment: env, began: time.Now(), statuses: map[string][]string{}, versions: map[types.UID]string{}}
	for _, list := range recordedLists() {
		// The request for the watch outlives a test that fails, but not the sandbox.
		watch, err := env.Admin.Watch(context.WithoutCancel(env.Context()), list)
		require.NoError(env, err)
		env.Cleanup(watch.Stop)
		go func() {
			for event := range watch.ResultChan() {
				if object, ok := event.Object.(client.Object); ok {
					c.note(object)
				}
			}
		}()
	}
	return c
}

func recordedLists() []client.ObjectList {
	return []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.CAPTClusterList{}, &controlplanev1.CAPTControlPlaneList{}, &infrav1.WorkspaceTemplateApplyList{},
	}
}

func (c *history) note(object client.Object) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.versions[object.GetUID()] = object.GetResourceVersion()
	name := strings.TrimPrefix(fmt.Sprintf("%T", object), "*") + " " + object.GetNamespace() + "/" + object.GetName() + " "
	for _, condition := range object.(conditions.Getter).GetConditions() {
		c.append(name+condition.Type, string(condition.Status)+" "+condition.Reason)
	}
	if controlPlane, ok := object.(*controlplanev1.CAPTControlPlane); ok {
		c.append(name+"state", string(controlPlane.Status.State))
	}
}

func (c *history) append(of, status string) {
	if known := c.statuses[of]; len(known) == 0 || known[len(known)-1] != status {
		c.statuses[of] = append(known, status)
	}
}

// lost are the conditions that were True and are no longer, or were not for a moment.
func (c *history) lost() (lost []string) {
	c.Helper()
	c.await(c.behind)
	c.lock.Lock()
	defer c.lock.Unlock()
	for of, statuses := range c.statuses {
		had := false
		for _, status := range statuses {
			isTrue := strings.HasPrefix(status, string(metav1.ConditionTrue)+" ")
			if had = had || isTrue; slices.Contains(comforting, of[strings.LastIndex(of, " ")+1:]) && had && !isTrue {
				lost = append(lost, fmt.Sprintf("%s: %v", of, statuses))
			}
		}
	}
	return lost
}

// alarms are the conditions that were lost or should never have been True, states other than Ready, and Events of type Warning.
func (c *history) alarms() (alarms []string) {
	c.Helper()
	alarms = c.lost()
	c.lock.Lock()
	defer c.lock.Unlock()
	for of, statuses := range c.statuses {
		condition := of[strings.LastIndex(of, " ")+1:]
		for _, status := range statuses {
			isTrue := strings.HasPrefix(status, string(metav1.ConditionTrue)+" ")
			switch {
			case slices.Contains(alarming, condition) && isTrue,
				condition == "state" && status != "" && status != string(infrav1.StateReady):
				alarms = append(alarms, fmt.Sprintf("%s: %v", of, statuses))
			}
		}
	}
	return append(alarms, c.warnings()...)
}

// behind reports an object that the watches have not reported yet.
func (c *history) behind() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, list := range recordedLists() {
		require.NoError(c, c.Admin.List(c.Context(), list))
		objects, err := meta.ExtractList(list)
		require.NoError(c, err)
		for i := range objects {
			object := objects[i].(client.Object)
			if c.versions[object.GetUID()] != object.GetResourceVersion() {
				return fmt.Sprintf("%T %s was written, and no watch reported it", object, client.ObjectKeyFromObject(object))
			}
		}
	}
	return ""
}

// warnings since the history began.
func (c *history) warnings() (warnings []string) {
	c.Helper()
	var list eventsv1.EventList
	require.NoError(c, c.Admin.List(c.Context(), &list))
	for i := range list.Items {
		event := &list.Items[i]
		if event.Type == "Warning" && !event.CreationTimestamp.Time.Before(c.began.Truncate(time.Second)) {
			warnings = append(warnings, fmt.Sprintf("%s %s: %s %s", event.Regarding.Kind, event.Regarding.Name, event.Reason, event.Note))
		}
	}
	return warnings
}
