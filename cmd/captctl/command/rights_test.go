// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// forbidden makes the API server refuse the requests that a function selects, by type and namespace.
func (env *environment) forbidden(is func(object any, namespace string) bool) {
	refused := func(object any) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: fmt.Sprintf("%T", object)}, "", nil)
	}
	env.funcs = interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if is(object, key.Namespace) {
				return refused(object)
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if is(list, (&client.ListOptions{}).ApplyOptions(options).Namespace) {
				return refused(list)
			}
			return c.List(ctx, list, options...)
		},
	}
}

func TestAUserWhoMayReadOneNamespaceGetsThat(t *testing.T) {
	for _, arguments := range [][]string{{"get"}, {"report"}, {"diff"}, {"template", "list"}, {"get", "--retained"}} {
		env := aFleet()
		env.forbidden(func(_ any, namespace string) bool { return namespace == "" })
		_, errOut, err := env.run(t, arguments...)
		require.NoError(t, err, arguments)
		assert.Contains(t, errOut, "Warning: only namespace default is read: ", arguments)

		env.forbidden(func(_ any, namespace string) bool { return namespace != "team-a" })
		env.connected = nil
		_, _, err = env.run(t, arguments...)
		require.Error(t, err, "it may not read the namespace of the context either")
		if !slices.Contains(arguments, "diff") {
			_, _, err = env.run(t, append(arguments, "-A")...)
			require.Error(t, err, "all namespaces were requested")
		}
	}
}

func TestAUserWhoMayReadOnlyObjectsOfCAPTGetsWhatTheyReport(t *testing.T) {
	for _, arguments := range [][]string{{"get", "-n", "team-a", "-o", "json"}, {"get", "team-a/broken", "-o", "json"}, {"describe", "team-a/broken"}, {"logs", "team-a/broken"}, {"tree", "team-a/broken"}, {"report", "-n", "team-a"}} {
		env := aFleet()
		for _, object := range env.objects {
			if object.GetName() == "broken" {
				object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "broken"})
			}
		}
		env.forbidden(func(object any, _ string) bool {
			switch object.(type) {
			case *clusterv1.Cluster, *clusterv1.ClusterList, *clusterv1.MachinePoolList, *infrav1.CAPTMachinePoolList, *eventsv1.EventList:
				return true
			}
			return false
		})
		out, errOut, err := env.run(t, arguments...)
		require.NoError(t, err, arguments)
		assert.True(t, arguments[0] == "logs" || strings.Contains(out, "ApplyFailed"), out)
		assert.Contains(t, errOut, "what Cluster API reports is not shown; the ClusterRole capt-tenant grants it", arguments)
	}
}
