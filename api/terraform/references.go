// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import "k8s.io/apimachinery/pkg/util/validation/field"

// Reference is a place in a spec that names a Secret or ConfigMap.
// +kubebuilder:object:generate=false
type Reference struct {
	// Kind of the object: Secret or ConfigMap.
	Kind string
	// Namespace points to the field in the spec, so that callers can change it.
	Namespace *string
	// Object is the name of the object, or name/key if the reference has a key.
	Object string
	// Path of the reference.
	Path *field.Path
	// Connection is true for the Secret that receives the outputs, which is written and not read.
	Connection bool
}

// References lists every place of a spec that names a Secret or ConfigMap. The security rules are checked over this list, so
// a new kind of reference must be added here.
func (s *WorkspaceSpec) References(path *field.Path) []Reference {
	var refs []Reference
	key := func(kind string, ref *KeyReference, path *field.Path) {
		if ref != nil {
			refs = append(refs, Reference{Kind: kind, Namespace: &ref.Namespace, Object: ref.Name + "/" + ref.Key, Path: path})
		}
	}
	params := path.Child("forProvider")
	for i := range s.ForProvider.VarFiles {
		key("ConfigMap", s.ForProvider.VarFiles[i].ConfigMapKeyRef, params.Child("varFiles").Index(i).Child("configMapKeyRef"))
		key("Secret", s.ForProvider.VarFiles[i].SecretKeyRef, params.Child("varFiles").Index(i).Child("secretKeyRef"))
	}
	for i := range s.ForProvider.Env {
		key("ConfigMap", s.ForProvider.Env[i].ConfigMapKeyRef, params.Child("env").Index(i).Child("configMapKeyRef"))
		key("Secret", s.ForProvider.Env[i].SecretKeyRef, params.Child("env").Index(i).Child("secretKeyRef"))
	}
	if ref := s.WriteConnectionSecretToRef; ref != nil {
		refs = append(refs, Reference{Kind: "Secret", Namespace: &ref.Namespace, Object: ref.Name, Path: path.Child("writeConnectionSecretToRef"), Connection: true})
	}
	return refs
}

// SecretKeys lists the keys of Secrets that the Workspace takes values from.
func (s *WorkspaceSpec) SecretKeys() []KeyReference {
	var refs []KeyReference
	for _, file := range s.ForProvider.VarFiles {
		if file.SecretKeyRef != nil {
			refs = append(refs, *file.SecretKeyRef)
		}
	}
	for _, env := range s.ForProvider.Env {
		if env.SecretKeyRef != nil {
			refs = append(refs, *env.SecretKeyRef)
		}
	}
	return refs
}
