// Package contract is an exam's driver in Go without its library: it reads commands and writes answers (docs/exam.md).
package contract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Command is what the exam asks for; a command uses some of it.
type Command struct {
	ID              int    `json:"id"`
	Do              string `json:"do"`
	Producer        string `json:"producer"`
	Consumer        string `json:"consumer"`
	Worker          string `json:"worker"`
	Name            string `json:"name"`
	Bootstrap       string `json:"bootstrap"`
	ClientID        string `json:"client_id"`
	TransactionalID string `json:"transactional_id"`
	TransactionMs   int    `json:"transaction_timeout_ms"`
	RequestMs       int    `json:"request_timeout_ms"`
	PatienceMs      int    `json:"patience_ms"`
	TimeoutMs       int    `json:"timeout_ms"`
	Topic           string `json:"topic"`
	Partition       int32  `json:"partition"`
	Partitions      int32  `json:"partitions"`
	Offset          int64  `json:"offset"`
	Offsets         []At   `json:"offsets"`
	Value           string `json:"value"`
	Wait            bool   `json:"wait"`
	Group           string `json:"group"`
	Isolation       string `json:"isolation"`
	Protocol        string `json:"protocol"`
	SessionMs       int    `json:"session_timeout_ms"`
	How             string `json:"how"`
}

// Servers are the addresses of the cluster.
func (c Command) Servers() []string { return strings.Split(c.Bootstrap, ",") }

// Ms makes a duration of milliseconds.
func Ms(count int) time.Duration { return time.Duration(count) * time.Millisecond }

// At is a position: an array of topic, partition and offset.
type At struct {
	Topic     string
	Partition int32
	Offset    int64
}

// UnmarshalJSON reads the array.
func (a *At) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&a.Topic, &a.Partition, &a.Offset})
}

// Answer is what a command came to.
type Answer = map[string]any

// Error is an error as the library tells it.
type Error struct {
	Name      string `json:"name"`
	Class     string `json:"class"`
	Message   string `json:"message"`
	Retriable bool   `json:"retriable"`
	Abortable bool   `json:"abortable"`
	Fatal     bool   `json:"fatal"`
}

// Serve answers commands until standard input ends.
//
// said is the library's own word on the error of a command: what it leaves empty is filled in.
func Serve(library, module string, commands map[string]func(Command) (Answer, error), describeError func(string, error) Error) {
	answers := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // a library that prints must not write between the answers
	commands["describe"] = func(Command) (Answer, error) {
		return Answer{"contract": 1, "library": library, "version": version(module), "language": "Go", "runtime": runtime.Version()}, nil
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26) // the value of a record may be large
	for lines.Scan() {
		var command Command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			panic(err)
		}
		_ = answers.Encode(answer(command, commands, describeError)) // a pipe that is closed ends the loop
	}
}

func answer(command Command, commands map[string]func(Command) (Answer, error), describeError func(string, error) Error) Answer {
	carryOut, isKnown := commands[command.Do]
	if !isKnown {
		return Answer{"id": command.ID, "ok": false, "error": Error{Name: "UNSUPPORTED_COMMAND", Message: command.Do}}
	}
	fields, err := carryOut(command)
	if fields == nil {
		fields = Answer{}
	}
	fields["id"], fields["ok"] = command.ID, err == nil
	if err != nil {
		failure := describeError(command.Do, err)
		failure.Class, failure.Message = fmt.Sprintf("%T", err), err.Error()
		if failure.Name == "" {
			failure.Name = failure.Class
		}
		fields["error"] = failure
	}
	return fields
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return ""
}
