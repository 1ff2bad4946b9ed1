package main

import (
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"txnsim.test/clientcheck/bench"
)

// operator is librdkafka's admin client as the checks of the matrix see it; it has no call that is about transactions.
type operator struct{ admin *kafka.AdminClient }

func (library) NewAdmin(at bench.Connection) (bench.Admin, error) {
	made, err := kafka.NewAdminClient(configOf(at, nil))
	if err != nil {
		return nil, err
	}
	return operator{made}, setToken(at, made.SetOAuthBearerToken)
}

func (o operator) Close() { o.admin.Close() }

func (o operator) CreateTopic(topic string, partitions int32) error {
	ctx, cancel := deadline()
	defer cancel()
	wanted := kafka.TopicSpecification{Topic: topic, NumPartitions: int(partitions), ReplicationFactor: -1}
	results, err := o.admin.CreateTopics(ctx, []kafka.TopicSpecification{wanted})
	if err != nil {
		return err
	}
	return problem(results[0].Error)
}

// problem makes an error of the zero code none.
func problem(found kafka.Error) error {
	if found.Code() == kafka.ErrNoError {
		return nil
	}
	return found
}

func (o operator) Leaders(topic string) (map[int32]int32, error) {
	metadata, err := o.admin.GetMetadata(&topic, false, int(bench.Patience.Milliseconds()))
	if err != nil {
		return nil, err
	}
	leaders := map[int32]int32{}
	for _, partition := range metadata.Topics[topic].Partitions {
		if problem(partition.Error) == nil && partition.Leader >= 0 {
			leaders[partition.ID] = partition.Leader
		}
	}
	return leaders, nil
}

func (o operator) Brokers() (int, error) {
	metadata, err := o.admin.GetMetadata(nil, false, int(bench.Patience.Milliseconds()))
	if err != nil {
		return 0, err
	}
	return len(metadata.Brokers), nil
}

func (o operator) End(of bench.Partition, isolation bench.Isolation) (int64, error) {
	ctx, cancel := deadline()
	defer cancel()
	level := kafka.IsolationLevelReadUncommitted
	if isolation == bench.ReadCommitted {
		level = kafka.IsolationLevelReadCommitted
	}
	wanted := map[kafka.TopicPartition]kafka.OffsetSpec{
		{Topic: &of.Topic, Partition: of.Index}: kafka.LatestOffsetSpec,
	}
	listed, err := o.admin.ListOffsets(ctx, wanted, kafka.SetAdminIsolationLevel(level))
	if err != nil {
		return -1, err
	}
	for _, found := range listed.ResultInfos {
		return int64(found.Offset), problem(found.Error)
	}
	return -1, kafka.NewError(kafka.ErrUnknownPartition, "no end listed", false)
}

func (o operator) Positions(group, topic string) (map[int32]int64, error) {
	ctx, cancel := deadline()
	defer cancel()
	wanted := []kafka.ConsumerGroupTopicPartitions{{Group: group}}
	listed, err := o.admin.ListConsumerGroupOffsets(ctx, wanted)
	if err != nil {
		return nil, err
	}
	positions := map[int32]int64{}
	for _, found := range listed.ConsumerGroupsTopicPartitions[0].Partitions {
		if found.Error != nil {
			return nil, found.Error
		}
		if *found.Topic == topic && found.Offset >= 0 {
			positions[found.Partition] = int64(found.Offset)
		}
	}
	return positions, nil
}

func (o operator) Members(group string, _ bench.Protocol) (int, error) {
	ctx, cancel := deadline()
	defer cancel()
	described, err := o.admin.DescribeConsumerGroups(ctx, []string{group})
	if err != nil {
		return 0, err
	}
	found := described.ConsumerGroupDescriptions[0]
	return len(found.Members), problem(found.Error)
}
