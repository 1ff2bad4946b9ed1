package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "txnsim.test/exam/contract"
)

// worker: a session reads, works and writes exactly once.
func worker(c Command) (Answer, error) {
	session, err := kgo.NewGroupTransactSession(append(options(c),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RequireStableFetchOffsets(),
	)...)
	if err != nil {
		return nil, err
	}
	sessions[c.Worker] = session
	return nil, identify(c.Worker, session.Client(), c)
}
