package main

import (
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"txnsim.test/clientcheck/bench"
)

// worker is a member of a consumer group with a transactional producer. librdkafka tells of a rebalance in Poll alone, so that
// no partition is taken away while a transaction is open.
type worker struct {
	producer bench.Producer
	consumer *kafka.Consumer
	wanted   bench.WorkerOptions
	open     []bench.Record // what the open transaction holds, or what is being collected for it
}

func (l library) NewWorker(at bench.Connection, wanted bench.WorkerOptions) (bench.Worker, error) {
	made, err := l.NewProducer(at, bench.ProducerOptions{TransactionalID: wanted.TransactionalID})
	if err != nil {
		return nil, err
	}
	config := kafka.ConfigMap{"group.id": wanted.Group, "isolation.level": "read_committed"}
	switch wanted.Protocol {
	case bench.Classic:
		config["heartbeat.interval.ms"] = 500
	case bench.Cooperative:
		config["heartbeat.interval.ms"] = 500
		config["partition.assignment.strategy"] = "cooperative-sticky"
	case bench.NextGeneration:
		config["group.protocol"] = "consumer"
	}
	consumer, err := newConsumer(at, config)
	if err != nil {
		return nil, err
	}
	w := &worker{producer: made, consumer: consumer, wanted: wanted}
	return w, consumer.Subscribe(wanted.Input, w.rebalanced)
}

// rebalanced leaves the assignment to the library, and drops what was collected from partitions that are taken away.
func (w *worker) rebalanced(_ *kafka.Consumer, event kafka.Event) error {
	if revoked, is := event.(kafka.RevokedPartitions); is {
		w.open = slices.DeleteFunc(w.open, func(record bench.Record) bool {
			return slices.ContainsFunc(revoked.Partitions, func(gone kafka.TopicPartition) bool {
				return gone.Partition == record.Partition
			})
		})
	}
	return nil
}

func (w *worker) Poll(max int) ([]bench.Record, error) {
	w.open = nil
	for end := time.Now().Add(200 * time.Millisecond); len(w.open) < max && time.Now().Before(end); {
		switch event := w.consumer.Poll(20).(type) {
		case *kafka.Message:
			if event.TopicPartition.Error != nil {
				return nil, event.TopicPartition.Error
			}
			w.open = append(w.open, received(event))
		case kafka.Error:
			return nil, event
		}
	}
	if len(w.open) == 0 {
		return nil, nil
	}
	return w.open, w.producer.Begin()
}

func (w *worker) Forward(records ...bench.Record) error {
	_, err := w.producer.Send(records...)
	return err
}

func (w *worker) Commit() error {
	ctx, cancel := deadline()
	defer cancel()
	member, err := w.consumer.GetConsumerGroupMetadata()
	if err != nil {
		return err
	}
	next := w.offsets(func(first, last int64) int64 { return last + 1 })
	if err := w.producer.(producer).SendOffsetsToTransaction(ctx, next, member); err != nil {
		return err
	}
	return w.producer.Commit()
}

// Abort goes back to the first record that was polled of each partition that is still this member's.
func (w *worker) Abort() error {
	if err := w.producer.Abort(); err != nil {
		return err
	}
	mine, err := w.consumer.Assignment()
	if err != nil {
		return err
	}
	var back []kafka.TopicPartition
	for _, one := range w.offsets(func(first, last int64) int64 { return first }) {
		if slices.ContainsFunc(mine, func(kept kafka.TopicPartition) bool { return kept.Partition == one.Partition }) {
			back = append(back, one)
		}
	}
	moved, err := w.consumer.SeekPartitions(back)
	for _, one := range moved {
		if err == nil {
			err = one.Error
		}
	}
	return err
}

// offsets of the open transaction, one per partition, made from the first and the last that were polled.
func (w *worker) offsets(choose func(first, last int64) int64) []kafka.TopicPartition {
	bounds := map[int32][2]int64{}
	for _, record := range w.open {
		bound, known := bounds[record.Partition]
		if !known {
			bound[0] = record.Offset
		}
		bound[1] = record.Offset
		bounds[record.Partition] = bound
	}
	var all []kafka.TopicPartition
	for partition, bound := range bounds {
		offset := kafka.Offset(choose(bound[0], bound[1]))
		all = append(all, kafka.TopicPartition{Topic: &w.wanted.Input, Partition: partition, Offset: offset})
	}
	return all
}

func (w *worker) Close() {
	_ = w.consumer.Close() // what a check had to see it has seen in Poll
	w.producer.Close()
}
