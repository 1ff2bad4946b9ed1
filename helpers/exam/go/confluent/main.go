// Command confluent sits the exam of txnsim with confluent-kafka-go, which is librdkafka: docs/exam.md.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	. "txnsim.test/exam/contract"
)

var (
	producers = map[string]*kafka.Producer{}
	members   = map[string]*kafka.Consumer{} // and readers that have no group
	patience  = map[string]time.Duration{}
)

func main() {
	bounded := func(call func(*kafka.Producer, context.Context) error) func(Command) (Answer, error) {
		return func(c Command) (Answer, error) {
			ctx, cancel := context.WithTimeout(context.Background(), patience[c.Producer])
			defer cancel()
			return nil, call(producers[c.Producer], ctx)
		}
	}
	Serve("confluent-kafka-go", "github.com/confluentinc/confluent-kafka-go/v2", map[string]func(Command) (Answer, error){
		"init":         initialise,
		"begin":        func(c Command) (Answer, error) { return nil, producers[c.Producer].BeginTransaction() },
		"send":         send,
		"send-offsets": sendOffsets,
		"commit":       bounded((*kafka.Producer).CommitTransaction),
		"abort":        bounded((*kafka.Producer).AbortTransaction),
		"consumer":     consumer,
		"subscribe":    subscribe,
		"poll":         poll,
		"end-offsets":  endOffsets,
		"seek": func(c Command) (Answer, error) {
			position := kafka.TopicPartition{Topic: &c.Topic, Partition: c.Partition, Offset: kafka.Offset(c.Offset)}
			return nil, members[c.Consumer].Seek(position, 0)
		},
		"commit-positions": func(c Command) (Answer, error) {
			_, err := members[c.Consumer].Commit()
			return nil, err
		},
		"close": func(c Command) (Answer, error) { return nil, closeClient(c.Name) },
	}, describeError)
}

// said: the library's errors have a word for each.
func describeError(_ string, err error) Error {
	var kafkaError kafka.Error
	if !errors.As(err, &kafkaError) {
		return Error{}
	}
	return Error{Name: kafkaError.Code().String(), Retriable: kafkaError.IsRetriable(), Abortable: kafkaError.TxnRequiresAbort(), Fatal: kafkaError.IsFatal()}
}

func initialise(c Command) (Answer, error) {
	if producers[c.Producer] == nil { // else an init that has timed out goes on
		newProducer, err := kafka.NewProducer(&kafka.ConfigMap{
			"bootstrap.servers":      c.Bootstrap,
			"client.id":              c.ClientID,
			"transactional.id":       c.TransactionalID,
			"transaction.timeout.ms": c.TransactionMs,
			"socket.timeout.ms":      c.RequestMs,
			"message.timeout.ms":     c.PatienceMs,
			"linger.ms":              0,
		})
		if err != nil {
			return nil, err
		}
		go func() { // of records that nothing waits for; the commit tells of them
			for range newProducer.Events() {
			}
		}()
		producers[c.Producer] = newProducer
	}
	patience[c.Producer] = Ms(c.PatienceMs)
	ctx, cancel := context.WithTimeout(context.Background(), Ms(c.PatienceMs))
	defer cancel()
	return nil, producers[c.Producer].InitTransactions(ctx)
}

func send(c Command) (Answer, error) {
	partition := kafka.TopicPartition{Topic: &c.Topic, Partition: c.Partition}
	var delivered chan kafka.Event
	if c.Wait {
		delivered = make(chan kafka.Event, 1)
	}
	err := producers[c.Producer].Produce(&kafka.Message{TopicPartition: partition, Value: []byte(c.Value)}, delivered)
	if err != nil || !c.Wait {
		return nil, err
	}
	acknowledged := (<-delivered).(*kafka.Message).TopicPartition
	return Answer{"offset": int64(acknowledged.Offset)}, acknowledged.Error
}

func sendOffsets(c Command) (Answer, error) {
	member := members[c.Consumer]
	if member == nil { // positions of a group that has no member here
		stranger, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": c.Bootstrap, "group.id": c.Group})
		if err != nil {
			return nil, err
		}
		defer stranger.Close()
		member = stranger
	}
	metadata, err := member.GetConsumerGroupMetadata()
	if err != nil {
		return nil, err
	}
	var positions []kafka.TopicPartition
	for _, offset := range c.Offsets {
		positions = append(positions, kafka.TopicPartition{Topic: &offset.Topic, Partition: offset.Partition, Offset: kafka.Offset(offset.Offset)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience[c.Producer])
	defer cancel()
	return nil, producers[c.Producer].SendOffsetsToTransaction(ctx, positions, metadata)
}

func closeClient(name string) error {
	if producer := producers[name]; producer != nil {
		delete(producers, name)
		producer.Close()
	}
	if member := members[name]; member != nil {
		delete(members, name)
		return member.Close()
	}
	return nil
}
