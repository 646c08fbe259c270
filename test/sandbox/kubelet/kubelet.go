// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet is a stand-in for the kubelet of the sandbox's only node: the API server reads the log of the provider's Pod from it.
package kubelet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Verb is the hidden subcommand of the sandbox program that runs the stand-in.
const Verb = "kubelet"

// Options of the stand-in.
type Options struct {
	// Address is where it listens, on loopback.
	Address string
	// CertDir has its certificate (tls.crt, tls.key), and ClientCA is the authority that signs the API server's client certificate.
	CertDir, ClientCA string
	// Logs maps namespace/pod/container to a log file.
	Logs map[string]string
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	bundle, err := os.ReadFile(o.ClientCA)
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(bundle)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", o.containerLogs)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients, MinVersion: tls.VersionTLS12},
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.ServeTLS(listener, filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (o Options) containerLogs(w http.ResponseWriter, r *http.Request) {
	if len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "no client certificate", http.StatusUnauthorized)
		return
	}
	path, ok := o.Logs[r.PathValue("namespace")+"/"+r.PathValue("pod")+"/"+r.PathValue("container")]
	if !ok {
		http.Error(w, "no such container", http.StatusNotFound)
		return
	}
	options, err := parse(r)
	if err == nil {
		w.Header().Set("Content-Type", "text/plain")
		err = write(r.Context(), w, path, options)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// options are those of kubectl logs.
type options struct {
	since              time.Time
	limit, tail        int64 // Negative for none.
	follow, timestamps bool
}

func parse(r *http.Request) (options, error) {
	query := r.URL.Query()
	o := options{limit: -1, tail: -1, follow: query.Get("follow") == "true", timestamps: query.Get("timestamps") == "true"}
	var failed error
	number := func(name string, into *int64) {
		if text := query.Get(name); text != "" {
			var err error
			*into, err = strconv.ParseInt(text, 10, 64)
			failed = errors.Join(failed, err)
		}
	}
	number("limitBytes", &o.limit)
	number("tailLines", &o.tail)
	if seconds := int64(-1); query.Get("sinceSeconds") != "" {
		number("sinceSeconds", &seconds)
		o.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		var err error
		o.since, err = time.Parse(time.RFC3339, text)
		failed = errors.Join(failed, err)
	}
	return o, failed
}

// stamp is the time in the first line of an entry, in both formats of the provider. The file has no other times: the following lines have that of the
// line before.
var stamp = regexp.MustCompile(`^(?:\{"level":"[a-z]+","ts":")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d{4}))`)

// followInterval is how often a followed log is read.
const followInterval = 200 * time.Millisecond

func write(ctx context.Context, w io.Writer, path string, o options) error {
	skip := int64(0)
	if o.tail >= 0 {
		lines := int64(0)
		if err := o.each(ctx, path, nil, func([]byte, time.Time) bool { lines++; return true }); err != nil {
			return err
		}
		skip = lines - o.tail
	}
	var idle func()
	if o.follow {
		idle = func() {
			if flusher, ok := w.(http.Flusher); ok {
				flusher.Flush()
			}
		}
	}
	limited := &limitedWriter{w, o.limit}
	return o.each(ctx, path, idle, func(line []byte, at time.Time) bool {
		if skip--; skip >= 0 {
			return true
		}
		if o.timestamps {
			line = fmt.Appendf(nil, "%s %s", at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00"), line)
		}
		_, err := limited.Write(line)
		return err == nil // Otherwise the client has gone, or has all that it wants.
	})
}

// each calls visit for each line since a time, until it returns false. With idle, which is called at the end of the log, it waits for more lines.
func (o options) each(ctx context.Context, path string, idle func(), visit func(line []byte, at time.Time) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader, line, at := bufio.NewReaderSize(file, 64<<10), []byte(nil), time.Time{}
	for {
		part, err := reader.ReadBytes('\n')
		line = append(line, part...)
		if errors.Is(err, io.EOF) && idle != nil {
			idle()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(followInterval):
				continue
			}
		}
		at = timeOf(line, at)
		if len(line) > 0 && !at.Before(o.since) && !visit(line, at) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = line[:0]
	}
}

func timeOf(line []byte, before time.Time) time.Time {
	if match := stamp.FindSubmatch(line[:min(len(line), 64)]); match != nil {
		if at, err := time.Parse("2006-01-02T15:04:05.000Z0700", string(match[1])); err == nil {
			return at
		}
	}
	return before
}

// limitedWriter fails after a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(data []byte) (int, error) {
	if l.left < 0 {
		return l.w.Write(data)
	}
	if int64(len(data)) < l.left {
		l.left -= int64(len(data))
		return l.w.Write(data)
	}
	n, err := l.w.Write(data[:l.left])
	l.left = 0
	return n, errors.Join(err, io.EOF)
}
