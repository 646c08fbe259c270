// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// describeOptions are the options of describe.
type describeOptions struct {
	cli.View
	selected
}

// Validate checks the argument and the flags.
func (o *describeOptions) Validate() error {
	return errors.Join(o.selected.Validate(), o.View.Validate())
}

// NewDescribe returns captctl describe.
func NewDescribe(environment *cli.Environment) *cobra.Command {
	o := &describeOptions{cli.NewView(environment), selected{cluster.Selected{Of: environment.Access}}}
	command := &cobra.Command{
		Use:   "describe [NAMESPACE/]CLUSTER",
		Short: "Show the state of a Cluster, the one cause if it is not Ready, and what to do",
		Long: `Shows the state of a Cluster, its progress, the first object that does not merely wait for another
one with the reason and the message of its condition, the next step, the objects of the Cluster,
its health, its Fargate profiles, the last operations and the latest events.

Without NAMESPACE, --namespace or the namespace of the kubeconfig's context is used.`,
		Example: `  captctl describe demo
  captctl describe team-a/demo --watch

  # Why is it not Ready?
  captctl describe demo -o json | jq .cause`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
	o.AddFlags(command)
	return command
}

// described is a Cluster with the events of its objects.
type described struct {
	*overview.Objects
	events []eventsv1.Event
}

// Run reads and prints, once or until it is interrupted.
func (o *describeOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	return cli.Show(ctx, &o.View, reader, watched(o.Namespace, eventsv1.SchemeGroupVersion.WithKind("Event")),
		func(ctx context.Context) (*described, error) { return o.read(ctx, reader) },
		func(p *output.Printer, found *described) error {
			document := newDescription(found.Objects, found.events, o.Now())
			document.TypeMeta = metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ClusterDescription"}
			return p.Document(document, func(p *output.Printer) { showDescription(p, document, o.Clock.Now()) })
		})
}

func (o *describeOptions) read(ctx context.Context, reader client.Reader) (*described, error) {
	objects, err := o.objects(ctx, reader)
	if err != nil {
		return nil, err
	}
	found := &described{Objects: objects}
	var list eventsv1.EventList
	err = reader.List(ctx, &list, client.InNamespace(o.Namespace))
	if apierrors.IsForbidden(err) { // The rest does not depend on events.
		fmt.Fprintf(o.ErrOut, "Warning: events are not shown: %v\n", err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	found.events = latest(list.Items, found.Objects)
	return found, nil
}

// mostEvents is how many events are shown.
const mostEvents = 10

// latest returns the latest events about objects of a Cluster, the oldest first.
func latest(events []eventsv1.Event, objects *overview.Objects) []eventsv1.Event {
	uids := objects.UIDs()
	about := slices.DeleteFunc(events, func(event eventsv1.Event) bool { return !slices.Contains(uids, event.Regarding.UID) })
	slices.SortStableFunc(about, func(a, b eventsv1.Event) int {
		return cmp.Or(timeOf(&a).Compare(timeOf(&b)), cmp.Compare(a.Name, b.Name))
	})
	return about[max(0, len(about)-mostEvents):]
}
