/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// planIDLength is the length of a plan's ID: enough to tell plans apart, short enough to type, and part of object names.
const planIDLength = 12

// Seal gives a plan its checksum and its ID.
func (p *Plan) Seal() error {
	p.APIVersion, p.Kind = APIVersion, "Plan"
	sum, err := p.sum()
	if err != nil {
		return err
	}
	p.Checksum, p.ID = sum, sum[:planIDLength]
	return nil
}

// sum is over the compact JSON, whatever the file looks like.
func (p *Plan) sum() (string, error) {
	content := *p
	content.ID, content.Checksum = "", ""
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	return Sum(data), nil
}

// Sum is the SHA-256, in hexadecimal, of what encoding/json made: compact, and with a fixed order of fields and keys.
func Sum(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// ReadPlan reads a plan and checks that nobody has changed it.
func ReadPlan(from io.Reader) (*Plan, error) {
	plan := &Plan{}
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(plan); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if plan.APIVersion != APIVersion || plan.Kind != "Plan" {
		return nil, fmt.Errorf("this is %s %s, not a Plan of %s", plan.APIVersion, plan.Kind, APIVersion)
	}
	sum, err := plan.sum()
	if err != nil {
		return nil, err
	}
	if sum != plan.Checksum || len(plan.Checksum) < planIDLength || plan.ID != plan.Checksum[:planIDLength] {
		return nil, errors.New("the plan was changed after it was made: its checksum is wrong. Make a new one; what it should do otherwise belongs into --decisions")
	}
	return plan, nil
}

// Write writes the plan, indented for people.
func (p *Plan) Write(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p)
}

// ContentHash is a hash of what users and controllers want of an object: its spec, its owners and whether it is being deleted;
// 16 hexadecimal digits. Status, labels, annotations, finalizers and the API versions of owners are no part of it, so that
// their churn does not make a plan stale; nor are Clusters among the owners, which Cluster API sees to and a plan leaves alone.
func ContentHash(object *unstructured.Unstructured) (string, error) {
	var owners []metav1.OwnerReference
	for _, owner := range object.GetOwnerReferences() {
		if version, err := schema.ParseGroupVersion(owner.APIVersion); err == nil {
			owner.APIVersion = version.Group
		}
		if owner.APIVersion != clusterv1.GroupVersion.Group {
			owners = append(owners, owner)
		}
	}
	data, err := json.Marshal(struct {
		Spec     any
		Owners   []metav1.OwnerReference
		Deleting bool
	}{object.Object["spec"], owners, object.GetDeletionTimestamp() != nil})
	if err != nil {
		return "", fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return Sum(data)[:16], nil
}

// WorkspaceHash is a hash of what a migration must not change in a Workspace: spec, labels, annotations and finalizers; 16
// hexadecimal digits.
func WorkspaceHash(workspace *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal(struct {
		Spec                any
		Labels, Annotations map[string]string
		Finalizers          []string
	}{workspace.Object["spec"], workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers()})
	if err != nil {
		return "", fmt.Errorf("encoding Workspace %s: %w", workspace.GetName(), err)
	}
	return Sum(data)[:16], nil
}
