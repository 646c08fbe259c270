// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// decode returns a page of a list. Its items are counted before they are decoded: the API server is that of a user, and an empty item of two bytes needs
// thousands of them as a Node.
func decode(response rest.Result) (*corev1.NodeList, error) {
	data, err := response.Raw()
	if err != nil {
		return nil, err
	}
	check := checkJSON
	if bytes.HasPrefix(data, []byte(protobufPrefix)) {
		check = checkProtobuf
	}
	if err := check(data); err != nil {
		return nil, err
	}
	page := &corev1.NodeList{}
	return page, response.Into(page)
}

// An invalid list is not decoded, because it could not be counted.
var (
	errTooMany = errors.New("the page has too many nodes")
	errInvalid = errors.New("the page is invalid")
)

// protobufPrefix begins each object in the protobuf of Kubernetes, an envelope whose field rawField has the list. Of a list, itemsField are the items.
const (
	protobufPrefix       = "k8s\x00"
	rawField, itemsField = 2, 2
)

func checkProtobuf(data []byte) error {
	items := 0
	return eachField(data[len(protobufPrefix):], rawField, func(list []byte) error {
		return eachField(list, itemsField, func([]byte) error {
			if items++; items > maxNodes {
				return errTooMany
			}
			return nil
		})
	})
}

// eachField calls a function with each value of a field of a message.
func eachField(message []byte, number protowire.Number, each func([]byte) error) error {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errInvalid
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(found, kind, message); n < 0 {
			return errInvalid
		}
		if found == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := each(value); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
}

func checkJSON(data []byte) error {
	var list struct {
		Items jsonItems `json:"items"`
	}
	switch err := json.Unmarshal(data, &list); {
	case errors.Is(err, errTooMany):
		return errTooMany
	case err != nil:
		return errInvalid // The error can quote the data.
	}
	return nil
}

// jsonItems counts the items of a list, also those of a field that is given twice.
type jsonItems int

// UnmarshalJSON implements json.Unmarshaler.
func (c *jsonItems) UnmarshalJSON(data []byte) error {
	decoder, item := json.NewDecoder(bytes.NewReader(data)), json.RawMessage{}
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return err // It is null, or no list, which the client does not decode either.
	}
	for ; decoder.More(); *c++ {
		if *c == maxNodes {
			return errTooMany
		}
		if err := decoder.Decode(&item); err != nil {
			return err
		}
	}
	return nil
}
