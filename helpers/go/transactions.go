package txnsimtest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Place is a partition of a topic.
type Place struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// Transaction is a transactional id as its coordinator has it.
type Transaction struct {
	TransactionalID string  `json:"transactional_id"`
	Coordinator     int     `json:"coordinator"`
	State           string  `json:"state"`
	PendingState    *string `json:"pending_state"`
	ProducerID      int64   `json:"producer_id"`
	ProducerEpoch   int     `json:"producer_epoch"`
	TimeoutMS       int     `json:"timeout_ms"`
	StartMS         *int64  `json:"start_ms"`
	Partitions      []Place `json:"partitions"`
	MarkersOwed     int     `json:"markers_owed"`
}

// OpenTransaction is open on a partition; Verdict says what becomes of it: alive, decided or hanging.
type OpenTransaction struct {
	Place
	ProducerID      int64   `json:"producer_id"`
	ProducerEpoch   int     `json:"producer_epoch"`
	StartOffset     int64   `json:"start_offset"`
	Verdict         string  `json:"verdict"`
	Reason          string  `json:"reason"`
	TransactionalID *string `json:"transactional_id"`
	Command         *string `json:"command"` // ends it; nil unless it hangs
}

// Transactions are all that coordinators know.
func (c *Client) Transactions(t testing.TB) []Transaction {
	t.Helper()
	var transactions []Transaction
	c.must(t, http.MethodGet, "/api/v1/transactions", nil, &transactions)
	return transactions
}

// WaitForTransaction waits until a transactional id is in one of some states; if it is in none by then, the failure says what
// it waits for.
func (c *Client) WaitForTransaction(t testing.TB, id string, atMost time.Duration, states ...string) Transaction {
	t.Helper()
	query := url.Values{"transactional_id": {id}, "state": states}
	query.Set("timeout_ms", strconv.FormatInt(atMost.Milliseconds(), 10))
	var transaction Transaction
	c.must(t, http.MethodGet, "/api/v1/transaction-wait?"+query.Encode(), nil, &transaction)
	return transaction
}

// OpenTransactions are those that are open on partitions, with what becomes of each.
func (c *Client) OpenTransactions(t testing.TB) []OpenTransaction {
	t.Helper()
	return c.open(t, "")
}

// HangingTransactions are those that no marker will ever end.
func (c *Client) HangingTransactions(t testing.TB) []OpenTransaction {
	t.Helper()
	return c.open(t, "?verdict=hanging")
}

func (c *Client) open(t testing.TB, query string) []OpenTransaction {
	t.Helper()
	var transactions []OpenTransaction
	c.must(t, http.MethodGet, "/api/v1/open-transactions"+query, nil, &transactions)
	return transactions
}

// AssertNoHangingTransactions fails the test if a transaction is open that nobody will ever end.
func (c *Client) AssertNoHangingTransactions(t testing.TB) {
	t.Helper()
	c.assert(t, http.MethodGet, "no-hanging-transactions", nil)
}

// Exactly once

// Committed are the values that a read_committed reader of a topic gets, by partition and offset; nil for a record without one.
// Transactions that are open have two seconds to end.
func (c *Client) Committed(t testing.TB, topic string) [][]byte {
	t.Helper()
	var values [][]byte
	c.must(t, http.MethodGet, "/api/v1/topics/"+url.PathEscape(topic)+"/committed?encoding=base64", nil, &values)
	return values
}

// AssertExactlyOnce fails the test unless everything in the input is in the output once, and nothing else is; the failure names
// values that are missing, duplicates, and values of aborted input. Both are a topic (a string), whose committed records
// count, or values ([]string, [][]byte).
func (c *Client) AssertExactlyOnce(t testing.TB, input, output any) {
	t.Helper()
	body := map[string]any{"input": bytesOf(input), "output": bytesOf(output), "encoding": "base64"}
	c.assert(t, http.MethodPost, "exactly-once", body)
}

// bytesOf are values as JSON has them in base64; a topic is left as it is.
func bytesOf(topicOrValues any) any {
	texts, ok := topicOrValues.([]string)
	if !ok {
		return topicOrValues
	}
	values := make([][]byte, len(texts))
	for index, text := range texts {
		values[index] = []byte(text)
	}
	return values
}

func (c *Client) assert(t testing.TB, method, name string, body any) {
	t.Helper()
	err := c.Do(context.Background(), method, "/api/v1/assertions/"+name, body, nil)
	if refusal, ok := isStatus(err, http.StatusConflict); ok {
		t.Error(refusal.Reason)
	} else if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Histories

// Seen is one observation of a history, in the words of docs/checkers.md: for instance
// Seen{"seen": "began", "transaction": "t1", "transactional_id": "app"}.
type Seen map[string]any

// History is what the clients of a test saw, in order; the checkers judge it.
type History struct {
	client *Client
	who    string
	seen   []Seen
}

// NewHistory is an empty one; who is the name of the client that is noted.
func (c *Client) NewHistory(who string) *History { return &History{client: c, who: who} }

// Add notes what a client saw, with its name and the time unless they are given.
func (h *History) Add(observation Seen) {
	if _, ok := observation["who"]; !ok {
		observation["who"] = h.who
	}
	if _, ok := observation["at_ms"]; !ok {
		observation["at_ms"] = time.Now().UnixMilli()
	}
	h.seen = append(h.seen, observation)
}

// Look adds what an onlooker sees of a partition over the wire: open transactions, what their coordinators say, and a read.
func (h *History) Look(t testing.TB, topic string, partition int) {
	t.Helper()
	var observations []Seen
	h.client.must(t, http.MethodPost, "/api/v1/looks", Place{topic, partition}, &observations)
	h.seen = append(h.seen, observations...)
}

// Verdict is what the checkers make of a history.
type Verdict struct {
	Kinds     []string `json:"kinds"`
	Anomalies []struct {
		Kind    string `json:"kind"`
		Because string `json:"because"`
	} `json:"anomalies"`
}

func (v Verdict) String() string {
	if len(v.Kinds) == 0 {
		return "healthy"
	}
	return strings.Join(v.Kinds, ", ")
}

// Judge asks every checker.
func (h *History) Judge(t testing.TB) Verdict {
	t.Helper()
	var verdict Verdict
	h.client.must(t, http.MethodPost, "/api/v1/verdicts", h.seen, &verdict)
	return verdict
}

// Scenarios

// Run is one run of a scenario: the anomalies that were declared and those that were observed.
type Run struct {
	Run        string   `json:"run"`
	Mode       string   `json:"mode"`
	Expected   string   `json:"expected"`
	Observed   string   `json:"observed"`
	Verdict    []string `json:"verdict"`
	AsDeclared bool     `json:"as_declared"`
}

// ScenarioResult is what a scenario came to.
type ScenarioResult struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	State    string `json:"state"`
	Error    string `json:"error"`
	Runs     []Run  `json:"runs"`
}

// Observed is the verdict of a run by its label, "healthy" or kinds of anomalies.
func (r ScenarioResult) Observed(t testing.TB, label string) string {
	t.Helper()
	for _, run := range r.Runs {
		if run.Run == label {
			return run.Observed
		}
	}
	t.Fatalf("%s has no run %q: %+v", r.Scenario, label, r.Runs)
	return ""
}

// RunScenario plays a shipped scenario, by name or alias, in a virtual cluster of its own, and waits for its end.
func (c *Client) RunScenario(t testing.TB, name string, atMost time.Duration) ScenarioResult {
	t.Helper()
	return c.runScenario(t, map[string]any{"name": name}, atMost)
}

// RunScenarioText plays a scenario that is given as YAML (docs/writing-scenarios.md).
func (c *Client) RunScenarioText(t testing.TB, yaml string, atMost time.Duration) ScenarioResult {
	t.Helper()
	return c.runScenario(t, map[string]any{"yaml": yaml}, atMost)
}

func (c *Client) runScenario(t testing.TB, body map[string]any, atMost time.Duration) ScenarioResult {
	t.Helper()
	var result ScenarioResult
	deadline := time.Now().Add(atMost)
	c.must(t, http.MethodPost, "/api/v1/runs?wait_ms=10000", body, &result)
	for result.State == "running" || result.State == "waiting" {
		if time.Now().After(deadline) {
			t.Fatalf("%s has not ended within %v", result.Scenario, atMost)
		}
		c.must(t, http.MethodGet, fmt.Sprintf("/api/v1/runs/%s?wait_ms=10000", result.ID), nil, &result)
	}
	if result.State != "done" {
		t.Fatalf("%s: %s", result.Scenario, result.Error)
	}
	return result
}
