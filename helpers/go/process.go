// Package txnsimtest starts a simulated Kafka cluster for a Go test, makes faults happen in it, and looks at what became of
// transactions. It needs the command txnsim and nothing but the standard library; clients are whatever the test uses.
//
//	cluster := txnsimtest.Start(t, txnsimtest.Options{Topics: map[string]int{"payments": 1}})
//	cluster.Faults().Arm(t, txnsimtest.Rule{ID: "late", Point: "client.request", API: "Produce", Action: txnsimtest.Hold()})
//
// The process ends with the test: by a signal to its process id, or, however the test ends, with its standard input. At the
// end of a test that has not failed, a fault that never struck fails it.
package txnsimtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 90 * time.Second
	stopTimeout  = 60 * time.Second
	logTail      = 4_000
)

// Options say what to start; the zero value is three brokers at transaction.version 2.
type Options struct {
	// Brokers is how many; 3 unless given.
	Brokers int
	// TransactionVersion is the finalized level of the feature; 2 unless given.
	TransactionVersion *int
	// Topics are created at start: name and partitions; 0 for as many as is the broker's default.
	Topics map[string]int
	// Settings by Kafka's names, as in server.properties.
	Settings map[string]any
	// AsVersion is the Kafka release to behave as, for instance "3.9".
	AsVersion string
	// Trace is "off", "brief" or "full"; brief unless given, so that Events has something to tell.
	Trace string
	// Command is what to run; the environment's TXNSIM unless given, else txnsim of the PATH.
	Command string
}

// Level is a pointer to a transaction.version, for Options.
func Level(version int) *int { return &version }

// Cluster is a running simulator.
type Cluster struct {
	*Client
	process *exec.Cmd
	stdin   io.Closer
	output  *tail
}

type ready struct {
	Bootstrap string `json:"bootstrap"`
	HTTP      string `json:"http"`
	Token     string `json:"token"`
	PID       int    `json:"pid"`
}

// Start starts a cluster of its own for this test; it is stopped when the test and its subtests are over.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	directory := t.TempDir()
	readyFile := filepath.Join(directory, "ready.json")
	command := exec.Command(options.command(), options.arguments(t, directory, readyFile)...)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatalf("txnsim: %v", err)
	}
	output := &tail{}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatalf("txnsim can't be started: %v; install it (pip install '.[http]' in a checkout of txnsim), or name it in TXNSIM", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	cluster := &Cluster{process: command, stdin: stdin, output: output}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	t.Cleanup(func() { signal.Stop(interrupts); close(interrupts); cluster.stop(t, ended) })
	facts := cluster.await(t, readyFile, ended)
	cluster.Client = Connect(facts.HTTP).WithToken(facts.Token)
	cluster.Client.bootstrap = facts.Bootstrap
	go cluster.tellWhenInterrupted(t.Name(), interrupts)
	return cluster
}

// tellWhenInterrupted prints the report of a test that hangs until Ctrl-C ends it.
func (c *Cluster) tellWhenInterrupted(name string, interrupts <-chan os.Signal) {
	if _, interrupted := <-interrupts; interrupted {
		fmt.Fprintf(os.Stderr, "%s was interrupted\n%s\n", name, c.Report())
		os.Exit(130) // standard input of the simulator ends with us, and so does it
	}
}

func (o Options) command() string {
	if o.Command != "" {
		return o.Command
	}
	if named := os.Getenv("TXNSIM"); named != "" {
		return named
	}
	return "txnsim"
}

func (o Options) arguments(t testing.TB, directory, readyFile string) []string {
	t.Helper()
	brokers, trace := o.Brokers, o.Trace
	if brokers == 0 {
		brokers = 3
	}
	if trace == "" {
		trace = "brief"
	}
	arguments := []string{
		"serve", "--port", "0", "--http", "0", "--until-eof", "--json", "--ready-file", readyFile, "--ready-coordinators",
		"--brokers", strconv.Itoa(brokers), "--trace", trace,
	}
	if o.TransactionVersion != nil {
		arguments = append(arguments, "--transaction-version", strconv.Itoa(*o.TransactionVersion))
	}
	if o.AsVersion != "" {
		arguments = append(arguments, "--as-version", o.AsVersion)
	}
	for name, partitions := range o.Topics {
		topic := name
		if partitions != 0 {
			topic += ":" + strconv.Itoa(partitions)
		}
		arguments = append(arguments, "--topic", topic)
	}
	if len(o.Settings) > 0 {
		file := filepath.Join(directory, "settings.yaml")
		settingsJSON, err := json.Marshal(map[string]any{"settings": o.Settings}) // JSON is YAML
		if err == nil {
			err = os.WriteFile(file, settingsJSON, 0o600)
		}
		if err != nil {
			t.Fatalf("settings: %v", err)
		}
		arguments = append(arguments, "--config", file)
	}
	return arguments
}

func (c *Cluster) await(t testing.TB, readyFile string, ended chan error) ready {
	t.Helper()
	deadline := time.After(startTimeout)
	for {
		if content, err := os.ReadFile(readyFile); err == nil {
			var facts ready
			if err := json.Unmarshal(content, &facts); err != nil {
				t.Fatalf("%s: %v", readyFile, err)
			}
			return facts
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("txnsim ended (%v):\n%s", err, c.output)
		case <-deadline:
			t.Fatalf("txnsim was not ready in %v:\n%s", startTimeout, c.output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *Cluster) stop(t testing.TB, ended chan error) {
	if c.Client != nil && !t.Failed() {
		if refusal := c.neverStruck(false); refusal != "" {
			t.Error(refusal)
		}
	}
	if c.Client != nil && t.Failed() {
		t.Log(c.Report())
	}
	_ = c.process.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil && !t.Failed() {
			t.Errorf("txnsim ended with %v:\n%s", err, c.output)
		}
	case <-time.After(stopTimeout):
		_ = c.process.Process.Kill()
		t.Errorf("txnsim did not end within %v", stopTimeout)
	}
	_ = c.stdin.Close()
	if t.Failed() {
		t.Logf("txnsim said:\n%s", c.output)
	}
}

// tail keeps the end of what the process prints.
type tail struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(chunk []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.text.Write(chunk)
	if excess := t.text.Len() - logTail; excess > 0 {
		t.text.Next(excess)
	}
	return len(chunk), nil
}

func (t *tail) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return strings.ToValidUTF8(t.text.String(), "?")
}
