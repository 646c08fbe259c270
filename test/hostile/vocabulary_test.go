// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// vocabulary has the names with a meaning to a controller.
type vocabulary struct {
	// keys of annotations and labels, and names of finalizers: a hostile user tries each one in each of the three places.
	keys []string
	// managers are names of field managers.
	managers []string
}

// qualified is a key of an annotation, a label or a finalizer that this project, Cluster API, Crossplane or Kubernetes reads.
var qualified = regexp.MustCompile(`^([a-z0-9-]+\.)*(x-k8s\.io|crossplane\.io|upbound\.io|kubernetes\.io)/[A-Za-z0-9._-]+$`)

// version is the end of a text that is a group and a version, and not a key.
var version = regexp.MustCompile(`/v[0-9]+((alpha|beta)[0-9]+)?$`)

// readVocabulary collects the keys that are written in the code of CAPT, so that a new one is tried as soon as it exists, and those of other projects.
func readVocabulary(root string) (vocabulary, error) {
	keys, managers := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{"api", "controllers", "webhooks", "migrate", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return readConstants(path, keys, managers)
		})
		if err != nil {
			return vocabulary{}, err
		}
	}
	for _, key := range others() {
		keys[key] = true
	}
	for _, manager := range []string{"kubectl-client-side-apply", "kubectl", "before-first-apply", "clusterctl", "manager", "argocd-controller", "user"} {
		managers[manager] = true
	}
	v := vocabulary{slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(managers))}
	if len(keys) < 30 || len(managers) < 10 {
		return v, fmt.Errorf("the code has only %d keys and %d field managers: %+v", len(keys), len(managers), v)
	}
	return v, nil
}

// readConstants adds the keys in a file, and the values of constants whose names end with FieldManager.
func readConstants(path string, keys, managers map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imported := map[ast.Node]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			imported[n.Path] = true
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if text, ok := textOf(at(n.Values, i)); ok && strings.HasSuffix(name.Name, "FieldManager") {
					managers[text] = true
				}
			}
		case *ast.BasicLit:
			if text, ok := textOf(n); ok && !imported[n] && qualified.MatchString(text) && !version.MatchString(text) {
				keys[text] = true
			}
		}
		return true
	})
	return nil
}

func at(values []ast.Expr, i int) ast.Expr {
	if i < len(values) {
		return values[i]
	}
	return nil
}

func textOf(expr ast.Expr) (string, bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// others are keys of Cluster API, clusterctl, Crossplane, Kubernetes and GitOps tools.
func others() []string {
	return []string{
		clusterv1.PausedAnnotation, clusterv1.ManagedByAnnotation, clusterv1.ClusterNameLabel, clusterv1.WatchLabel, clusterv1.ProviderNameLabel,
		clusterv1.ClusterTopologyOwnedLabel, clusterv1.TemplateClonedFromNameAnnotation, clusterv1.TemplateClonedFromGroupKindAnnotation,
		clusterv1.ClusterFinalizer, clusterv1.TopologyDryRunAnnotation, clusterv1.DisableMachineCreateAnnotation,
		conversionData, deleteForMove, "clusterctl.cluster.x-k8s.io/block-move", "clusterctl.cluster.x-k8s.io/move",
		"clusterctl.cluster.x-k8s.io/move-hierarchy", "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check",
		"crossplane.io/external-name", "crossplane.io/paused", "crossplane.io/external-create-pending", "crossplane.io/external-create-succeeded",
		"crossplane.io/external-create-failed", "finalizer.managedresource.crossplane.io",
		"kubectl.kubernetes.io/last-applied-configuration", "app.kubernetes.io/managed-by", "foregroundDeletion", "orphan", "kubernetes",
		"argocd.argoproj.io/sync-options", "kustomize.toolkit.fluxcd.io/prune", "example.com/own",
	}
}

const (
	conversionData = "cluster.x-k8s.io/conversion-data"
	deleteForMove  = "clusterctl.cluster.x-k8s.io/delete-for-move"
	// ownFinalizer keeps an object of the hostile user, so that it can be changed while it is deleted.
	ownFinalizer = "example.com/own"
)
