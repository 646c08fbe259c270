// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract_test holds CAPT to Cluster API's contract: one subtest for every rule of the contract's documents, named
// as the rule is, against the real Cluster API core. The rules are read from the documents of the Cluster API that CAPT is
// built with, so a rule that is new there fails the suite until it has a subtest.
//
// Terraform is a scripted executor. The cluster that it pretends to make is the API server of the sandbox itself, so that
// Cluster API can connect to it.
package contract_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// instance is the watch filter of the manager that all tests share. It is a manager with a filter, since what one of
	// several instances leaves alone can be seen only where no other one takes everything.
	instance = "first"
	// demo is a Cluster that is made once, with its namespace. Tests look at it and do not touch it.
	demo = fixture.Demo
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) { o.ManagerArgs = append(o.ManagerArgs, "--watch-filter="+instance) }))
}

var makeDemo sync.Once

// demoWorld is where the Cluster is that tests look at and do not touch, once it is Available.
func demoWorld(t *testing.T) *world {
	t.Helper()
	w := &world{&fixture.World{T: t, Client: shared.API, Server: shared, Namespace: demo, Scope: terraform.ScopeNamespaced}}
	makeDemo.Do(func() {
		require.NoError(t, w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demo}}))
		w.apply(everything(demo, "v1.34.0")...)
	})
	w.awaitAvailable(demo)
	return w
}
