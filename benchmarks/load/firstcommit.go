package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// firstCommitOptions are those of mode first-commit.
type firstCommitOptions struct {
	address   string
	readyFile string // names the address where the server chooses its ports
	flow      flow
	since     time.Time
	limit     time.Duration
	serverPid int // whose end ends the waiting
}

type firstCommitResult struct {
	Mode        string           `json:"mode"`
	Flow        flow             `json:"flow"`
	ConnectedMs float64          `json:"connected_ms"`
	TopicMs     float64          `json:"topic_ms"`
	ProducerMs  float64          `json:"producer_ms"`
	CommittedMs float64          `json:"committed_ms"`
	Retries     map[string]int64 `json:"retries"`
}

// runFirstCommit waits for a server that is starting and commits the first transaction of its life.
func runFirstCommit(o firstCommitOptions) (any, error) {
	address, err := awaitServer(o)
	if err != nil {
		return nil, err
	}
	sinceMs := func() float64 { return float64(time.Since(o.since).Microseconds()) / 1000 }
	result := firstCommitResult{Mode: "first-commit", Flow: o.flow, ConnectedMs: sinceMs()}
	name := uniqueName("bench-first")
	c, err := openCluster(address, name, txnPartitions, false)
	if err != nil {
		return nil, err
	}
	result.TopicMs = sinceMs()
	s := newSession(c, newProducer(o.flow, name, name, txnPartitions), c.retries)
	defer s.close()
	if err := s.init(); err != nil {
		return nil, err
	}
	result.ProducerMs = sinceMs()
	if err := s.transaction(starting); err != nil {
		return nil, err
	}
	result.CommittedMs = sinceMs()
	result.Retries = c.retries.snapshot()
	return result, nil
}

// awaitServer connects again and again until the port accepts.
func awaitServer(o firstCommitOptions) (string, error) {
	deadline := time.Now().Add(o.limit)
	for {
		address, err := serverAddress(o)
		if err == nil {
			var probe *conn
			if probe, err = dial(address); err == nil {
				probe.close()
				return address, nil
			}
		}
		if o.serverPid != 0 && !processRuns(o.serverPid) {
			return "", fmt.Errorf("the server has ended: %w", err)
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no server after %s: %w", o.limit, err)
		}
		time.Sleep(retryPause)
	}
}

func serverAddress(o firstCommitOptions) (string, error) {
	if o.readyFile == "" {
		return o.address, nil
	}
	content, err := os.ReadFile(o.readyFile)
	if err != nil {
		return "", err
	}
	var ready struct {
		Bootstrap string `json:"bootstrap"`
	}
	if err := json.Unmarshal(content, &ready); err != nil {
		return "", err
	}
	return firstAddress(ready.Bootstrap), nil
}
