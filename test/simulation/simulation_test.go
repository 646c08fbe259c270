// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capt-provider/capt/test/builder"
)

func TestSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, true)
		defer w.stop()
		w.installation()
		w.startManager()
		w.startProvider()
		u := w.user("alice")
		for _, name := range []string{"vpc", "eks", "fargate", "nodegroup"} {
			w.create(u, template("default", name))
		}
		w.create(u, fresh(builder.CAPTCluster("demo")))
		w.create(u, fresh(builder.CAPTControlPlane("demo")))
		w.create(u, fresh(builder.Cluster("demo")))
		w.pass(time.Now().Add(2*time.Hour), 3000)
		for _, r := range w.store.order {
			for _, k := range r.keys() {
				fmt.Println(r.gvk.Kind, k)
				if r.gvk.Kind == "CAPTControlPlane" || r.gvk.Kind == "WorkspaceTemplateApply" {
					fmt.Println(string(raw(r.objects[k]).Raw))
				}
			}
		}
		fmt.Println(w.trace.String())
	})
}
