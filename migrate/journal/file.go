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

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/capt-provider/capt/migrate"
)

// Event is what a line of the file is about.
type Event string

const (
	// RunBegins: the first line of each run.
	RunBegins Event = "RunBegins"
	// StepIntended: the next line about the object says what became of it; if there is none, the run was killed.
	StepIntended Event = "StepIntended"
	// StepWritten is an object that was written.
	StepWritten Event = "StepWritten"
	// StepFailed is one that was not.
	StepFailed Event = "StepFailed"
	// RunEnds: the last line of each run that was not killed.
	RunEnds Event = "RunEnds"
)

// Entry is a line of the file.
type Entry struct {
	Time  time.Time `json:"time"`
	Run   string    `json:"run"`
	Event Event     `json:"event"`
	// Command and Phase are those of the run.
	Command     Command            `json:"command,omitempty"`
	Phase       Phase              `json:"phase,omitempty"`
	Object      *migrate.ObjectRef `json:"object,omitempty"`
	Subresource string             `json:"subresource,omitempty"`
	// ResourceVersion is the one that the write was for, or made.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Message         string `json:"message,omitempty"`
}

// File is the journal on this host: a JSON document a line, each on the disk before the next request is sent.
type File struct {
	mutex sync.Mutex
	file  *os.File
	run   string
}

// DefaultDir is where state of programs belongs (XDG Base Directory Specification).
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("looking for a place for the journal: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "captctl", "migrate"), nil
}

// Open opens the file of a plan to append to it.
func Open(dir, planID, run string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the journal: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, planID+".jsonl"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) // #nosec G304 -- The operator names the folder.
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := endLine(file); err != nil {
		return nil, errors.Join(fmt.Errorf("reading journal %s: %w", file.Name(), err), file.Close())
	}
	return &File{file: file, run: run}, nil
}

// endLine ends a line that a run was killed in.
func endLine(file *os.File) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

// Append writes a line, and returns when it is on the disk. Of a nil File, it does nothing.
func (f *File) Append(entry Entry) error {
	if f == nil {
		return nil
	}
	entry.Run = f.run
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}
