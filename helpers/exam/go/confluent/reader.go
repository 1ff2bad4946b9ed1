package main

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	. "txnsim.test/exam/contract"
)

func reader(c Command, more kafka.ConfigMap) (*kafka.Consumer, error) {
	settings := kafka.ConfigMap{
		"bootstrap.servers":  c.Bootstrap,
		"client.id":          c.ClientID,
		"group.id":           c.Group,
		"isolation.level":    c.Isolation,
		"auto.offset.reset":  "earliest",
		"enable.auto.commit": false,
		"fetch.wait.max.ms":  100,
	}
	for name, value := range more {
		settings[name] = value
	}
	made, err := kafka.NewConsumer(&settings)
	if err == nil {
		members[c.Consumer] = made
	}
	return made, err
}

func consumer(c Command) (Answer, error) {
	made, err := reader(c, nil)
	if err != nil {
		return nil, err
	}
	var places []kafka.TopicPartition
	for index := range c.Partitions {
		places = append(places, kafka.TopicPartition{Topic: &c.Topic, Partition: index, Offset: kafka.OffsetBeginning})
	}
	return nil, made.Assign(places)
}

func subscribe(c Command) (Answer, error) {
	more := kafka.ConfigMap{"session.timeout.ms": c.SessionMs}
	if c.Protocol != "classic" {
		more = kafka.ConfigMap{"group.protocol": c.Protocol}
	}
	made, err := reader(c, more)
	if err != nil {
		return nil, err
	}
	return nil, made.Subscribe(c.Topic, nil)
}

func poll(c Command) (Answer, error) {
	member, records, until := members[c.Consumer], [][]any{}, time.Now().Add(Ms(c.TimeoutMs))
	for left := time.Until(until); left > 0; left = time.Until(until) {
		if one, err := member.ReadMessage(left); err == nil {
			records = append(records, []any{one.TopicPartition.Partition, int64(one.TopicPartition.Offset), string(one.Value)})
		}
	}
	assigned, err := member.Assignment()
	if err != nil {
		return nil, err
	}
	positions := map[int32]int64{}
	places, err := member.Position(assigned)
	for _, at := range places {
		if at.Offset >= 0 { // else it is not known yet
			positions[at.Partition] = int64(at.Offset)
		}
	}
	return Answer{"records": records, "positions": positions}, err
}

func endOffsets(c Command) (Answer, error) {
	assigned, err := members[c.Consumer].Assignment()
	ends := map[int32]int64{}
	for _, at := range assigned {
		_, end, failed := members[c.Consumer].QueryWatermarkOffsets(*at.Topic, at.Partition, 10_000)
		if failed != nil {
			return nil, failed
		}
		ends[at.Partition] = end
	}
	return Answer{"ends": ends}, err
}
