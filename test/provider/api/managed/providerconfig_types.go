// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managed

// CredentialsSource says where credentials come from.
// +kubebuilder:validation:Enum=None;Secret;Environment;Filesystem
type CredentialsSource string

// The sources of credentials.
const (
	CredentialsNone        CredentialsSource = "None"
	CredentialsSecret      CredentialsSource = "Secret"
	CredentialsEnvironment CredentialsSource = "Environment"
	CredentialsFilesystem  CredentialsSource = "Filesystem"
)

// EnvSelector names a variable of the provider's environment.
type EnvSelector struct {
	// Name of the variable.
	Name string `json:"name"`
}

// FsSelector names a file the provider can read.
type FsSelector struct {
	// Path of the file.
	Path string `json:"path"`
}

// SecretKeySelector names a key of a Secret of any namespace.
type SecretKeySelector struct {
	SecretReference `json:",inline"`

	// Key of the Secret's data.
	Key string `json:"key"`
}

// ProviderCredentials is one credentials file that is put next to each configuration.
type ProviderCredentials struct {
	// Filename to write the credentials to, next to main.tf; directories in it are dropped.
	Filename string `json:"filename"`

	// Source of the credentials.
	Source CredentialsSource `json:"source"`

	// Fs is the file to read when the source is Filesystem.
	// +optional
	Fs *FsSelector `json:"fs,omitempty"`

	// Env is the variable to read when the source is Environment.
	// +optional
	Env *EnvSelector `json:"env,omitempty"`

	// SecretRef is the key to read when the source is Secret.
	// +optional
	SecretRef *SecretKeySelector `json:"secretRef,omitempty"`
}

// ProviderConfigSpec is what all Workspaces that use a ProviderConfig share.
type ProviderConfigSpec struct {
	// Credentials are files put next to the configuration.
	// +optional
	Credentials []ProviderCredentials `json:"credentials,omitempty"`

	// Configuration is HCL that is added to each Workspace's module, usually provider and backend blocks.
	// +optional
	Configuration *string `json:"configuration,omitempty"`

	// PluginCache lets Workspaces share downloaded provider plugins.
	// +optional
	// +kubebuilder:default=true
	PluginCache *bool `json:"pluginCache,omitempty"`

	// BackendFile is the content of a file of backend settings, given to init as -backend-config.
	// +optional
	BackendFile *string `json:"backendFile,omitempty"`
}

// ProviderConfigStatus is what became of a ProviderConfig.
type ProviderConfigStatus struct {
	ConditionedStatus `json:",inline"`

	// Users is how many objects use the ProviderConfig.
	// +optional
	Users int64 `json:"users,omitempty"`
}
