// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ssa_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/api/ssa"
)

func TestAnUnknownOwnerVersionIsRecognized(t *testing.T) {
	resource := schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "workspacetemplateapplies"}
	// The text is from kubernetes/plugin/pkg/admission/gc.
	unknown := errors.New("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion x/v1beta2 Kind CAPTCluster")
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"the owner's version is new": {apierrors.NewForbidden(resource, "demo", unknown), true},
		"wrapped":                    {fmt.Errorf("creating: %w", apierrors.NewForbidden(resource, "demo", unknown)), true},
		"another reason":             {apierrors.NewForbidden(resource, "demo", errors.New("no")), false},
		"another error":              {unknown, false},
		"none":                       {nil, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, ssa.IsUnknownOwnerVersion(row.err)) })
	}
}
