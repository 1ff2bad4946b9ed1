package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "txnsim.test/exam/contract"
)

func consumer(c Command) (Answer, error) {
	from := map[int32]kgo.Offset{}
	for index := range c.Partitions {
		from[index] = kgo.NewOffset().AtStart()
	}
	level := kgo.ReadUncommitted()
	if c.Isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(append(options(c),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: from}),
		kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	clients[c.Consumer] = client
	return nil, err
}

// poll: the library does not tell where a reader stands.
func poll(c Command) (Answer, error) {
	ctx, done := context.WithTimeout(always, Ms(c.TimeoutMs))
	defer done()
	records := [][]any{}
	for ctx.Err() == nil {
		fetches := clients[c.Consumer].PollFetches(ctx)
		for _, one := range fetches.Errors() {
			if !errors.Is(one.Err, context.DeadlineExceeded) {
				return nil, one.Err
			}
		}
		fetches.EachRecord(func(one *kgo.Record) {
			records = append(records, []any{one.Partition, one.Offset, string(one.Value)})
		})
	}
	return Answer{"records": records, "positions": nil}, nil
}

func seek(c Command) (Answer, error) {
	at := map[int32]kgo.EpochOffset{c.Partition: {Epoch: -1, Offset: c.Offset}}
	clients[c.Consumer].SetOffsets(map[string]map[int32]kgo.EpochOffset{c.Topic: at})
	return nil, nil
}
