// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/base64"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// timeout is the longest that Kubernetes allows. With the five seconds of CAPT's manifests, requests fail on a machine that runs several control planes.
const timeout = 30 * time.Second

// WebhookServer is the address of a component's webhooks.
type WebhookServer struct {
	// Address is host and port on loopback.
	Address string
	// Bundle is the certificate authority, in PEM, that signed its certificate.
	Bundle []byte
}

// Point makes the API server call webhooks directly. The manifests name a Service, which a control plane without nodes cannot
// reach. Objects of other kinds are not changed.
func (s WebhookServer) Point(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := s.point(object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (s WebhookServer) point(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		config, found, err := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook", "clientConfig")
		if err != nil || !found {
			return err
		}
		s.rewrite(config)
		return unstructured.SetNestedMap(object.Object, config, "spec", "conversion", "webhook", "clientConfig")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, item := range webhooks {
			webhook, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("a webhook is a %T", item)
			}
			config, ok := webhook["clientConfig"].(map[string]any)
			if !ok {
				return fmt.Errorf("webhook %v has no clientConfig", webhook["name"])
			}
			s.rewrite(config)
			webhook["timeoutSeconds"] = int64(timeout / time.Second)
		}
		return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
	default:
		return nil
	}
}

func (s WebhookServer) rewrite(config map[string]any) {
	if service, ok := config["service"].(map[string]any); ok {
		path, _ := service["path"].(string)
		config["url"] = "https://" + s.Address + path
		delete(config, "service")
	}
	config["caBundle"] = base64.StdEncoding.EncodeToString(s.Bundle)
}

// WithoutConversion makes CRDs with a conversion webhook serve only the stored version. It is for a sandbox without that
// webhook: the API server would only change apiVersion, and an object in another version would miss most of its fields.
func WithoutConversion(definitions []*unstructured.Unstructured) error {
	for _, object := range definitions {
		strategy, _, err := unstructured.NestedString(object.Object, "spec", "conversion", "strategy")
		if err != nil {
			return fmt.Errorf("conversion of %s: %w", object.GetName(), err)
		}
		if strategy != "Webhook" {
			continue
		}
		unstructured.RemoveNestedField(object.Object, "spec", "conversion")
		versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
		if err != nil {
			return fmt.Errorf("versions of %s: %w", object.GetName(), err)
		}
		for _, item := range versions {
			if version, ok := item.(map[string]any); ok && version["storage"] != true {
				version["served"] = false
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"); err != nil {
			return err
		}
	}
	return nil
}
