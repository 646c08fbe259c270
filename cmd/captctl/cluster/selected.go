// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"strings"
)

// Selected is the object that an argument names.
type Selected struct {
	Of              *Access
	Namespace, Name string
	// Kind is how messages name it; empty for a Cluster.
	Kind string
}

// Complete takes the argument. Without a namespace, that of --namespace or of the context is meant.
func (s *Selected) Complete(args []string) (err error) {
	namespace, name, qualified := strings.Cut(args[0], "/")
	if s.Namespace, s.Name = namespace, name; !qualified {
		s.Name = args[0]
		s.Namespace, _, err = s.Of.ToRawKubeConfigLoader().Namespace()
	}
	return err
}

// Validate checks the argument.
func (s *Selected) Validate() error {
	if s.Namespace == "" || s.Name == "" || strings.Contains(s.Name, "/") {
		kind := cmp.Or(s.Kind, "CLUSTER")
		return fmt.Errorf("%q: must be %s or NAMESPACE/%[2]s", s.Namespace+"/"+s.Name, kind)
	}
	return nil
}
