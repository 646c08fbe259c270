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

package change

import (
	"errors"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
)

func validate(flag *output.Flag, run *flags.Run, environment *cli.Environment) error {
	return errors.Join(flag.Validate(), run.Validate(environment))
}

// do runs, and prints what came of it, also when something failed.
func do(environment *cli.Environment, flag *output.Flag, run func(migrate.Progress) (*execute.Result, error)) error {
	progress := environment.Progress(flag.Format())
	result, err := run(progress)
	progress.Stop()
	if result == nil {
		return err
	}
	printed := environment.Printer(flag.Format()).Document(result, func(p *output.Printer) { view.Result(p, result) })
	if err != nil {
		return err
	}
	return printed
}
