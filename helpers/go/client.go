package txnsimtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// Client talks to the control port of a simulator that runs already: of Start, of `txnsim serve --http`, of a container.
type Client struct {
	url       string
	token     string
	bootstrap string
	http      *http.Client
}

// Connect is a client of the control port at that address, for instance http://127.0.0.1:9080. Where the port wants a token,
// it is that of the environment's TXNSIM_TOKEN, or of WithToken.
func Connect(address string) *Client {
	return &Client{
		url:   strings.TrimRight(address, "/"),
		token: os.Getenv("TXNSIM_TOKEN"),
		http:  &http.Client{Timeout: 10 * time.Minute},
	}
}

// WithToken sets the token that is sent from now on.
func (c *Client) WithToken(token string) *Client {
	c.token = token
	return c
}

func (c *Client) authorize(request *http.Request) {
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
}

// Error is a refusal: its text says what to do instead.
type Error struct {
	Status int
	Reason string
	Body   []byte
}

func (e *Error) Error() string { return fmt.Sprintf("txnsim: %s (HTTP %d)", e.Reason, e.Status) }

// Do asks for anything that the helper has no method for (the document of all of it is at /openapi.json). A body is sent as
// JSON unless it is nil; an answer is read into out unless that is nil.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return err
	}
	c.authorize(request)
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	payload, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		var problem struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(payload, &problem) != nil || problem.Error == "" {
			problem.Error = string(payload)
		}
		return &Error{Status: response.StatusCode, Reason: problem.Error, Body: payload}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(payload, out)
}

func (c *Client) must(t testing.TB, method, path string, body, out any) {
	t.Helper()
	if err := c.Do(context.Background(), method, path, body, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Report is what happened, for people: the story, what unfinished transactions wait for, the fault rules and their hits. Start
// logs it when its test has failed.
func (c *Client) Report() string {
	text, err := c.text(context.Background(), "/api/v1/report")
	if err != nil {
		return fmt.Sprintf("txnsim: no report: %v", err)
	}
	return text
}

func (c *Client) text(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return "", err
	}
	c.authorize(request)
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

// URL is the address of the control port.
func (c *Client) URL() string { return c.url }

// Bootstrap is what clients take as bootstrap.servers.
func (c *Client) Bootstrap() string {
	if c.bootstrap == "" {
		var health struct {
			Bootstrap string `json:"bootstrap"`
		}
		if err := c.Do(context.Background(), http.MethodGet, "/healthz", nil, &health); err == nil {
			c.bootstrap = health.Bootstrap
		}
	}
	return c.bootstrap
}

// Brokers are the addresses of Bootstrap one by one.
func (c *Client) Brokers() []string { return strings.Split(c.Bootstrap(), ",") }

// Topics and partitions

// Replica is a replica as its own broker has it; offsets are nil while that broker does not run.
type Replica struct {
	Broker           int    `json:"broker"`
	IsRunning        bool   `json:"is_running"`
	InSync           bool   `json:"in_sync"`
	LogStartOffset   *int64 `json:"log_start_offset"`
	LastStableOffset *int64 `json:"last_stable_offset"`
	HighWatermark    *int64 `json:"high_watermark"`
	LogEndOffset     *int64 `json:"log_end_offset"`
}

// Partition is a partition with the offsets of every replica.
type Partition struct {
	Partition   int       `json:"partition"`
	Leader      int       `json:"leader"`
	LeaderEpoch int       `json:"leader_epoch"`
	ISR         []int     `json:"isr"`
	Replicas    []Replica `json:"replicas"`
}

// LeaderReplica is what the leader has; nil where there is none.
func (p Partition) LeaderReplica() *Replica {
	for index := range p.Replicas {
		if p.Replicas[index].Broker == p.Leader {
			return &p.Replicas[index]
		}
	}
	return nil
}

// CreateTopic creates a topic, replicated as the cluster's default says.
func (c *Client) CreateTopic(t testing.TB, name string, partitions int, configs map[string]string) {
	t.Helper()
	body := map[string]any{"name": name, "partitions": partitions}
	if configs != nil {
		body["configs"] = configs
	}
	c.must(t, http.MethodPost, "/api/v1/topics", body, nil)
}

// Partition describes one partition.
func (c *Client) Partition(t testing.TB, topic string, partition int) Partition {
	t.Helper()
	var described struct {
		Partitions []Partition `json:"partitions"`
	}
	c.must(t, http.MethodGet, "/api/v1/topics/"+url.PathEscape(topic), nil, &described)
	if partition >= len(described.Partitions) {
		t.Fatalf("%s has %d partitions, there is no %d", topic, len(described.Partitions), partition)
	}
	return described.Partitions[partition]
}

// Brokers, leaders, clock

// KillBroker ends a broker at once, with what was not on disk if so wanted.
func (c *Client) KillBroker(t testing.TB, broker int, loseUnflushed bool) {
	t.Helper()
	c.must(t, http.MethodPost, fmt.Sprintf("/api/v1/brokers/%d/kill", broker), map[string]bool{"lose_unflushed": loseUnflushed}, nil)
}

// StopBroker stops a broker in good order.
func (c *Client) StopBroker(t testing.TB, broker int) {
	t.Helper()
	c.must(t, http.MethodPost, fmt.Sprintf("/api/v1/brokers/%d/stop", broker), nil, nil)
}

// StartBroker starts a broker that is down; it serves clients afterwards.
func (c *Client) StartBroker(t testing.TB, broker int) {
	t.Helper()
	c.must(t, http.MethodPost, fmt.Sprintf("/api/v1/brokers/%d/start", broker), nil, nil)
}

// MoveLeader hands a partition to another replica in sync.
func (c *Client) MoveLeader(t testing.TB, topic string, partition, leader int) {
	t.Helper()
	c.must(t, http.MethodPost, "/api/v1/leaders", map[string]any{"topic": topic, "partition": partition, "leader": leader}, nil)
}

// AdvanceClock moves the cluster clock: transaction timeouts and expiry go by it; what a fault has lost between brokers times
// out by it too. It goes by whole milliseconds.
func (c *Client) AdvanceClock(t testing.TB, duration time.Duration) {
	t.Helper()
	if duration%time.Millisecond != 0 {
		t.Fatalf("%v is no whole number of milliseconds: the cluster clock goes by those", duration)
	}
	c.must(t, http.MethodPost, "/api/v1/clock", map[string]int64{"advance_ms": duration.Milliseconds()}, nil)
}

// Between tests

// Snapshot names the present state: topics, configs, features; no records.
func (c *Client) Snapshot(t testing.TB, name string) {
	t.Helper()
	c.must(t, http.MethodPost, "/api/v1/snapshots", map[string]string{"name": name}, nil)
}

// Reset makes it a fresh cluster on the same ports, as it was started, in a few milliseconds. Close your clients before:
// whoever connects again meets the new cluster. A fault that never struck fails the test first.
func (c *Client) Reset(t testing.TB) {
	t.Helper()
	c.ResetTo(t, "start")
}

// ResetTo does the same with the topics and settings of a snapshot.
func (c *Client) ResetTo(t testing.TB, snapshot string) {
	t.Helper()
	if refusal := c.neverStruck(false); refusal != "" {
		t.Error(refusal)
	}
	c.must(t, http.MethodPost, "/api/v1/reset", map[string]string{"to": snapshot}, nil)
}

func isStatus(err error, status int) (*Error, bool) {
	var refusal *Error
	ok := errors.As(err, &refusal) && refusal.Status == status
	return refusal, ok
}
