package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"txnsim.test/clientcheck/bench"
)

const questionMs = 200

// library is confluent-kafka-go as the checks of the matrix see it.
type library struct{}

func (library) Compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (library) Mechanisms() []string {
	return []string{"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"}
}

// Log waits for the first thing that a producer is told: that it may not come in, or metadata.
func (library) Log(in bench.Connection) error {
	made, err := newProducer(in, kafka.ConfigMap{})
	if err != nil {
		return err
	}
	defer made.Close()
	answered, over := make(chan error, 1), make(chan struct{})
	go func() { answered <- ask(made, over) }()
	for {
		select {
		case event := <-made.Events():
			if problem, is := event.(kafka.Error); is {
				close(over)
				<-answered
				return problem
			}
		case err := <-answered:
			return err
		}
	}
}

// ask for the brokers until there is an answer. Each question is short: while one is open the producer can't be closed, and a
// refused login is no answer to it.
func ask(made *kafka.Producer, over <-chan struct{}) error {
	for end := time.Now().Add(bench.Patience); ; {
		_, err := made.GetMetadata(nil, false, questionMs)
		if err == nil || code(err) != kafka.ErrTimedOut && code(err) != kafka.ErrTransport || time.Now().After(end) {
			return err
		}
		select {
		case <-over:
			return err
		default:
		}
	}
}

func (library) Fenced(err error) bool { return code(err) == kafka.ErrFenced && fatal(err) }

// librdkafka keeps to the flow before transactions v2, where the raised epoch of the abort fences the producer.
func (library) TimedOut(err error, _ int) bool { return code(err) == kafka.ErrFenced && fatal(err) }

func (library) LostMembership(err error) bool {
	var problem kafka.Error
	if !errors.As(err, &problem) || !problem.TxnRequiresAbort() {
		return false
	}
	switch problem.Code() {
	case kafka.ErrIllegalGeneration, kafka.ErrUnknownMemberID, kafka.ErrStaleMemberEpoch:
		return true
	}
	return false
}

func (library) WrongPassword(err error) bool { return code(err) == kafka.ErrAuthentication }

func code(err error) kafka.ErrorCode {
	var problem kafka.Error
	if errors.As(err, &problem) {
		return problem.Code()
	}
	return kafka.ErrNoError
}

func fatal(err error) bool {
	var problem kafka.Error
	return errors.As(err, &problem) && problem.IsFatal()
}

func configOf(at bench.Connection, more kafka.ConfigMap) *kafka.ConfigMap {
	config := kafka.ConfigMap{
		"bootstrap.servers": strings.Join(at.Bootstrap, ","),
		"log_level":         2, // what is told in the log comes as an error, too
	}
	switch {
	case at.SASL != nil:
		config["security.protocol"] = "SASL_SSL"
		config["sasl.mechanisms"] = at.SASL.Mechanism
		if at.SASL.Mechanism != "OAUTHBEARER" {
			config["sasl.username"] = at.SASL.User
			config["sasl.password"] = at.SASL.Password
		}
	case at.TLS != nil:
		config["security.protocol"] = "SSL"
	}
	if at.TLS != nil {
		config["ssl.ca.location"] = at.TLS.Authority
		if at.TLS.Certificate != "" {
			config["ssl.certificate.location"] = at.TLS.Certificate
			config["ssl.key.location"] = at.TLS.Key
		}
	}
	for name, value := range more {
		config[name] = value
	}
	return &config
}

// setToken where the mechanism is OAUTHBEARER.
func setToken(at bench.Connection, set func(kafka.OAuthBearerToken) error) error {
	if at.SASL == nil || at.SASL.Mechanism != "OAUTHBEARER" {
		return nil
	}
	token, end := bench.UnsecuredToken(at.SASL.User)
	return set(kafka.OAuthBearerToken{TokenValue: token, Expiration: end, Principal: at.SASL.User})
}

func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), bench.Patience)
}

// Producing

type producer struct{ *kafka.Producer }

func newProducer(at bench.Connection, config kafka.ConfigMap) (*kafka.Producer, error) {
	made, err := kafka.NewProducer(configOf(at, config))
	if err != nil {
		return nil, err
	}
	if err := setToken(at, made.SetOAuthBearerToken); err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

func (library) NewProducer(at bench.Connection, wanted bench.ProducerOptions) (bench.Producer, error) {
	config := kafka.ConfigMap{"acks": "all", "linger.ms": 0, "enable.idempotence": wanted.Idempotent}
	if wanted.Compression != "" {
		config["compression.type"] = wanted.Compression
	}
	if wanted.TransactionalID != "" {
		config["enable.idempotence"] = true
		config["transactional.id"] = wanted.TransactionalID
		config["transaction.timeout.ms"] = 30_000
		if wanted.TransactionTimeout != 0 {
			config["transaction.timeout.ms"] = int(wanted.TransactionTimeout.Milliseconds())
		}
	}
	made, err := newProducer(at, config)
	if err != nil {
		return nil, err
	}
	if wanted.TransactionalID != "" {
		ctx, cancel := deadline()
		defer cancel()
		if err := made.InitTransactions(ctx); err != nil {
			made.Close()
			return nil, err
		}
	}
	return producer{made}, nil
}

func (p producer) Send(records ...bench.Record) ([]int64, error) {
	delivered := make(chan kafka.Event, len(records))
	for number, record := range records {
		message := toSend(record)
		message.Opaque = number
		if err := p.Produce(message, delivered); err != nil {
			return nil, err
		}
	}
	offsets := make([]int64, len(records))
	late := time.After(bench.Patience)
	for range records {
		select {
		case event := <-delivered:
			message := event.(*kafka.Message)
			if message.TopicPartition.Error != nil {
				return nil, message.TopicPartition.Error
			}
			offsets[message.Opaque.(int)] = int64(message.TopicPartition.Offset)
		case <-late:
			return nil, errors.New("records are not acknowledged")
		}
	}
	return offsets, nil
}

func (p producer) Begin() error { return p.BeginTransaction() }

func (p producer) Commit() error {
	ctx, cancel := deadline()
	defer cancel()
	return p.CommitTransaction(ctx)
}

func (p producer) Abort() error {
	ctx, cancel := deadline()
	defer cancel()
	return p.AbortTransaction(ctx)
}

func (p producer) Close() { p.Producer.Close() }

func toSend(record bench.Record) *kafka.Message {
	message := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &record.Topic, Partition: record.Partition},
		Value:          []byte(record.Value),
	}
	if record.Key != "" {
		message.Key = []byte(record.Key)
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Key, Value: []byte(header.Value)})
	}
	if record.TimestampMs != 0 {
		message.Timestamp = time.UnixMilli(record.TimestampMs)
	}
	return message
}

// Reading

var isolations = map[bench.Isolation]string{
	bench.ReadUncommitted: "read_uncommitted",
	bench.ReadCommitted:   "read_committed",
}

func newConsumer(at bench.Connection, config kafka.ConfigMap) (*kafka.Consumer, error) {
	config["auto.offset.reset"] = "earliest"
	config["enable.auto.commit"] = false
	config["fetch.wait.max.ms"] = 100
	made, err := kafka.NewConsumer(configOf(at, config))
	if err != nil {
		return nil, err
	}
	if err := setToken(at, made.SetOAuthBearerToken); err != nil {
		_ = made.Close()
		return nil, err
	}
	return made, nil
}

func (library) Read(at bench.Connection, of bench.Partition, isolation bench.Isolation) ([]bench.Record, error) {
	consumer, err := newConsumer(at, kafka.ConfigMap{
		"group.id":             "nobody", // is asked for; nothing is committed
		"isolation.level":      isolations[isolation],
		"enable.partition.eof": true,
	})
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	start := kafka.TopicPartition{Topic: &of.Topic, Partition: of.Index, Offset: 0}
	if err := consumer.Assign([]kafka.TopicPartition{start}); err != nil {
		return nil, err
	}
	var records []bench.Record
	for end := time.Now().Add(bench.Patience); time.Now().Before(end); {
		switch event := consumer.Poll(100).(type) {
		case *kafka.Message:
			records = append(records, received(event))
		case kafka.PartitionEOF:
			return records, nil
		case kafka.Error:
			return nil, event
		}
	}
	return nil, fmt.Errorf("read %v: no end", of)
}

func received(message *kafka.Message) bench.Record {
	one := bench.Record{
		Topic:       *message.TopicPartition.Topic,
		Partition:   message.TopicPartition.Partition,
		Offset:      int64(message.TopicPartition.Offset),
		Key:         string(message.Key),
		Value:       string(message.Value),
		TimestampMs: message.Timestamp.UnixMilli(),
	}
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, bench.Header{Key: header.Key, Value: string(header.Value)})
	}
	return one
}
