// Command sarama sits the exam of txnsim with Sarama: docs/exam.md.
package main

import (
	"errors"
	"time"

	kafka "github.com/IBM/sarama"

	. "txnsim.test/exam/contract"
)

var (
	producers = map[string]producer{}
	readers   = map[string]*reader{}
)

func main() {
	Serve("Sarama", "github.com/IBM/sarama", map[string]func(Command) (Answer, error){
		"init": initialise,
		"begin": func(c Command) (Answer, error) {
			return nil, producers[c.Producer].withStatus(kafka.AsyncProducer.BeginTxn)
		},
		"send":         send,
		"send-offsets": sendOffsets,
		"commit": func(c Command) (Answer, error) {
			return nil, producers[c.Producer].withStatus(kafka.AsyncProducer.CommitTxn)
		},
		"abort": func(c Command) (Answer, error) {
			return nil, producers[c.Producer].withStatus(kafka.AsyncProducer.AbortTxn)
		},
		"consumer":    consumer,
		"poll":        func(c Command) (Answer, error) { return readers[c.Consumer].poll(Ms(c.TimeoutMs)) },
		"end-offsets": func(c Command) (Answer, error) { return readers[c.Consumer].endOffsets() },
		"seek": func(c Command) (Answer, error) {
			return nil, readers[c.Consumer].readFrom(c.Topic, c.Partition, c.Offset)
		},
		"close": func(c Command) (Answer, error) { return nil, closeClient(c.Name) },
	}, describeError)
}

// failure is an error with the status of its producer, which tells what to do.
type failure struct {
	error
	status kafka.ProducerTxnStatusFlag
}

func (f failure) Unwrap() error { return f.error }

// said: the library's example closes a producer with a fatal error, aborts after an abortable one, and calls again otherwise.
func describeError(do string, err error) Error {
	var txnFailure failure
	if !errors.As(err, &txnFailure) {
		return Error{Retriable: do == "init"}
	}
	description := Error{
		Fatal:     txnFailure.status&kafka.ProducerTxnFlagFatalError != 0,
		Abortable: txnFailure.status&kafka.ProducerTxnFlagAbortableError != 0,
	}
	isOther := !description.Fatal && !description.Abortable
	description.Retriable = isOther && (do == "commit" || do == "abort")
	description.Abortable = description.Abortable || isOther && !description.Retriable
	return description
}

// producer is the library's, and what became of its records.
type producer struct{ kafka.AsyncProducer }

func (p producer) withStatus(call func(kafka.AsyncProducer) error) error {
	if err := call(p.AsyncProducer); err != nil {
		return failure{err, p.TxnStatus()}
	}
	return nil
}

// collect hands the ends of records to those who wait for them.
func (p producer) collect() {
	go func() {
		for message := range p.Successes() {
			message.Metadata.(chan error) <- nil
		}
	}()
	for failure := range p.Errors() {
		failure.Msg.Metadata.(chan error) <- failure.Err
	}
}

func settings(c Command) *kafka.Config {
	config := kafka.NewConfig()
	config.ClientID = c.ClientID
	config.Version = kafka.MaxVersion
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	return config
}

func initialise(c Command) (Answer, error) {
	config := settings(c)
	config.Net.MaxOpenRequests = 1 // as transactions need it
	config.Net.DialTimeout, config.Net.ReadTimeout, config.Net.WriteTimeout = Ms(c.RequestMs), Ms(c.RequestMs), Ms(c.RequestMs)
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = kafka.WaitForAll
	config.Producer.Partitioner = kafka.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = c.PatienceMs / int(config.Producer.Retry.Backoff.Milliseconds()) // it counts, and knows no time
	config.Producer.Transaction.ID = c.TransactionalID
	config.Producer.Transaction.Timeout = Ms(c.TransactionMs)
	newProducer, err := kafka.NewAsyncProducer(c.Servers(), config)
	if err != nil {
		return nil, err
	}
	producers[c.Producer] = producer{newProducer}
	go producers[c.Producer].collect()
	return nil, nil
}

func send(c Command) (Answer, error) {
	ended := make(chan error, 1)
	message := &kafka.ProducerMessage{Topic: c.Topic, Partition: c.Partition, Value: kafka.StringEncoder(c.Value), Metadata: ended}
	sender := producers[c.Producer]
	sender.Input() <- message
	if !c.Wait {
		return nil, nil
	}
	if err := <-ended; err != nil {
		return nil, failure{err, sender.TxnStatus()}
	}
	return Answer{"offset": message.Offset}, nil
}

func sendOffsets(c Command) (Answer, error) {
	offsets := map[string][]*kafka.PartitionOffsetMetadata{}
	for _, position := range c.Offsets {
		metadata := &kafka.PartitionOffsetMetadata{Partition: position.Partition, Offset: position.Offset, LeaderEpoch: -1}
		offsets[position.Topic] = append(offsets[position.Topic], metadata)
	}
	return nil, producers[c.Producer].withStatus(func(p kafka.AsyncProducer) error { return p.AddOffsetsToTxn(offsets, c.Group) })
}

func closeClient(name string) error {
	if member, isProducer := producers[name]; isProducer {
		delete(producers, name)
		member.AsyncClose()
	}
	if consumerReader := readers[name]; consumerReader != nil {
		delete(readers, name)
		for _, partitionConsumer := range consumerReader.partitions {
			partitionConsumer.AsyncClose()
		}
	}
	return nil
}
