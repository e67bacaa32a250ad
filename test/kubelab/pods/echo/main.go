// Command echo is the pod of the lab's own test: an HTTP server that says who
// asked it, a client (echo get URL), a worker (echo burn) and an admission
// webhook (echo webhook CERT KEY) that refuses everything.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(echo)}
	switch {
	case len(args) == 0:
		return server.ListenAndServe()
	case args[0] == "burn":
		return burn()
	case args[0] == "get" && len(args) == 2:
		return get(args[1])
	case args[0] == "webhook" && len(args) == 3:
		server.Addr, server.Handler = ":8443", http.HandlerFunc(refuse)
		return server.ListenAndServeTLS(args[1], args[2])
	default:
		return fmt.Errorf("unknown arguments %q: nothing, get URL, burn, or webhook CERT KEY", args)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		name = err.Error()
	}
	_, _ = fmt.Fprintf(w, "%s answers %s from %s\n", name, r.URL.Path, r.RemoteAddr)
}

func get(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// burn uses a fifth of a processor.
func burn() error {
	for {
		spin(20 * time.Millisecond)
		time.Sleep(80 * time.Millisecond)
	}
}

func spin(d time.Duration) {
	begun := time.Now()
	for time.Since(begun) < d {
		continue
	}
}

func refuse(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{
			"uid": review.Request.UID, "allowed": false, "status": map[string]any{"message": "refused by the webhook of this test"},
		},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(answer)
}
