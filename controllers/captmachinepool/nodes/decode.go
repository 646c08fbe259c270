// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
)

// The types of this file are what is decoded of a response. The API server is that of a user, who decides about its size and its form: a Node of
// Kubernetes needs a hundred times more memory than `{}` has bytes. Nothing here grows with the number of values: arrays have a fixed length, because the
// decoder skips what does not fit, texts have a limit, and there are neither maps nor pointers.

type jsonList struct {
	Kind     text `json:"kind"`
	Metadata struct {
		ResourceVersion text  `json:"resourceVersion"`
		Continue        token `json:"continue"`
	} `json:"metadata"`
	// Items have one more than a page: a longer page is invalid.
	Items [pageSize + 1]jsonNode `json:"items"`
}

// jsonEvent is an event of a watch. That of an error is invalid, because its status is a text.
type jsonEvent struct {
	Type   text     `json:"type"`
	Object jsonNode `json:"object"`
}

type jsonNode struct {
	Metadata struct {
		Name              text `json:"name"`
		ResourceVersion   text `json:"resourceVersion"`
		DeletionTimestamp text `json:"deletionTimestamp"`
		Labels            struct {
			NodeGroup text `json:"eks.amazonaws.com/nodegroup"`
		} `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ProviderID text `json:"providerID"`
	} `json:"spec"`
	Status struct {
		NodeInfo struct {
			KubeletVersion text `json:"kubeletVersion"`
		} `json:"nodeInfo"`
		// Conditions are enough for those of the kubelet, which come first, and of agents.
		Conditions [32]jsonCondition `json:"conditions"`
	} `json:"status"`
}

type jsonCondition struct {
	Type   text `json:"type"`
	Status text `json:"status"`
}

// text is a text that JSON does not escape, because those of Kubernetes are names; another one is empty.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] != '"' && data[0] != 'n' { // null becomes empty, as in Go.
		return errInvalid
	}
	*t = ""
	if data[0] == '"' && len(data) <= maxText && !bytes.Contains(data, []byte(`\`)) && utf8.Valid(data) {
		*t = text(data[1 : len(data)-1])
	}
	return nil
}

// token is a text that is sent back, and so is complete: a list would end early without that of its next page.
type token text

func (t *token) UnmarshalJSON(data []byte) error {
	if err := (*text)(t).UnmarshalJSON(data); err != nil || *t == "" && len(data) > len(`""`) && data[0] == '"' {
		return errInvalid
	}
	return nil
}

// within returns a text if it has a valid length, else an empty one: with a longer one, nothing of a CAPTMachinePool could be written.
func (t text) within(limit int) string {
	if len(t) > limit {
		return ""
	}
	return string(t)
}

var errInvalid = errors.New("the response is invalid")

// decode replaces the list by a page. The decoder is that of Kubernetes, because labels can differ in case only.
func (l *jsonList) decode(data []byte) error {
	*l = jsonList{}
	if json.UnmarshalCaseSensitivePreserveInts(data, l) != nil || l.Kind != "NodeList" || l.Items[pageSize].Metadata.Name != "" ||
		l.Metadata.ResourceVersion == "" {
		return errInvalid // An error of the decoder can quote the data.
	}
	return nil
}

// eachEvent calls a function with the events of a watch until the end of the watch, and returns nil then. API servers send each event in a line. There is
// no decoder that is kept: its buffer would have the size of the largest event, for each cluster.
func eachEvent(stream io.Reader, do func(*jsonEvent)) error {
	limited := &io.LimitedReader{R: stream}
	lines := bufio.NewReader(limited)
	for {
		limited.N = maxEvent
		line, ended := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e jsonEvent
			if json.UnmarshalCaseSensitivePreserveInts(line, &e) != nil || e.Object.Metadata.ResourceVersion == "" {
				return errInvalid
			}
			do(&e)
		}
		switch {
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return errInvalid
		}
	}
}

// member returns what is kept of a Node. It is nil if no API server has such a Node. Nodes share the texts that are equal in a node group.
func (n *jsonNode) member() *member {
	name := n.Metadata.Name.within(maxName)
	if name == "" || len(n.Metadata.Labels.NodeGroup) > maxGroup {
		return nil
	}
	return &member{Node{
		Name: name, ProviderID: n.Spec.ProviderID.within(maxProviderID), Version: unique.Make(n.Status.NodeInfo.KubeletVersion.within(maxVersion)).Value(),
		Ready: n.Metadata.DeletionTimestamp == "" && slices.Contains(n.Status.Conditions[:], jsonCondition{text(corev1.NodeReady), text(corev1.ConditionTrue)}),
	}, unique.Make(string(n.Metadata.Labels.NodeGroup)).Value()}
}
