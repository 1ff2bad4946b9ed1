package txnsimtest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Action is what a fault does; docs/faults.md has all of them. Further fields are given as Kafka-like names, for instance
// Action{"do": "throttle", "throttle_ms": 100}.
type Action map[string]any

// Hold keeps what it strikes until the rule is released.
func Hold() Action { return Action{"do": "hold"} }

// Delay keeps it for a while.
func Delay(duration time.Duration) Action {
	return Action{"do": "delay", "delay_ms": duration.Milliseconds()}
}

// Drop loses it.
func Drop() Action { return Action{"do": "drop"} }

// Fail answers with an error of Kafka's, for instance NOT_COORDINATOR.
func Fail(kafkaError string) Action { return Action{"do": "error", "error": kafkaError} }

// Rule says where a fault strikes, when, and what it does. Criteria that are left out match everything.
type Rule struct {
	ID     string `json:"id"`
	Point  string `json:"point"`
	Action Action `json:"action"`

	API             string `json:"api,omitempty"`
	Broker          int    `json:"broker,omitempty"`
	Source          string `json:"source,omitempty"`
	ClientID        string `json:"client_id,omitempty"`
	TransactionalID string `json:"transactional_id,omitempty"`
	ProducerID      *int64 `json:"producer_id,omitempty"`
	Topic           string `json:"topic,omitempty"`
	Partition       *int   `json:"partition,omitempty"`
	Committed       *bool  `json:"committed,omitempty"`

	Nth         int      `json:"nth,omitempty"`
	Limit       int      `json:"limit,omitempty"`
	Occurrences []int    `json:"occurrences,omitempty"`
	After       string   `json:"after,omitempty"`
	Until       string   `json:"until,omitempty"`
	Probability *float64 `json:"probability,omitempty"`
}

// Fault is a rule in force and what has come of it.
type Fault struct {
	Rule struct {
		ID string `json:"id"`
	} `json:"rule"`
	Matched  int `json:"matched"`
	Struck   int `json:"struck"`
	Held     int `json:"held"`
	Released int `json:"released"`
	// Doubt is why it can strike nothing in the cluster as it is; empty where nothing is known against it.
	Doubt string `json:"doubt"`
}

// Faults are those of one cluster.
type Faults struct{ client *Client }

// Faults is where faults are armed, watched and taken back.
func (c *Client) Faults() Faults { return Faults{c} }

// Arm puts rules in force, all of them or none. The log of the test tells of one that can strike nothing.
func (f Faults) Arm(t testing.TB, rules ...Rule) {
	t.Helper()
	var armed []Fault
	f.client.must(t, http.MethodPost, "/api/v1/faults/plan", rules, &armed)
	for _, fault := range armed {
		if fault.Doubt != "" {
			t.Logf("txnsim: the fault %s can strike nothing: %s", fault.Rule.ID, fault.Doubt)
		}
	}
}

// WaitUntilStruck waits until a rule has struck so many times.
func (f Faults) WaitUntilStruck(t testing.TB, id string, times int, atMost time.Duration) Fault {
	t.Helper()
	var fault Fault
	query := fmt.Sprintf("/wait?struck=%d&timeout_ms=%d", times, atMost.Milliseconds())
	f.client.must(t, http.MethodGet, path(id)+query, nil, &fault)
	return fault
}

// Get is one rule and what has come of it.
func (f Faults) Get(t testing.TB, id string) Fault {
	t.Helper()
	var fault Fault
	f.client.must(t, http.MethodGet, path(id), nil, &fault)
	return fault
}

// Release lets go what a rule holds and says how many crossings that were; the rule stays in force.
func (f Faults) Release(t testing.TB, id string) int {
	t.Helper()
	var released struct {
		Released int `json:"released"`
	}
	f.client.must(t, http.MethodPost, path(id)+"/release", nil, &released)
	return released.Released
}

// Disarm takes a rule back; what it holds goes on.
func (f Faults) Disarm(t testing.TB, id string) Fault {
	t.Helper()
	var fault Fault
	f.client.must(t, http.MethodDelete, path(id), nil, &fault)
	return fault
}

// DisarmAll takes every rule back.
func (f Faults) DisarmAll(t testing.TB) {
	t.Helper()
	f.client.must(t, http.MethodDelete, "/api/v1/faults", nil, nil)
}

// Verify fails the test if a rule that was armed, in force or not, has never struck: such a fault has tested nothing. Start
// does it at the end of a test, and Reset before it takes the cluster back.
func (f Faults) Verify(t testing.TB) {
	t.Helper()
	if refusal := f.client.neverStruck(false); refusal != "" {
		t.Error(refusal)
	}
}

// Forget begins a new account: Verify judges only what is armed from now on, and what is in force.
func (f Faults) Forget(t testing.TB) {
	t.Helper()
	_ = f.client.neverStruck(true)
}

func (c *Client) neverStruck(forget bool) string {
	path := fmt.Sprintf("/api/v1/faults/verify?forget=%v", forget)
	err := c.Do(context.Background(), http.MethodPost, path, nil, nil)
	if err == nil {
		return ""
	}
	if refusal, ok := isStatus(err, http.StatusConflict); ok {
		return refusal.Reason
	}
	return err.Error()
}

func path(id string) string { return "/api/v1/faults/" + url.PathEscape(id) }
