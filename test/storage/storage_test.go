// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage_test has the test of the migration of stored versions, on a real API server with objects that were stored in v1beta1.
package storage_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	adoption "github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	tick = 50 * time.Millisecond

	// shard has no objects: nothing is written but by the migration, and WorkspaceTemplates, which all shards share.
	shard = "--watch-filter=another-shard"
	skip  = "--skip-crd-migration-phases=StorageVersionMigration"
)

// stubborn objects break rules of v1beta2, so that every write of their spec is refused.
var stubborn = []string{
	`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, metadata: {namespace: default, name: no-spec}}`, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {namespace: default, name: two-profiles}
spec:
  version: "1.31"
  workspaceTemplateRef: {name: x}
  additionalFargateProfiles:
  - {name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}
  - {name: a, selectors: [], workspaceTemplateRef: {name: x}}`,
}

type environment struct{ *legacy.Environment }

// The installed manager rewrites the objects of all namespaces and shards, with the rights that it has and without a change, once the last
// one of CAPT v0.3 is adopted, and not before.
func TestTheManagerMigratesStoredVersionsAfterTheLastAdoption(t *testing.T) {
	env := start(t)
	waiting := env.awaited(t)
	require.Greater(t, len(waiting), 5)
	before := env.stored(t, sharded())

	// While one object awaits adoption, nothing is written, and the log says why.
	last := waiting[len(waiting)-1]
	for _, object := range waiting[:len(waiting)-1] {
		env.adopt(t, object)
	}
	fixture.EventuallyTrue(t, tick, func() bool {
		log := env.Logs(sandbox.Manager, 400)
		return strings.Contains(log, "Waiting to migrate stored versions") && strings.Contains(log, "objects=1 ")
	}, "the log does not say why nothing is migrated")
	require.Empty(t, env.writes(t))

	// With the phase skipped, nothing is written after the last adoption either.
	require.NoError(t, env.StartControllers(t.Context(), shard, skip))
	env.adopt(t, last)
	require.Empty(t, env.awaited(t))
	older := 0
	for _, value := range env.stored(t, sharded()) {
		if strings.HasSuffix(value.apiVersion, "/"+migrate.LegacyVersion) {
			older++
		}
	}
	require.Equal(t, len(before)-len(waiting), older, "only what was adopted is stored in v1beta2")
	require.Empty(t, env.writes(t))

	unchanged := env.snapshot(t)
	require.NoError(t, env.StartControllers(t.Context(), shard))
	env.awaitMigrated(t)
	for key, value := range env.stored(t, definitions()) {
		require.Regexp(t, "/v1beta2$", value.apiVersion, key)
	}
	require.Equal(t, unchanged, env.snapshot(t))

	env.requireNothingMoreIsWritten(t)
	require.NoError(t, env.StartControllers(t.Context(), shard))
	env.requireNothingMoreIsWritten(t)
}

// start builds a fleet under the definitions of CAPT v0.3 and installs this version.
func start(t *testing.T) *environment {
	t.Helper()
	env := legacy.New(t, sandbox.Options{})
	for _, name := range []string{"reference-set", "helpers-present"} {
		_, err := env.Create(t.Context(), legacy.Named()[name], legacy.NamesOf(name))
		require.NoError(t, err)
	}
	for _, document := range stubborn {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), object))
		require.NoError(t, env.Admin.Create(t.Context(), object))
	}
	require.NoError(t, env.Upgrade(t.Context(), shard))
	return &environment{env}
}

// awaited are the objects that await adoption, owners first, so that the last one is a WorkspaceTemplateApply.
func (env *environment) awaited(t *testing.T) (objects []client.Object) {
	t.Helper()
	for _, list := range []client.ObjectList{&controlplanev1.CAPTControlPlaneList{}, &infrav1.CAPTClusterList{}, &infrav1.WorkspaceTemplateApplyList{}} {
		require.NoError(t, env.Admin.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(item runtime.Object) error {
			if object := item.(client.Object); adoption.IsPending(object) {
				objects = append(objects, object)
			}
			return nil
		}))
	}
	return objects
}

// adopt does what captctl and the manager do.
func (env *environment) adopt(t *testing.T, object client.Object) {
	t.Helper()
	apply, isApply := object.(*infrav1.WorkspaceTemplateApply)
	switch {
	case isApply && adoption.HelperRole(apply) != "":
		patch(t, env.Admin, object, `{"spec":{"deletionPolicy":"Retain"}}`)
	case isApply:
		patch(t, env.Admin, object, `{"spec":{"workspaceName":"`+adoption.UnadoptedWorkspace(apply)+`"}}`)
	default:
		require.NoError(t, env.Admin.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))))
		if adoption.IsPending(object) {
			patch(t, env.Admin, object, `{"spec":{"workspaceTemplateApplyRef":{"name":"`+object.GetName()+`"}}}`)
		}
	}
	require.False(t, adoption.IsPending(object), "%T %s", object, object.GetName())
}

func patch(t *testing.T, c client.Client, object client.Object, body string) {
	t.Helper()
	require.NoError(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))), "%T %s", object, object.GetName())
}

// snapshot is everything of every object of a shard but its resourceVersion, in both versions, by path.
func (env *environment) snapshot(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, kind := range sharded() {
		for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
			err := migrate.Each(t.Context(), env.Admin, kind.GroupKind().WithVersion(version), "", func(object *unstructured.Unstructured) error {
				object.SetResourceVersion("")
				found[fmt.Sprintf("%s %s %s/%s", version, object.GetKind(), object.GetNamespace(), object.GetName())] = object.Object
				return nil
			})
			require.NoError(t, err)
		}
	}
	return found
}

// definitions are those with two versions.
func definitions() (kinds []migrate.Kind) {
	for _, kind := range migrate.Kinds() {
		if kind.Kind != "CAPTClusterTemplate" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// sharded are those of which a shard has objects of its own.
func sharded() []migrate.Kind {
	return slices.DeleteFunc(definitions(), func(kind migrate.Kind) bool { return kind.Kind == "WorkspaceTemplate" })
}

// awaitMigrated waits until the migrator has marked every definition.
func (env *environment) awaitMigrated(t *testing.T) {
	t.Helper()
	for _, kind := range definitions() {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		fixture.EventuallyTrue(t, tick, func() bool {
			require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKey{Name: kind.Definition()}, definition))
			return definition.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] == fmt.Sprint(definition.Generation)
		}, "%s is not migrated", kind.Kind)
		require.Equal(t, []string{migrate.Version}, definition.Status.StoredVersions, kind.Kind)
	}
}

// requireNothingMoreIsWritten changes a definition, as an upgrade of CAPT does. There is one worker, so when that is marked all earlier
// events were handled, and the mark must be the only write.
func (env *environment) requireNothingMoreIsWritten(t *testing.T) {
	t.Helper()
	values, writes := env.stored(t, sharded()), env.writes(t)
	name := migrate.Kinds()[3].Definition()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKey{Name: name}, definition))
	category := fmt.Sprintf("generation-%d", definition.Generation)
	patch(t, env.Admin, definition, `{"spec":{"names":{"categories":["`+category+`"]}}}`)
	env.awaitMigrated(t)
	require.Equal(t, []string{"patch customresourcedefinitions//" + name}, env.writes(t)[len(writes):])
	require.Equal(t, values, env.stored(t, sharded()), "revisions in etcd are the same")
}

// writes of the manager to definitions, and objects of shards.
func (env *environment) writes(t *testing.T) (writes []string) {
	t.Helper()
	events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes})
	require.NoError(t, err)
	for _, event := range events {
		ref := event.ObjectRef
		ours := strings.HasSuffix(ref.APIGroup, ".cluster.x-k8s.io") && ref.Resource != "workspacetemplates"
		if ours || ref.Resource == "customresourcedefinitions" {
			writes = append(writes, strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s %s", event.Verb, ref.Resource, ref.Namespace, ref.Name, ref.Subresource)))
		}
	}
	return writes
}

// value is what etcd holds of an object, with the revision at which it was written.
type value struct{ apiVersion, revision string }

// stored is what etcd holds of some kinds, by key.
func (env *environment) stored(t *testing.T, kinds []migrate.Kind) map[string]value {
	t.Helper()
	running, err := process.Load(env.Dir())
	require.NoError(t, err)
	values := map[string]value{}
	for _, kind := range kinds {
		prefix := "/registry/" + kind.Group + "/" + kind.Resource + "/"
		encode := func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }
		query, err := json.Marshal(map[string]string{"key": encode(prefix), "range_end": encode(prefix[:len(prefix)-1] + "0")})
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, running.EtcdEndpoint+"/v3/kv/range", bytes.NewReader(query))
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		var found struct {
			KVs []struct {
				Key, Value []byte
				Revision   string `json:"mod_revision"`
			}
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&found))
		for _, kv := range found.KVs {
			content := &unstructured.Unstructured{}
			require.NoError(t, content.UnmarshalJSON(kv.Value))
			values[string(kv.Key)] = value{content.GetAPIVersion(), kv.Revision}
		}
	}
	return values
}
