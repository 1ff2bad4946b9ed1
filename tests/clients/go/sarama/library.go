package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"time"

	kafka "github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
	"github.com/xdg-go/scram"

	"txnsim.test/clientcheck/bench"
)

// library is Sarama as the checks of the matrix see it.
type library struct{}

var codecs = map[string]kafka.CompressionCodec{
	"none":   kafka.CompressionNone,
	"gzip":   kafka.CompressionGZIP,
	"snappy": kafka.CompressionSnappy,
	"lz4":    kafka.CompressionLZ4,
	"zstd":   kafka.CompressionZSTD,
}

func (library) Compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (library) Mechanisms() []string {
	return []string{"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"}
}

func (library) Log(in bench.Connection) error {
	config, err := configOf(in)
	if err != nil {
		return err
	}
	config.Metadata.Retry.Max = 0
	client, err := kafka.NewClient(in.Bootstrap, config)
	if err == nil {
		err = client.Close()
	}
	return err
}

// Fenced: the coordinator's own word, as InitProducerId v4 and EndTxn v3 have it.
func (library) Fenced(err error) bool { return errors.Is(err, kafka.ErrProducerFenced) }

// Sarama keeps to the flow before transactions v2, where the raised epoch of the abort fences the producer.
func (library) TimedOut(err error, _ int) bool { return errors.Is(err, kafka.ErrProducerFenced) }

func (library) LostMembership(err error) bool {
	return errors.Is(err, kafka.ErrIllegalGeneration) || errors.Is(err, kafka.ErrUnknownMemberId)
}

func (library) WrongPassword(err error) bool {
	return errors.Is(err, kafka.ErrSASLAuthenticationFailed)
}

func configOf(at bench.Connection) (*kafka.Config, error) {
	config := kafka.NewConfig()
	config.Version = kafka.MaxVersion
	config.MetricRegistry = metrics.NewRegistry()
	if at.TLS != nil {
		files, err := bench.TLSConfig(*at.TLS)
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = files
	}
	if at.SASL != nil {
		config.Net.SASL.Enable = true
		config.Net.SASL.Handshake = true
		config.Net.SASL.Version = kafka.SASLHandshakeV1
		config.Net.SASL.Mechanism = kafka.SASLMechanism(at.SASL.Mechanism)
		config.Net.SASL.User = at.SASL.User
		config.Net.SASL.Password = at.SASL.Password
		config.Net.SASL.TokenProvider = tokens{at.SASL.User}
		config.Net.SASL.SCRAMClientGeneratorFunc = func() kafka.SCRAMClient {
			return &scramClient{mechanism: at.SASL.Mechanism}
		}
	}
	return config, nil
}

type tokens struct{ user string }

func (t tokens) Token() (*kafka.AccessToken, error) {
	token, _ := bench.UnsecuredToken(t.user)
	return &kafka.AccessToken{Token: token}, nil
}

// scramClient is what Sarama asks its users to bring for SCRAM.
type scramClient struct {
	mechanism    string
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	hashes := map[string]func() hash.Hash{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New}
	client, err := scram.HashGeneratorFcn(hashes[c.mechanism]).NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.conversation = client.NewConversation()
	return nil
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

func (c *scramClient) Done() bool { return c.conversation.Done() }

// Producing

type producer struct{ kafka.SyncProducer }

func (library) NewProducer(at bench.Connection, wanted bench.ProducerOptions) (bench.Producer, error) {
	config, err := configOf(at)
	if err != nil {
		return nil, err
	}
	config.Producer.RequiredAcks = kafka.WaitForAll
	config.Producer.Partitioner = kafka.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Compression = codecs[wanted.Compression]
	config.Producer.Idempotent = wanted.Idempotent || wanted.TransactionalID != ""
	if config.Producer.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	if wanted.TransactionalID != "" {
		config.Producer.Transaction.ID = wanted.TransactionalID
		config.Producer.Transaction.Timeout = 30 * time.Second
		if wanted.TransactionTimeout != 0 {
			config.Producer.Transaction.Timeout = wanted.TransactionTimeout
		}
	}
	made, err := kafka.NewSyncProducer(at.Bootstrap, config)
	return producer{made}, err
}

func (p producer) Send(records ...bench.Record) ([]int64, error) {
	var sent []*kafka.ProducerMessage
	for _, record := range records {
		sent = append(sent, toSend(record))
	}
	if err := p.SendMessages(sent); err != nil {
		return nil, firstOf(err)
	}
	var offsets []int64
	for _, message := range sent {
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

// firstOf several messages' errors: the sum of them says only how many there are.
func firstOf(err error) error {
	var several kafka.ProducerErrors
	if errors.As(err, &several) && len(several) > 0 {
		return several[0]
	}
	return err
}

func (p producer) Begin() error  { return p.BeginTxn() }
func (p producer) Commit() error { return p.CommitTxn() }
func (p producer) Abort() error  { return p.AbortTxn() }

func (p producer) Close() {
	// A producer that was fenced reports it once more; checks have seen it.
	_ = p.SyncProducer.Close()
}

func toSend(record bench.Record) *kafka.ProducerMessage {
	message := &kafka.ProducerMessage{
		Topic:     record.Topic,
		Partition: record.Partition,
		Value:     kafka.StringEncoder(record.Value),
	}
	if record.Key != "" {
		message.Key = kafka.StringEncoder(record.Key)
	}
	for _, header := range record.Headers {
		one := kafka.RecordHeader{Key: []byte(header.Key), Value: []byte(header.Value)}
		message.Headers = append(message.Headers, one)
	}
	if record.TimestampMs != 0 {
		message.Timestamp = time.UnixMilli(record.TimestampMs)
	}
	return message
}

// Reading

// Read takes an end to be reached when the broker has been asked again after it had answered all it has: Sarama's consumer
// does not say where it stands where the last thing of a partition is a marker.
func (library) Read(at bench.Connection, of bench.Partition, isolation bench.Isolation) ([]bench.Record, error) {
	config, err := configOf(at)
	if err != nil {
		return nil, err
	}
	config.Consumer.MaxWaitTime = 50 * time.Millisecond
	if isolation == bench.ReadCommitted {
		config.Consumer.IsolationLevel = kafka.ReadCommitted
	}
	consumer, err := kafka.NewConsumer(at.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(of.Topic, of.Index, kafka.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	deadline := time.After(bench.Patience)
	pace := time.NewTicker(5 * time.Millisecond) // of looking at the count
	defer pace.Stop()
	var records []bench.Record
	for asked := fetches(config); ; {
		select {
		case message := <-reader.Messages():
			records = append(records, received(message))
			asked = fetches(config)
		case <-pace.C:
			// The one under way, one that began after it, and that one's answer has been handed out: a third has begun.
			if fetches(config) >= asked+3 && len(reader.Messages()) == 0 {
				return records, nil
			}
		case <-deadline:
			return nil, fmt.Errorf("read %v: no end", of)
		}
	}
}

// fetches that this client has sent so far.
func fetches(config *kafka.Config) int64 {
	meter, ok := config.MetricRegistry.Get("consumer-fetch-rate").(metrics.Meter)
	if !ok {
		return 0
	}
	return meter.Count()
}

func received(message *kafka.ConsumerMessage) bench.Record {
	one := bench.Record{
		Topic:       message.Topic,
		Partition:   message.Partition,
		Offset:      message.Offset,
		Key:         string(message.Key),
		Value:       string(message.Value),
		TimestampMs: message.Timestamp.UnixMilli(),
	}
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, bench.Header{Key: string(header.Key), Value: string(header.Value)})
	}
	return one
}
