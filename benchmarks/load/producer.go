package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// flow is the transaction protocol of a run.
type flow string

const (
	flowOld flow = "old" // AddPartitionsToTxn v3, Produce v11, EndTxn v3
	flowV2  flow = "v2"  // transactions v2 (KIP-890): Produce v12 adds implicitly, EndTxn v5 bumps
)

type versions struct{ initProducerID, produce, endTxn int16 }

func (f flow) versions() versions {
	if f == flowV2 {
		return versions{initProducerID: 5, produce: 12, endTxn: 5}
	}
	return versions{initProducerID: 4, produce: 11, endTxn: 3}
}

const addPartitionsVersion = 3

// producer is one transactional id: its requests, its producer id and its sequences. It decides nothing.
type producer struct {
	flow        flow
	txnID       string
	topic       string
	coordinator int32
	partition   int32
	producerID  int64
	epoch       int16
	sequences   []int32 // next sequence by partition
	batch       []byte

	addRequest      *kmsg.AddPartitionsToTxnRequest
	addResponse     *kmsg.AddPartitionsToTxnResponse
	produceRequest  *kmsg.ProduceRequest
	produceResponse *kmsg.ProduceResponse
	endRequest      *kmsg.EndTxnRequest
	endResponse     *kmsg.EndTxnResponse
}

func newProducer(f flow, txnID, topic string, partitions int) *producer {
	p := &producer{
		flow:            f,
		txnID:           txnID,
		topic:           topic,
		partition:       rand.Int32N(int32(partitions)),
		sequences:       make([]int32, partitions),
		batch:           newBatch(1, txnRecordBytes, time.Now().UnixMilli(), true),
		addRequest:      kmsg.NewPtrAddPartitionsToTxnRequest(),
		addResponse:     kmsg.NewPtrAddPartitionsToTxnResponse(),
		produceRequest:  kmsg.NewPtrProduceRequest(),
		produceResponse: kmsg.NewPtrProduceResponse(),
		endRequest:      kmsg.NewPtrEndTxnRequest(),
		endResponse:     kmsg.NewPtrEndTxnResponse(),
	}
	v := f.versions()
	p.addRequest.SetVersion(addPartitionsVersion)
	p.addRequest.TransactionalID = txnID
	addTopic := kmsg.NewAddPartitionsToTxnRequestTopic()
	addTopic.Topic, addTopic.Partitions = topic, []int32{0}
	p.addRequest.Topics = append(p.addRequest.Topics, addTopic)

	p.produceRequest.SetVersion(v.produce)
	p.produceRequest.TransactionID = &p.txnID
	p.produceRequest.Acks, p.produceRequest.TimeoutMillis = -1, 30_000
	produceTopic := kmsg.NewProduceRequestTopic()
	produceTopic.Topic = topic
	producePartition := kmsg.NewProduceRequestTopicPartition()
	producePartition.Records = p.batch
	produceTopic.Partitions = append(produceTopic.Partitions, producePartition)
	p.produceRequest.Topics = append(p.produceRequest.Topics, produceTopic)

	p.endRequest.SetVersion(v.endTxn)
	p.endRequest.TransactionalID, p.endRequest.Commit = txnID, true
	return p
}

func (p *producer) initRequest() *kmsg.InitProducerIDRequest {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.SetVersion(p.flow.versions().initProducerID)
	request.TransactionalID = &p.txnID
	request.TransactionTimeoutMillis = 600_000
	return request
}

func (p *producer) initialised(response *kmsg.InitProducerIDResponse) int16 {
	if response.ErrorCode == codeNone {
		p.adopt(response.ProducerID, response.ProducerEpoch)
	}
	return response.ErrorCode
}

// adopt takes a producer id and epoch. A new epoch starts every sequence at 0 again.
func (p *producer) adopt(producerID int64, epoch int16) {
	p.producerID, p.epoch = producerID, epoch
	clear(p.sequences)
}

// nextPartition moves on, so that a producer visits all partitions in turn.
func (p *producer) nextPartition() {
	p.partition = (p.partition + 1) % int32(len(p.sequences))
}

func (p *producer) addPartition() *kmsg.AddPartitionsToTxnRequest {
	p.addRequest.ProducerID, p.addRequest.ProducerEpoch = p.producerID, p.epoch
	p.addRequest.Topics[0].Partitions[0] = p.partition
	return p.addRequest
}

func (p *producer) added() (*kmsg.AddPartitionsToTxnResponse, func() (int16, error)) {
	p.addResponse.SetVersion(addPartitionsVersion)
	return p.addResponse, func() (int16, error) {
		if len(p.addResponse.Topics) != 1 || len(p.addResponse.Topics[0].Partitions) != 1 {
			return 0, fmt.Errorf("not one partition in the answer: %+v", p.addResponse.Topics)
		}
		return p.addResponse.Topics[0].Partitions[0].ErrorCode, nil
	}
}

func (p *producer) produce() *kmsg.ProduceRequest {
	stamp(p.batch, p.producerID, p.epoch, p.sequences[p.partition])
	p.produceRequest.Topics[0].Partitions[0].Partition = p.partition
	return p.produceRequest
}

func (p *producer) produced() (*kmsg.ProduceResponse, func() (int16, error)) {
	p.produceResponse.SetVersion(p.produceRequest.Version)
	return p.produceResponse, func() (int16, error) {
		code, err := produceCode(p.produceResponse)
		if err == nil && code == codeNone {
			p.sequences[p.partition]++
		}
		return code, err
	}
}

func produceCode(response *kmsg.ProduceResponse) (int16, error) {
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("not one partition in the answer: %+v", response.Topics)
	}
	return response.Topics[0].Partitions[0].ErrorCode, nil
}

func (p *producer) endTxn() *kmsg.EndTxnRequest {
	p.endRequest.ProducerID, p.endRequest.ProducerEpoch = p.producerID, p.epoch
	return p.endRequest
}

func (p *producer) ended() (*kmsg.EndTxnResponse, func() (int16, error)) {
	p.endResponse.SetVersion(p.endRequest.Version)
	return p.endResponse, func() (int16, error) {
		if p.endResponse.ErrorCode == codeNone && p.flow == flowV2 {
			p.adopt(p.endResponse.ProducerID, p.endResponse.ProducerEpoch)
		}
		return p.endResponse.ErrorCode, nil
	}
}
