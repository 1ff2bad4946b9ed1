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
	messages   chan *kafka.ConsumerMessage
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
	newConsumer, err := kafka.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	newReader := &reader{client, c.Topic, newConsumer, map[int32]kafka.PartitionConsumer{}, make(chan *kafka.ConsumerMessage)}
	readers[c.Consumer] = newReader
	for index := range c.Partitions {
		err = errors.Join(err, newReader.readFrom(c.Topic, index, kafka.OffsetOldest))
	}
	return nil, err
}

func (r *reader) readFrom(topic string, index int32, offset int64) error {
	if previous := r.partitions[index]; previous != nil {
		if err := previous.Close(); err != nil {
			return err
		}
	}
	partitionConsumer, err := r.consumer.ConsumePartition(topic, index, offset)
	if err != nil {
		return err
	}
	r.partitions[index] = partitionConsumer
	go func() {
		for message := range partitionConsumer.Messages() {
			r.messages <- message
		}
	}()
	return nil
}

func (r *reader) poll(within time.Duration) (Answer, error) {
	records, until := [][]any{}, time.After(within)
	for {
		select {
		case message := <-r.messages:
			records = append(records, []any{message.Partition, message.Offset, string(message.Value)})
		case <-until:
			return Answer{"records": records, "positions": nil}, nil
		}
	}
}

func (r *reader) endOffsets() (Answer, error) {
	endOffsets := map[int32]int64{}
	for index := range r.partitions {
		end, err := r.client.GetOffset(r.topic, index, kafka.OffsetNewest)
		if err != nil {
			return nil, err
		}
		endOffsets[index] = end
	}
	return Answer{"ends": endOffsets}, nil
}
