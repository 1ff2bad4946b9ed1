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
		"init":         initialise,
		"begin":        func(c Command) (Answer, error) { return nil, producers[c.Producer].told(kafka.AsyncProducer.BeginTxn) },
		"send":         send,
		"send-offsets": sendOffsets,
		"commit":       func(c Command) (Answer, error) { return nil, producers[c.Producer].told(kafka.AsyncProducer.CommitTxn) },
		"abort":        func(c Command) (Answer, error) { return nil, producers[c.Producer].told(kafka.AsyncProducer.AbortTxn) },
		"consumer":     consumer,
		"poll":         func(c Command) (Answer, error) { return readers[c.Consumer].poll(Ms(c.TimeoutMs)) },
		"end-offsets":  func(c Command) (Answer, error) { return readers[c.Consumer].ends() },
		"seek":         func(c Command) (Answer, error) { return nil, readers[c.Consumer].from(c.Topic, c.Partition, c.Offset) },
		"close":        func(c Command) (Answer, error) { return nil, closed(c.Name) },
	}, said)
}

// failure is an error with the status of its producer, which tells what to do.
type failure struct {
	error
	status kafka.ProducerTxnStatusFlag
}

func (f failure) Unwrap() error { return f.error }

// said: the library's example closes a producer with a fatal error, aborts after an abortable one, and calls again otherwise.
func said(do string, err error) Error {
	var of failure
	if !errors.As(err, &of) {
		return Error{Retriable: do == "init"}
	}
	one := Error{
		Fatal:     of.status&kafka.ProducerTxnFlagFatalError != 0,
		Abortable: of.status&kafka.ProducerTxnFlagAbortableError != 0,
	}
	other := !one.Fatal && !one.Abortable
	one.Retriable = other && (do == "commit" || do == "abort")
	one.Abortable = one.Abortable || other && !one.Retriable
	return one
}

// producer is the library's, and what became of its records.
type producer struct{ kafka.AsyncProducer }

func (p producer) told(call func(kafka.AsyncProducer) error) error {
	if err := call(p.AsyncProducer); err != nil {
		return failure{err, p.TxnStatus()}
	}
	return nil
}

// collect hands the ends of records to those who wait for them.
func (p producer) collect() {
	go func() {
		for one := range p.Successes() {
			one.Metadata.(chan error) <- nil
		}
	}()
	for one := range p.Errors() {
		one.Msg.Metadata.(chan error) <- one.Err
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
	made, err := kafka.NewAsyncProducer(c.Servers(), config)
	if err != nil {
		return nil, err
	}
	producers[c.Producer] = producer{made}
	go producers[c.Producer].collect()
	return nil, nil
}

func send(c Command) (Answer, error) {
	ended := make(chan error, 1)
	message := &kafka.ProducerMessage{Topic: c.Topic, Partition: c.Partition, Value: kafka.StringEncoder(c.Value), Metadata: ended}
	one := producers[c.Producer]
	one.Input() <- message
	if !c.Wait {
		return nil, nil
	}
	if err := <-ended; err != nil {
		return nil, failure{err, one.TxnStatus()}
	}
	return Answer{"offset": message.Offset}, nil
}

func sendOffsets(c Command) (Answer, error) {
	places := map[string][]*kafka.PartitionOffsetMetadata{}
	for _, at := range c.Offsets {
		one := &kafka.PartitionOffsetMetadata{Partition: at.Partition, Offset: at.Offset, LeaderEpoch: -1}
		places[at.Topic] = append(places[at.Topic], one)
	}
	return nil, producers[c.Producer].told(func(p kafka.AsyncProducer) error { return p.AddOffsetsToTxn(places, c.Group) })
}

func closed(name string) error {
	if one, is := producers[name]; is {
		delete(producers, name)
		one.AsyncClose()
	}
	if one := readers[name]; one != nil {
		delete(readers, name)
		for _, each := range one.partitions {
			each.AsyncClose()
		}
	}
	return nil
}
