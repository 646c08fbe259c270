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

package backup

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// stateLabel is what OpenTofu's and Terraform's backend "kubernetes" puts on the Secrets that hold state.
const stateLabel = "tfstate"

// StateSecret is the version of a Secret that holds Terraform state. As long as it is the same, no Terraform has written.
type StateSecret struct {
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

// secrets asks for metadata only. Of that, annotations are left out as well: kubectl puts what it applied into one.
func (w *writer) secrets(ctx context.Context) error {
	return w.file(secretsFile, func(encoder *json.Encoder) (count int, err error) {
		err = migrate.EachMetadata(ctx, w.reader, corev1.SchemeGroupVersion.WithKind("Secret"), func(secret *metav1.PartialObjectMetadata) error {
			count++
			return encoder.Encode(StateSecret{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion})
		}, client.MatchingLabels{stateLabel: "true"})
		if apierrors.IsForbidden(err) { // Preflight reports it. Only a comparison depends on it.
			w.about.StateUnknown = err.Error()
			return 0, nil
		}
		return count, err
	})
}
