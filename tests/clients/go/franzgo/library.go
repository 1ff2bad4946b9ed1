package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"txnsim.test/clientcheck/bench"
)

// library is franz-go as the checks of the matrix see it.
type library struct{}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (library) Compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (library) Mechanisms() []string {
	return []string{"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"}
}

func (library) Log(in bench.Connection) error {
	client, err := connect(in, kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(deadline())
}

func (library) Fenced(err error) bool { return errors.Is(err, kerr.ProducerFenced) }

// The coordinator aborts with a raised epoch. In the old flow that fences the producer; under transactions v2 a commit with
// the epoch before it is about a transaction that is no longer there.
func (library) TimedOut(err error, transactionVersion int) bool {
	if transactionVersion >= 2 {
		return errors.Is(err, kerr.InvalidTxnState)
	}
	return errors.Is(err, kerr.ProducerFenced)
}

func (library) LostMembership(err error) bool { return errors.Is(err, errNotCommitted) }

func (library) WrongPassword(err error) bool { return errors.Is(err, kerr.SaslAuthenticationFailed) }

func connect(at bench.Connection, options ...kgo.Opt) (*kgo.Client, error) {
	all, err := optionsOf(at)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(all, options...)...)
}

func optionsOf(at bench.Connection) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(at.Bootstrap...)}
	if at.TLS != nil {
		config, err := bench.TLSConfig(*at.TLS)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if at.SASL != nil {
		options = append(options, kgo.SASL(mechanism(*at.SASL)))
	}
	return options, nil
}

func mechanism(login bench.Login) sasl.Mechanism {
	switch login.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.User, Pass: login.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.User, Pass: login.Password}.AsSha512Mechanism()
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()
	default:
		token, _ := bench.UnsecuredToken(login.User)
		return oauth.Auth{Token: token}.AsMechanism()
	}
}

// Producing

type producer struct{ client *kgo.Client }

func (library) NewProducer(at bench.Connection, wanted bench.ProducerOptions) (bench.Producer, error) {
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if wanted.Compression != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[wanted.Compression]))
	}
	if wanted.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(wanted.TransactionalID))
		if wanted.TransactionTimeout != 0 {
			options = append(options, kgo.TransactionTimeout(wanted.TransactionTimeout))
		}
	} else if !wanted.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := connect(at, options...)
	if err != nil {
		return nil, err
	}
	if wanted.TransactionalID != "" {
		if _, _, err := client.ProducerID(deadline()); err != nil {
			client.Close()
			return nil, err
		}
	}
	return producer{client}, nil
}

func (p producer) Send(records ...bench.Record) ([]int64, error) {
	sent := toSend(records)
	if err := p.client.ProduceSync(deadline(), sent...).FirstErr(); err != nil {
		return nil, err
	}
	var offsets []int64
	for _, record := range sent {
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func (p producer) Begin() error  { return p.client.BeginTransaction() }
func (p producer) Commit() error { return p.client.EndTransaction(deadline(), kgo.TryCommit) }
func (p producer) Abort() error  { return p.client.EndTransaction(deadline(), kgo.TryAbort) }
func (p producer) Close()        { p.client.Close() }

func toSend(records []bench.Record) []*kgo.Record {
	var all []*kgo.Record
	for _, record := range records {
		one := &kgo.Record{Topic: record.Topic, Partition: record.Partition, Value: []byte(record.Value)}
		if record.Key != "" {
			one.Key = []byte(record.Key)
		}
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: header.Key, Value: []byte(header.Value)})
		}
		if record.TimestampMs != 0 {
			one.Timestamp = time.UnixMilli(record.TimestampMs)
		}
		all = append(all, one)
	}
	return all
}

// Reading

func (library) Read(at bench.Connection, of bench.Partition, isolation bench.Isolation) ([]bench.Record, error) {
	level := kgo.ReadUncommitted()
	if isolation == bench.ReadCommitted {
		level = kgo.ReadCommitted()
	}
	partitions := map[string]map[int32]kgo.Offset{of.Topic: {of.Index: kgo.NewOffset().AtStart()}}
	client, err := connect(at,
		kgo.ConsumePartitions(partitions),
		kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(), // they tell that the end is reached where it is behind a marker
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	end, err := endOf(client, of, isolation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []bench.Record
	for position := int64(0); position < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			position = record.Offset + 1
			if !record.Attrs.IsControl() {
				records = append(records, received(record))
			}
		})
	}
	return records, nil
}

func received(record *kgo.Record) bench.Record {
	one := bench.Record{
		Topic:       record.Topic,
		Partition:   record.Partition,
		Offset:      record.Offset,
		Key:         string(record.Key),
		Value:       string(record.Value),
		TimestampMs: record.Timestamp.UnixMilli(),
	}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, bench.Header{Key: header.Key, Value: string(header.Value)})
	}
	return one
}

// Working in a group

// errNotCommitted stands for the session's answer that it has aborted instead, because the group has rebalanced.
var errNotCommitted = errors.New("the session did not commit")

type worker struct {
	session *kgo.GroupTransactSession
	open    bool
}

func (library) NewWorker(at bench.Connection, wanted bench.WorkerOptions) (bench.Worker, error) {
	options, err := optionsOf(at)
	if err != nil {
		return nil, err
	}
	options = append(options,
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.TransactionalID(wanted.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(),
	)
	if wanted.Protocol == bench.NextGeneration {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return nil, err
	}
	return &worker{session: session}, nil
}

func (w *worker) Poll(max int) ([]bench.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fetches := w.session.PollRecords(ctx, max)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	var records []bench.Record
	fetches.EachRecord(func(record *kgo.Record) { records = append(records, received(record)) })
	if len(records) == 0 {
		return nil, nil
	}
	w.open = true
	return records, w.session.Begin()
}

func (w *worker) Forward(records ...bench.Record) error {
	return w.session.ProduceSync(deadline(), toSend(records)...).FirstErr()
}

func (w *worker) Commit() error {
	committed, err := w.session.End(deadline(), kgo.TryCommit)
	w.open = false // either way: a session that does not commit has aborted
	if err == nil && !committed {
		err = errNotCommitted
	}
	return err
}

func (w *worker) Abort() error {
	if !w.open {
		return nil
	}
	w.open = false
	_, err := w.session.End(deadline(), kgo.TryAbort)
	return err
}

func (w *worker) Close() { w.session.CloseAllowingRebalance() }
