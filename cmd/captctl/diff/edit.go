// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/manifest"
	"github.com/capt-provider/capt/migrate"
)

// edit puts the objects of files in place of those of the cluster, as applying them would. It fails if one of them would be rejected.
func (s *source) edit(ctx context.Context, files *manifest.Content, warnings io.Writer) error {
	before := map[*manifest.Object]field.ErrorList{}
	var edited []*manifest.Object
	for _, object := range files.Objects {
		if !object.IsCAPT() {
			continue
		}
		live, err := s.live(ctx, object)
		if err != nil {
			return err
		}
		if live == nil {
			line, column := object.Position("", "")
			fmt.Fprintf(warnings, "Warning: %s:%d:%d: %s is not in the cluster, so there is nothing to compare; captctl template render shows what a template renders to\n", object.File, line, column, object)
			continue
		}
		findings, err := validation.ValidateNew(ctx, s.lookup(), live)
		if err != nil {
			return err
		}
		before[object] = findings.Errors
		edited = append(edited, object)
	}
	for _, object := range edited {
		if err := s.replace(ctx, object); err != nil {
			return err
		}
	}
	return s.rejected(ctx, edited, before)
}

// live returns the object of the cluster that an object of a file replaces; nil if there is none. A new template replaces none, but objects of the
// cluster may refer to it already.
func (s *source) live(ctx context.Context, object *manifest.Object) (validation.Owner, error) {
	key := naming.KeyOf(object.Typed)
	switch typed := object.Typed.(type) {
	case *infrav1.WorkspaceTemplate:
		template, err := s.template(ctx, key)
		if template == nil {
			template = typed
		}
		return template, err
	case *infrav1.WorkspaceTemplateApply:
		return orNil(s.applies[key]), nil
	case *infrav1.CAPTCluster:
		return orNil(s.captClusters[key]), nil
	case *controlplanev1.CAPTControlPlane:
		return orNil(s.controlPlanes[key]), nil
	}
	return nil, nil // A template for a ClusterClass: Cluster API creates objects from it, and does not update them.
}

// orNil avoids an interface that is not nil but has a nil pointer.
func orNil[T any, P interface {
	*T
	validation.Owner
}](object P) validation.Owner {
	if object == nil {
		return nil
	}
	return object
}

// replace puts an object of a file in place of that of the cluster. Status and fields that CAPT sets are kept, as the webhooks keep them.
func (s *source) replace(ctx context.Context, object *manifest.Object) (err error) {
	key := naming.KeyOf(object.Typed)
	older := object.Kind.Version == migrate.LegacyVersion
	switch edited := object.Typed.(type) {
	case *infrav1.WorkspaceTemplate:
		if live := s.templates[key]; live != nil {
			edited.ObjectMeta, edited.Status = merged(live.ObjectMeta, edited.ObjectMeta), live.Status
			err = keep(ctx, s.lookup(), older, live, edited)
		} else if !older {
			validation.SetDefaultSubstitution(edited)
		}
		s.templates[key] = edited
	case *infrav1.WorkspaceTemplateApply:
		live := s.applies[key]
		edited.ObjectMeta, edited.Status = merged(live.ObjectMeta, edited.ObjectMeta), live.Status
		err = keep(ctx, s.lookup(), older, live, edited)
		s.applies[key] = edited
	case *infrav1.CAPTCluster:
		live := s.captClusters[key]
		edited.ObjectMeta, edited.Status = merged(live.ObjectMeta, edited.ObjectMeta), live.Status
		err = keep(ctx, s.lookup(), older, live, edited)
		s.captClusters[key] = edited
	case *controlplanev1.CAPTControlPlane:
		live := s.controlPlanes[key]
		edited.ObjectMeta, edited.Status = merged(live.ObjectMeta, edited.ObjectMeta), live.Status
		err = keep(ctx, s.lookup(), older, live, edited)
		s.controlPlanes[key] = edited
	}
	s.edited[editKey(object.Typed)] = true
	return err
}

func keep(ctx context.Context, reader validation.Reader, older bool, live, edited validation.Owner) error {
	validation.RestoreFields(live, edited)
	if older {
		return validation.RestoreHubFields(ctx, reader, live, edited)
	}
	return nil
}

// merged returns the metadata of the cluster with the annotations and labels of a file.
func merged(live, edited metav1.ObjectMeta) metav1.ObjectMeta {
	after := *live.DeepCopy()
	for _, each := range []struct {
		to   *map[string]string
		from map[string]string
	}{{&after.Labels, edited.Labels}, {&after.Annotations, edited.Annotations}} {
		if *each.to == nil {
			*each.to = map[string]string{}
		}
		maps.Copy(*each.to, each.from)
	}
	return after
}

// rejected returns an error with what the webhooks would reject in edited objects, except for what the objects of the cluster have already.
func (s *source) rejected(ctx context.Context, edited []*manifest.Object, before map[*manifest.Object]field.ErrorList) error {
	var errs []string
	reader := s.lookup()
	for _, object := range edited {
		findings, err := validation.ValidateNew(ctx, reader, object.Typed)
		if err != nil {
			return err
		}
		for _, found := range findings.Errors {
			if s.isNew(found, before[object], object.Typed) {
				line, column := object.Position(found.Field, found.Detail)
				errs = append(errs, fmt.Sprintf("%s:%d:%d: %s: %s: %s", object.File, line, column, object, found.Field, found.Detail))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &cli.ListError{Title: "the webhooks would reject the files", Items: errs}
}

// isNew reports whether an object of the cluster does not have an error yet. A new template has all of its errors only in the file.
func (s *source) isNew(found *field.Error, before field.ErrorList, typed validation.Owner) bool {
	if typed.GetUID() == "" {
		return true
	}
	return !slices.ContainsFunc(before, func(known *field.Error) bool { return known.Error() == found.Error() })
}

// editKey is the kind and the key of an object.
func editKey(object validation.Owner) string {
	return fmt.Sprintf("%T %s", object, naming.KeyOf(object))
}
