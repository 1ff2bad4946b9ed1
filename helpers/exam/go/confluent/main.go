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
			ctx, done := context.WithTimeout(context.Background(), patience[c.Producer])
			defer done()
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
			at := kafka.TopicPartition{Topic: &c.Topic, Partition: c.Partition, Offset: kafka.Offset(c.Offset)}
			return nil, members[c.Consumer].Seek(at, 0)
		},
		"commit-positions": func(c Command) (Answer, error) {
			_, err := members[c.Consumer].Commit()
			return nil, err
		},
		"close": func(c Command) (Answer, error) { return nil, closed(c.Name) },
	}, said)
}

// said: the library's errors have a word for each.
func said(_ string, err error) Error {
	var of kafka.Error
	if !errors.As(err, &of) {
		return Error{}
	}
	return Error{Name: of.Code().String(), Retriable: of.IsRetriable(), Abortable: of.TxnRequiresAbort(), Fatal: of.IsFatal()}
}

func initialise(c Command) (Answer, error) {
	if producers[c.Producer] == nil { // else an init that has timed out goes on
		made, err := kafka.NewProducer(&kafka.ConfigMap{
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
			for range made.Events() {
			}
		}()
		producers[c.Producer] = made
	}
	patience[c.Producer] = Ms(c.PatienceMs)
	ctx, done := context.WithTimeout(context.Background(), Ms(c.PatienceMs))
	defer done()
	return nil, producers[c.Producer].InitTransactions(ctx)
}

func send(c Command) (Answer, error) {
	at := kafka.TopicPartition{Topic: &c.Topic, Partition: c.Partition}
	var delivered chan kafka.Event
	if c.Wait {
		delivered = make(chan kafka.Event, 1)
	}
	err := producers[c.Producer].Produce(&kafka.Message{TopicPartition: at, Value: []byte(c.Value)}, delivered)
	if err != nil || !c.Wait {
		return nil, err
	}
	told := (<-delivered).(*kafka.Message).TopicPartition
	return Answer{"offset": int64(told.Offset)}, told.Error
}

func sendOffsets(c Command) (Answer, error) {
	member := members[c.Consumer]
	if member == nil { // positions of a group that has no member here
		made, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": c.Bootstrap, "group.id": c.Group})
		if err != nil {
			return nil, err
		}
		defer made.Close()
		member = made
	}
	metadata, err := member.GetConsumerGroupMetadata()
	if err != nil {
		return nil, err
	}
	var places []kafka.TopicPartition
	for _, at := range c.Offsets {
		places = append(places, kafka.TopicPartition{Topic: &at.Topic, Partition: at.Partition, Offset: kafka.Offset(at.Offset)})
	}
	ctx, done := context.WithTimeout(context.Background(), patience[c.Producer])
	defer done()
	return nil, producers[c.Producer].SendOffsetsToTransaction(ctx, places, metadata)
}

func closed(name string) error {
	if one := producers[name]; one != nil {
		delete(producers, name)
		one.Close()
	}
	if one := members[name]; one != nil {
		delete(members, name)
		return one.Close()
	}
	return nil
}
