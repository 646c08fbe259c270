// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

var workspaceTemplate = infrav1.GroupVersion.WithKind("WorkspaceTemplate")

// pages is an API server that lists 5 objects, 2 at a time.
type pages struct {
	client.Reader
	// answers are errors in place of the pages that are asked for with these tokens. Each is given once.
	answers map[string]error
	asked   []string
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	p.asked = append(p.asked, asked.Continue)
	if asked.Limit != 250 || asked.Namespace != "team-a" {
		return fmt.Errorf("limit %d, namespace %q", asked.Limit, asked.Namespace)
	}
	if err := p.answers[asked.Continue]; err != nil {
		delete(p.answers, asked.Continue)
		return err
	}
	first := map[string]int{"": 0, "2": 2, "4": 4}[asked.Continue]
	for i := first; i < min(first+2, 5); i++ {
		object := unstructured.Unstructured{}
		object.SetName(fmt.Sprint(i))
		items := list.(*unstructured.UnstructuredList)
		items.Items = append(items.Items, object)
	}
	if first < 4 {
		list.SetContinue(fmt.Sprint(first + 2))
	}
	return nil
}

func TestEveryObjectOfAllPagesIsRead(t *testing.T) {
	server := &pages{}
	var names []string
	require.NoError(t, migrate.Each(t.Context(), server, workspaceTemplate, "team-a", func(object *unstructured.Unstructured) error {
		names = append(names, object.GetName())
		return nil
	}))
	assert.Equal(t, []string{"0", "1", "2", "3", "4"}, names)
	assert.Equal(t, []string{"", "2", "4"}, server.asked)
}

func TestAnErrorDuringAListIsReported(t *testing.T) {
	failed := errors.New("failed")
	for name, row := range map[string]struct {
		answer error
		is     func(error) bool
	}{
		"an error":               {failed, func(err error) bool { return errors.Is(err, failed) }},
		"a kind that is unknown": {&meta.NoKindMatchError{}, meta.IsNoMatchError},
	} {
		t.Run(name, func(t *testing.T) {
			server := &pages{answers: map[string]error{"2": row.answer}}
			err := migrate.Each(t.Context(), server, workspaceTemplate, "team-a", func(*unstructured.Unstructured) error { return nil })
			assert.True(t, row.is(err), "%v", err)
			require.ErrorContains(t, err, "listing WorkspaceTemplate: ")
		})
	}
	err := migrate.Each(t.Context(), &pages{}, workspaceTemplate, "team-a", func(*unstructured.Unstructured) error { return failed })
	require.Equal(t, failed, err, "what is found out about an object is not the list's error")
}
