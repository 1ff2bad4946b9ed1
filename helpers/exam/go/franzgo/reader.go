package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "txnsim.test/exam/contract"
)

func consumer(c Command) (Answer, error) {
	positions := map[int32]kgo.Offset{}
	for index := range c.Partitions {
		positions[index] = kgo.NewOffset().AtStart()
	}
	level := kgo.ReadUncommitted()
	if c.Isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(append(options(c),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: positions}),
		kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	clients[c.Consumer] = client
	return nil, err
}

// poll: the library does not tell where a reader stands.
func poll(c Command) (Answer, error) {
	ctx, cancel := context.WithTimeout(always, Ms(c.TimeoutMs))
	defer cancel()
	records := [][]any{}
	for ctx.Err() == nil {
		fetches := clients[c.Consumer].PollFetches(ctx)
		for _, failure := range fetches.Errors() {
			if !errors.Is(failure.Err, context.DeadlineExceeded) {
				return nil, failure.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, []any{record.Partition, record.Offset, string(record.Value)})
		})
	}
	return Answer{"records": records, "positions": nil}, nil
}

func seek(c Command) (Answer, error) {
	position := map[int32]kgo.EpochOffset{c.Partition: {Epoch: -1, Offset: c.Offset}}
	clients[c.Consumer].SetOffsets(map[string]map[int32]kgo.EpochOffset{c.Topic: position})
	return nil, nil
}
