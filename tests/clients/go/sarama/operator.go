package main

import (
	"errors"
	"fmt"

	kafka "github.com/IBM/sarama"

	"txnsim.test/clientcheck/bench"
)

// operator is Sarama's admin client as the checks of the matrix see it: it can look at transactions, and has no call to abort
// one or to fence producers.
type operator struct {
	client kafka.Client
	admin  kafka.ClusterAdmin
}

var _ bench.TransactionAdmin = operator{}

func (library) NewAdmin(at bench.Connection) (bench.Admin, error) {
	config, err := configOf(at)
	if err != nil {
		return nil, err
	}
	client, err := kafka.NewClient(at.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	admin, err := kafka.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	return operator{client, admin}, nil
}

func (o operator) Close() { _ = o.admin.Close() } // a connection that is already gone is no news here

func (o operator) CreateTopic(topic string, partitions int32) error {
	detail := &kafka.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}
	return o.admin.CreateTopic(topic, detail, false)
}

func (o operator) Leaders(topic string) (map[int32]int32, error) {
	described, err := o.admin.DescribeTopics([]string{topic})
	if err != nil {
		return nil, err
	}
	leaders := map[int32]int32{}
	for _, partition := range described[0].Partitions {
		if partition.Err == kafka.ErrNoError && partition.Leader >= 0 {
			leaders[partition.ID] = partition.Leader
		}
	}
	return leaders, nil
}

func (o operator) Brokers() (int, error) {
	brokers, _, err := o.admin.DescribeCluster()
	return len(brokers), err
}

func (o operator) End(of bench.Partition, isolation bench.Isolation) (int64, error) {
	options := &kafka.ListOffsetsOptions{}
	if isolation == bench.ReadCommitted {
		options.IsolationLevel = kafka.ReadCommitted
	}
	wanted := map[string]map[int32]int64{of.Topic: {of.Index: kafka.OffsetNewest}}
	listed, err := o.admin.ListOffsets(wanted, options)
	if err != nil {
		return -1, err
	}
	found := listed[of.Topic][of.Index]
	if found == nil {
		return -1, fmt.Errorf("no end of %v listed", of)
	}
	if found.Err != nil && !errors.Is(found.Err, kafka.ErrNoError) {
		return -1, found.Err
	}
	return found.Offset, nil
}

func (o operator) Positions(group, topic string) (map[int32]int64, error) {
	partitions, err := o.client.Partitions(topic)
	if err != nil {
		return nil, err
	}
	wanted := map[string]map[string][]int32{group: {topic: partitions}}
	answer, err := o.admin.ListConsumerGroupOffsetsBatch(wanted)
	if err != nil {
		return nil, err
	}
	positions := map[int32]int64{}
	for index, block := range answer[group].Blocks[topic] {
		if block.Err != kafka.ErrNoError {
			return nil, block.Err
		}
		if block.Offset >= 0 {
			positions[index] = block.Offset
		}
	}
	return positions, nil
}

func (o operator) Members(group string, _ bench.Protocol) (int, error) {
	described, err := o.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return 0, err
	}
	return len(described[0].Members), nil
}

func (o operator) ListTransactions(state string) (map[string]string, error) {
	listed, err := o.looking().ListTransactions([]string{state}, nil, -1)
	states := map[string]string{}
	for _, transaction := range listed {
		states[transaction.TransactionalID] = transaction.TransactionState
	}
	return states, err
}

func (o operator) DescribeTransaction(id string) (bench.Transaction, error) {
	described, err := o.looking().DescribeTransactions([]string{id})
	if err != nil {
		return bench.Transaction{}, err
	}
	found := described[id]
	if found.ErrorCode != kafka.ErrNoError {
		return bench.Transaction{}, found.ErrorCode
	}
	partitions := map[bench.Partition]bool{}
	for _, topic := range found.Topics {
		for _, index := range topic.Partitions {
			partitions[bench.Partition{Topic: topic.Topic, Index: index}] = true
		}
	}
	return bench.Transaction{
		State:      found.TransactionState,
		ProducerID: found.ProducerID,
		Epoch:      found.ProducerEpoch,
		Partitions: partitions,
	}, nil
}

func (o operator) DescribeProducers(of bench.Partition) ([]bench.ProducerState, error) {
	described, err := o.looking().DescribeProducers(map[string][]int32{of.Topic: {of.Index}})
	if err != nil {
		return nil, err
	}
	found := described[of.Topic][of.Index]
	if found.ErrorCode != kafka.ErrNoError {
		return nil, found.ErrorCode
	}
	var states []bench.ProducerState
	for _, producer := range found.ActiveProducers {
		states = append(states, bench.ProducerState{
			ProducerID:       producer.ProducerID,
			Epoch:            int16(producer.ProducerEpoch),
			CoordinatorEpoch: producer.CoordinatorEpoch,
			OpenSince:        producer.CurrentTxnStartOffset,
		})
	}
	return states, nil
}

func (o operator) looking() kafka.TransactionClusterAdmin {
	return o.admin.(kafka.TransactionClusterAdmin)
}
