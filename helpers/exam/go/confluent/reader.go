package main

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	. "txnsim.test/exam/contract"
)

func reader(c Command, groupSettings kafka.ConfigMap) (*kafka.Consumer, error) {
	settings := kafka.ConfigMap{
		"bootstrap.servers":  c.Bootstrap,
		"client.id":          c.ClientID,
		"group.id":           c.Group,
		"isolation.level":    c.Isolation,
		"auto.offset.reset":  "earliest",
		"enable.auto.commit": false,
		"fetch.wait.max.ms":  100,
	}
	for name, value := range groupSettings {
		settings[name] = value
	}
	consumer, err := kafka.NewConsumer(&settings)
	if err == nil {
		members[c.Consumer] = consumer
	}
	return consumer, err
}

func consumer(c Command) (Answer, error) {
	consumer, err := reader(c, nil)
	if err != nil {
		return nil, err
	}
	var partitions []kafka.TopicPartition
	for index := range c.Partitions {
		partitions = append(partitions, kafka.TopicPartition{Topic: &c.Topic, Partition: index, Offset: kafka.OffsetBeginning})
	}
	return nil, consumer.Assign(partitions)
}

func subscribe(c Command) (Answer, error) {
	groupSettings := kafka.ConfigMap{"session.timeout.ms": c.SessionMs}
	if c.Protocol != "classic" {
		groupSettings = kafka.ConfigMap{"group.protocol": c.Protocol}
	}
	consumer, err := reader(c, groupSettings)
	if err != nil {
		return nil, err
	}
	return nil, consumer.Subscribe(c.Topic, nil)
}

func poll(c Command) (Answer, error) {
	member, records, deadline := members[c.Consumer], [][]any{}, time.Now().Add(Ms(c.TimeoutMs))
	for remaining := time.Until(deadline); remaining > 0; remaining = time.Until(deadline) {
		if message, err := member.ReadMessage(remaining); err == nil {
			records = append(records, []any{message.TopicPartition.Partition, int64(message.TopicPartition.Offset), string(message.Value)})
		}
	}
	assigned, err := member.Assignment()
	if err != nil {
		return nil, err
	}
	positions := map[int32]int64{}
	reached, err := member.Position(assigned)
	for _, position := range reached {
		if position.Offset >= 0 { // else it is not known yet
			positions[position.Partition] = int64(position.Offset)
		}
	}
	return Answer{"records": records, "positions": positions}, err
}

func endOffsets(c Command) (Answer, error) {
	assigned, err := members[c.Consumer].Assignment()
	ends := map[int32]int64{}
	for _, partition := range assigned {
		_, end, failed := members[c.Consumer].QueryWatermarkOffsets(*partition.Topic, partition.Partition, 10_000)
		if failed != nil {
			return nil, failed
		}
		ends[partition.Partition] = end
	}
	return Answer{"ends": ends}, err
}
