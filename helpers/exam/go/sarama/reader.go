package main

import (
	"errors"
	"time"

	kafka "github.com/IBM/sarama"

	. "txnsim.test/exam/contract"
)

// reader has a consumer of each partition; the library does not tell where it stands.
type reader struct {
	client     kafka.Client
	topic      string
	consumer   kafka.Consumer
	partitions map[int32]kafka.PartitionConsumer
	found      chan *kafka.ConsumerMessage
}

func consumer(c Command) (Answer, error) {
	config := settings(c)
	if c.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = kafka.ReadCommitted
	}
	client, err := kafka.NewClient(c.Servers(), config)
	if err != nil {
		return nil, err
	}
	made, err := kafka.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	one := &reader{client, c.Topic, made, map[int32]kafka.PartitionConsumer{}, make(chan *kafka.ConsumerMessage)}
	readers[c.Consumer] = one
	for index := range c.Partitions {
		err = errors.Join(err, one.from(c.Topic, index, kafka.OffsetOldest))
	}
	return nil, err
}

func (r *reader) from(topic string, index int32, offset int64) error {
	if old := r.partitions[index]; old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	made, err := r.consumer.ConsumePartition(topic, index, offset)
	if err != nil {
		return err
	}
	r.partitions[index] = made
	go func() {
		for message := range made.Messages() {
			r.found <- message
		}
	}()
	return nil
}

func (r *reader) poll(within time.Duration) (Answer, error) {
	records, until := [][]any{}, time.After(within)
	for {
		select {
		case one := <-r.found:
			records = append(records, []any{one.Partition, one.Offset, string(one.Value)})
		case <-until:
			return Answer{"records": records, "positions": nil}, nil
		}
	}
}

func (r *reader) ends() (Answer, error) {
	ends := map[int32]int64{}
	for index := range r.partitions {
		end, err := r.client.GetOffset(r.topic, index, kafka.OffsetNewest)
		if err != nil {
			return nil, err
		}
		ends[index] = end
	}
	return Answer{"ends": ends}, nil
}
