package main

import (
	"fmt"
	"sync"
	"time"
)

// The error codes of Kafka that this program knows; any other ends the run.
const (
	codeNone                    int16 = 0
	codeUnknownTopicOrPartition int16 = 3
	codeLeaderNotAvailable      int16 = 5
	codeNotLeaderOrFollower     int16 = 6
	codeRequestTimedOut         int16 = 7
	codeBrokerNotAvailable      int16 = 8
	codeCoordinatorLoading      int16 = 14
	codeCoordinatorNotAvailable int16 = 15
	codeNotCoordinator          int16 = 16
	codeNotEnoughReplicas       int16 = 19
	codeInvalidReplication      int16 = 38
	codeNotController           int16 = 41
	codeConcurrentTransactions  int16 = 51
)

// retryPause is the client's backoff; Kafka's figures hang on it (after CONCURRENT_TRANSACTIONS).
const retryPause = time.Millisecond

// retryLimit ends a run that would otherwise wait for ever on a retriable error.
const retryLimit = 30 * time.Second

// steady holds what a healthy cluster answers under load: the markers of the transaction before are
// still on their way. NOT_ENOUGH_REPLICAS is how a leader tells a Produce that its verification met
// a pending transaction (KIP-890).
var steady = map[int16]bool{
	codeCoordinatorLoading:      true,
	codeCoordinatorNotAvailable: true,
	codeConcurrentTransactions:  true,
	codeNotEnoughReplicas:       true,
}

// starting holds also what a broker answers that has just started or just heard of a topic.
var starting = map[int16]bool{
	codeUnknownTopicOrPartition: true,
	codeLeaderNotAvailable:      true,
	codeNotLeaderOrFollower:     true,
	codeRequestTimedOut:         true,
	codeBrokerNotAvailable:      true,
	codeCoordinatorLoading:      true,
	codeCoordinatorNotAvailable: true,
	codeNotCoordinator:          true,
	codeNotEnoughReplicas:       true,
	codeInvalidReplication:      true, // no broker is registered yet
	codeNotController:           true,
	codeConcurrentTransactions:  true,
}

// retries counts the answers that were retried, by request and error code.
type retries struct {
	mutex  sync.Mutex
	counts map[string]int64
}

func newRetries() *retries { return &retries{counts: map[string]int64{}} }

func (r *retries) add(request string, code int16) {
	r.mutex.Lock()
	r.counts[fmt.Sprintf("%s.%d", request, code)]++
	r.mutex.Unlock()
}

func (r *retries) reset() {
	r.mutex.Lock()
	r.counts = map[string]int64{}
	r.mutex.Unlock()
}

func (r *retries) snapshot() map[string]int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	copied := make(map[string]int64, len(r.counts))
	for name, count := range r.counts {
		copied[name] = count
	}
	return copied
}

// retry repeats attempt while it answers a code of allowed, with the retry pause in between.
func retry(name string, allowed map[int16]bool, counted *retries, attempt func() (int16, error)) error {
	var began time.Time
	for {
		code, err := attempt()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if code == codeNone {
			return nil
		}
		if !allowed[code] {
			return fmt.Errorf("%s: unexpected error code %d", name, code)
		}
		if began.IsZero() {
			began = time.Now()
		} else if time.Since(began) > retryLimit {
			return fmt.Errorf("%s: still error code %d after %s", name, code, retryLimit)
		}
		counted.add(name, code)
		time.Sleep(retryPause)
	}
}
