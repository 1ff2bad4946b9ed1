package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"txnsim.test/clientcheck/bench"
)

// operator is kadm, franz-go's admin client, as the checks of the matrix see it.
type operator struct {
	client *kgo.Client
	admin  *kadm.Client
}

func (library) NewAdmin(at bench.Connection) (bench.Admin, error) {
	client, err := connect(at)
	if err != nil {
		return nil, err
	}
	return operator{client, kadm.NewClient(client)}, nil
}

func (o operator) Close() { o.client.Close() }

func (o operator) CreateTopic(topic string, partitions int32) error {
	_, err := o.admin.CreateTopic(deadline(), partitions, -1, nil, topic)
	return err
}

func (o operator) Leaders(topic string) (map[int32]int32, error) {
	metadata, err := o.admin.Metadata(deadline(), topic)
	if err != nil {
		return nil, err
	}
	leaders := map[int32]int32{}
	for _, p := range metadata.Topics[topic].Partitions {
		if p.Err == nil && p.Leader >= 0 {
			leaders[p.Partition] = p.Leader
		}
	}
	return leaders, nil
}

func (o operator) Brokers() (int, error) {
	metadata, err := o.admin.BrokerMetadata(deadline())
	return len(metadata.Brokers), err
}

func (o operator) End(of bench.Partition, isolation bench.Isolation) (int64, error) {
	return endOf(o.client, of, isolation)
}

func endOf(client *kgo.Client, of bench.Partition, isolation bench.Isolation) (int64, error) {
	admin := kadm.NewClient(client)
	list := admin.ListEndOffsets
	if isolation == bench.ReadCommitted {
		list = admin.ListCommittedOffsets
	}
	offsets, err := list(deadline(), of.Topic)
	if err != nil {
		return -1, err
	}
	found, exists := offsets.Lookup(of.Topic, of.Index)
	if !exists {
		return -1, errors.New("no end offset listed")
	}
	return found.Offset, found.Err
}

func (o operator) Positions(group, topic string) (map[int32]int64, error) {
	offsets, err := o.admin.FetchOffsets(deadline(), group)
	if err != nil {
		return nil, err
	}
	positions := map[int32]int64{}
	for index, offset := range offsets[topic] {
		if offset.Err != nil {
			return nil, offset.Err
		}
		positions[index] = offset.At
	}
	return positions, nil
}

func (o operator) Members(group string, protocol bench.Protocol) (int, error) {
	if protocol == bench.NextGeneration {
		groups, err := o.admin.DescribeConsumerGroups(deadline(), group)
		if err != nil {
			return 0, err
		}
		return len(groups[group].Members), groups[group].Err
	}
	groups, err := o.admin.DescribeGroups(deadline(), group)
	if err != nil {
		return 0, err
	}
	return len(groups[group].Members), groups[group].Err
}

func (o operator) ListTransactions(state string) (map[string]string, error) {
	listed, err := o.admin.ListTransactions(deadline(), nil, []string{state})
	states := map[string]string{}
	for id, transaction := range listed {
		states[id] = transaction.State
	}
	return states, err
}

func (o operator) DescribeTransaction(id string) (bench.Transaction, error) {
	described, err := o.admin.DescribeTransactions(deadline(), id)
	if err != nil {
		return bench.Transaction{}, err
	}
	found := described[id]
	partitions := map[bench.Partition]bool{}
	for topic, indices := range found.Topics {
		for index := range indices {
			partitions[bench.Partition{Topic: topic, Index: index}] = true
		}
	}
	return bench.Transaction{
		State:      found.State,
		ProducerID: found.ProducerID,
		Epoch:      found.ProducerEpoch,
		Partitions: partitions,
	}, found.Err
}

func (o operator) DescribeProducers(of bench.Partition) ([]bench.ProducerState, error) {
	described, err := o.admin.DescribeProducers(deadline(), topicsSet(partition{of.Topic, of.Index}))
	if err != nil {
		return nil, err
	}
	found := described[of.Topic].Partitions[of.Index]
	var states []bench.ProducerState
	for _, producer := range found.ActiveProducers.Sorted() {
		states = append(states, bench.ProducerState{
			ProducerID:       producer.ProducerID,
			Epoch:            producer.ProducerEpoch,
			CoordinatorEpoch: producer.CoordinatorEpoch,
			OpenSince:        producer.CurrentTxnStartOffset,
		})
	}
	return states, found.Err
}

func (o operator) AbortTransaction(of bench.Partition, producer bench.ProducerState) error {
	written, err := o.admin.WriteTxnMarkers(deadline(), kadm.TxnMarkers{
		ProducerID:       producer.ProducerID,
		ProducerEpoch:    producer.Epoch,
		Commit:           false,
		CoordinatorEpoch: max(producer.CoordinatorEpoch, 0),
		Topics:           topicsSet(partition{of.Topic, of.Index}),
	})
	if err != nil {
		return err
	}
	for _, marked := range written.SortedPartitions() {
		if marked.Err != nil {
			return marked.Err
		}
	}
	return nil
}

// FenceProducers sends InitProducerId without an expected identity, as Kafka's Admin.fenceProducers does; kadm has no call
// for it.
func (o operator) FenceProducers(id string) error {
	var err error
	bench.Await("the fence is up", func() bool {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionalID = &id
		request.TransactionTimeoutMillis = 30_000
		request.ProducerID = -1
		request.ProducerEpoch = -1
		var answer *kmsg.InitProducerIDResponse
		if answer, err = request.RequestWith(deadline(), o.client); err != nil {
			return true
		}
		err = kerr.ErrorForCode(answer.ErrorCode)
		return !errors.Is(err, kerr.ConcurrentTransactions) // the open transaction is being aborted first
	})
	return err
}
