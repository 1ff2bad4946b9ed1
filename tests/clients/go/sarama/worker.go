package main

import (
	"context"
	"errors"
	"sync"
	"time"

	kafka "github.com/IBM/sarama"

	"txnsim.test/clientcheck/bench"
)

// worker is a member of a consumer group with a transactional producer.
//
// A claim is not given back while a transaction holds records of it, so that the group can't go on without them.
type worker struct {
	producer producer
	group    kafka.ConsumerGroup
	wanted   bench.WorkerOptions

	taken  chan taken
	inUse  sync.Mutex // held while records are collected and while a transaction is open
	open   []taken    // what the open transaction holds
	ended  chan error
	cancel context.CancelFunc
}

// taken is a record with the session that it was claimed in.
type taken struct {
	message *kafka.ConsumerMessage
	session kafka.ConsumerGroupSession
}

func (l library) NewWorker(at bench.Connection, wanted bench.WorkerOptions) (bench.Worker, error) {
	made, err := l.NewProducer(at, bench.ProducerOptions{TransactionalID: wanted.TransactionalID})
	if err != nil {
		return nil, err
	}
	config, err := configOf(at)
	if err != nil {
		return nil, err
	}
	config.Consumer.Offsets.Initial = kafka.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = kafka.ReadCommitted
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	if wanted.Protocol == bench.Cooperative {
		strategy := kafka.NewBalanceStrategyCooperativeSticky()
		config.Consumer.Group.Rebalance.GroupStrategies = []kafka.BalanceStrategy{strategy}
	}
	group, err := kafka.NewConsumerGroup(at.Bootstrap, wanted.Group, config)
	if err != nil {
		return nil, err
	}
	w := &worker{producer: made.(producer), group: group, wanted: wanted, taken: make(chan taken)}
	w.join()
	return w, nil
}

// join consumes session after session until leave.
func (w *worker) join() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.ended = cancel, make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = w.group.Consume(ctx, []string{w.wanted.Input}, w)
		}
		w.ended <- err
	}()
}

func (w *worker) leave() error {
	w.cancel()
	err := <-w.ended
	if errors.Is(err, context.Canceled) || errors.Is(err, kafka.ErrClosedConsumerGroup) {
		return nil
	}
	return err
}

// Setup, Cleanup and ConsumeClaim are Sarama's handler of a session.
func (w *worker) Setup(kafka.ConsumerGroupSession) error { return nil }

// Cleanup has nothing to do.
func (w *worker) Cleanup(kafka.ConsumerGroupSession) error { return nil }

// ConsumeClaim hands records over, and returns when no transaction is open.
func (w *worker) ConsumeClaim(session kafka.ConsumerGroupSession, claim kafka.ConsumerGroupClaim) error {
	defer func() {
		w.inUse.Lock()
		defer w.inUse.Unlock()
	}()
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case w.taken <- taken{message, session}:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (w *worker) Poll(max int) ([]bench.Record, error) {
	w.inUse.Lock()
	var records []bench.Record
	for pause := time.After(200 * time.Millisecond); len(records) < max; {
		select {
		case one := <-w.taken:
			w.open = append(w.open, one)
			records = append(records, received(one.message))
			continue
		case err := <-w.ended:
			w.ended <- err
			w.inUse.Unlock()
			return nil, errors.Join(errors.New("the member has left"), err)
		case <-pause:
		}
		break
	}
	if len(records) == 0 {
		w.inUse.Unlock()
		return nil, nil
	}
	return records, w.producer.Begin()
}

func (w *worker) Forward(records ...bench.Record) error {
	_, err := w.producer.Send(records...)
	return err
}

func (w *worker) Commit() error {
	next := map[int32]int64{}
	for _, one := range w.open {
		next[one.message.Partition] = one.message.Offset + 1
	}
	var offsets []*kafka.PartitionOffsetMetadata
	for partition, offset := range next {
		one := &kafka.PartitionOffsetMetadata{Partition: partition, Offset: offset, LeaderEpoch: -1}
		offsets = append(offsets, one)
	}
	member := kafka.NewConsumerGroupMetadataFromSession(w.open[0].session, w.wanted.Group, nil)
	positions := map[string][]*kafka.PartitionOffsetMetadata{w.wanted.Input: offsets}
	if err := w.producer.AddOffsetsToTxnWithGroupMetadata(positions, member); err != nil {
		return err
	}
	if err := w.producer.Commit(); err != nil {
		return err
	}
	w.open = nil
	w.inUse.Unlock()
	return nil
}

// Abort ends the session as well: the next one begins at the committed positions.
func (w *worker) Abort() error {
	err := w.producer.Abort()
	w.open = nil
	w.inUse.Unlock()
	err = errors.Join(err, w.leave())
	w.join()
	return err
}

func (w *worker) Close() {
	if w.open != nil {
		w.open = nil
		w.inUse.Unlock()
	}
	_ = w.leave() // what a check had to see it has seen in Poll
	_ = w.group.Close()
	w.producer.Close()
}
