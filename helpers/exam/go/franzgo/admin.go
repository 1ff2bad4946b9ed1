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
	asked := kmsg.NewPtrDescribeProducersRequest()
	asked.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: c.Topic, Partitions: []int32{c.Partition}}}
	described, err := asked.RequestWith(always, client)
	if err != nil {
		return nil, err
	}
	wanted := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, one := range described.Topics[0].Partitions[0].ActiveProducers {
		if one.CurrentTxnStartOffset < 0 {
			continue
		}
		marker := kmsg.NewWriteTxnMarkersRequestMarker()
		marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = one.ProducerID, int16(one.ProducerEpoch), one.CoordinatorEpoch
		marker.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: c.Topic, Partitions: []int32{c.Partition}}}
		wanted.Markers = append(wanted.Markers, marker)
	}
	for _, shard := range client.RequestSharded(always, wanted) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, marker := range shard.Resp.(*kmsg.WriteTxnMarkersResponse).Markers {
			for _, topic := range marker.Topics {
				for _, one := range topic.Partitions {
					err = errors.Join(err, kerr.ErrorForCode(one.ErrorCode))
				}
			}
		}
	}
	return nil, err
}
