package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	. "txnsim.test/exam/contract"
)

// abortOpen: what is hanging in a partition, ended by a marker with the coordinator epoch that the partition knows.
func abortOpen(c Command) (Answer, error) {
	client, err := kgo.NewClient(options(c)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	description := kmsg.NewPtrDescribeProducersRequest()
	description.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: c.Topic, Partitions: []int32{c.Partition}}}
	described, err := description.RequestWith(always, client)
	if err != nil {
		return nil, err
	}
	abortion := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, producer := range described.Topics[0].Partitions[0].ActiveProducers {
		if producer.CurrentTxnStartOffset < 0 {
			continue
		}
		marker := kmsg.NewWriteTxnMarkersRequestMarker()
		marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = producer.ProducerID, int16(producer.ProducerEpoch), producer.CoordinatorEpoch
		marker.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: c.Topic, Partitions: []int32{c.Partition}}}
		abortion.Markers = append(abortion.Markers, marker)
	}
	for _, shard := range client.RequestSharded(always, abortion) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, marker := range shard.Resp.(*kmsg.WriteTxnMarkersResponse).Markers {
			for _, topic := range marker.Topics {
				for _, partition := range topic.Partitions {
					err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		}
	}
	return nil, err
}
