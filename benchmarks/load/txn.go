package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const txnPartitions = 16

// txnOptions are those of mode txn.
type txnOptions struct {
	address   string
	flow      flow
	producers int
	warmUp    time.Duration
	measured  time.Duration
	serverPid int
}

type txnResult struct {
	Mode         string           `json:"mode"`
	Flow         flow             `json:"flow"`
	Producers    int              `json:"producers"`
	Transactions int              `json:"transactions"`
	PerSecond    float64          `json:"per_second"`
	P50Ms        float64          `json:"p50_ms"`
	P99Ms        float64          `json:"p99_ms"`
	Retries      map[string]int64 `json:"retries"`
	usage
}

// The phases of a run; a transaction counts when it ends in phaseMeasured.
const (
	phaseWarmUp int32 = iota
	phaseMeasured
	phaseStopped
)

// runTxn keeps every producer committing one transaction after the other for the time asked for.
func runTxn(o txnOptions) (any, error) {
	name := uniqueName("bench-txn")
	c, err := openCluster(o.address, name, txnPartitions, false)
	if err != nil {
		return nil, err
	}
	if err := awaitLeaders(c); err != nil {
		return nil, err
	}
	counted := newRetries()
	sessions := make([]*session, o.producers)
	for i := range sessions {
		id := fmt.Sprintf("%s-%d", name, i)
		sessions[i] = newSession(c, newProducer(o.flow, id, name, txnPartitions), counted)
		defer sessions[i].close()
		if err := sessions[i].init(); err != nil {
			return nil, err
		}
	}
	var phase atomic.Int32
	latencies := make([][]time.Duration, o.producers)
	failures := make(chan error, o.producers)
	var running sync.WaitGroup
	for i, s := range sessions {
		running.Add(1)
		go func() {
			defer running.Done()
			if err := commitUntilStopped(s, &phase, &latencies[i]); err != nil {
				failures <- fmt.Errorf("producer %s: %w", s.txnID, err)
			}
		}()
	}
	used, err := timePhases(o, &phase, counted, failures)
	if err != nil {
		return nil, err
	}
	retried := counted.snapshot()
	running.Wait()
	if len(failures) > 0 {
		return nil, <-failures
	}
	return summarise(o, latencies, retried, used)
}

func commitUntilStopped(s *session, phase *atomic.Int32, latencies *[]time.Duration) error {
	for {
		allowed := steady
		if phase.Load() == phaseWarmUp {
			allowed = starting
		}
		began := time.Now()
		if err := s.transaction(allowed); err != nil {
			return err
		}
		switch phase.Load() {
		case phaseMeasured:
			*latencies = append(*latencies, time.Since(began))
		case phaseStopped:
			return nil
		}
	}
}

// timePhases moves the run through its phases and measures the middle one.
func timePhases(o txnOptions, phase *atomic.Int32, counted *retries, failures <-chan error) (usage, error) {
	if err := sleepUnlessFailed(o.warmUp, failures); err != nil {
		return usage{}, err
	}
	counted.reset()
	w, err := openWindow(o.serverPid)
	if err != nil {
		return usage{}, err
	}
	phase.Store(phaseMeasured)
	if err := sleepUnlessFailed(o.measured, failures); err != nil {
		return usage{}, err
	}
	phase.Store(phaseStopped)
	return w.close()
}

func sleepUnlessFailed(pause time.Duration, failures <-chan error) error {
	select {
	case err := <-failures:
		return err
	case <-time.After(pause):
		return nil
	}
}

func summarise(o txnOptions, latencies [][]time.Duration, retried map[string]int64, used usage) (any, error) {
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no transaction ended in %s", o.measured)
	}
	return txnResult{
		Mode:         "txn",
		Flow:         o.flow,
		Producers:    o.producers,
		Transactions: len(all),
		PerSecond:    float64(len(all)) / used.Seconds,
		P50Ms:        percentileMs(all, 0.50),
		P99Ms:        percentileMs(all, 0.99),
		Retries:      retried,
		usage:        used,
	}, nil
}
