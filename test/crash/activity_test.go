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

package crash_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
)

// activity is what a manager's own metrics say of its controllers.
type activity struct {
	// reconciled is how often any object was looked at, and applies how often a WorkspaceTemplateApply.
	reconciled, applies float64
	// pending is what is left to do.
	pending float64
}

// observeActivity reads the metrics of the manager.
func observeActivity(ctx context.Context, url string) (a activity, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		value, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
		if err != nil {
			continue
		}
		switch name {
		case "controller_runtime_reconcile_total":
			a.reconciled += value
			if strings.Contains(rest, `controller="workspacetemplateapply"`) {
				a.applies += value
			}
		case "workqueue_depth", "controller_runtime_active_workers":
			a.pending += value
		}
	}
	return a, lines.Err()
}
