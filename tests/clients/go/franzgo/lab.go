package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"txnsim.test/clientcheck/bench"
)

// patience is how long anything may take that is not bound to a timeout of the broker.
const patience = bench.Patience

// failure is what a check panics with.
type failure = bench.Failure

// lab is the bench on which checks work: an address, what is expected of it, and short ways to produce, read and look.
// Names carry that of the run, so that a second run against the same cluster starts clean.
type lab struct {
	seeds              []string
	transactionVersion int
	abortInterval      time.Duration // how often the coordinator looks for timed-out transactions, at most
	run                string
	client             *kgo.Client
	admin              *kadm.Client
}

// partition is one partition of a topic.
type partition struct {
	topic string
	index int32
}

func newLab(seeds []string, run string, transactionVersion int, abortInterval time.Duration) *lab {
	l := &lab{
		seeds:              seeds,
		transactionVersion: transactionVersion,
		abortInterval:      abortInterval,
		run:                run,
	}
	l.client = l.newClient()
	l.admin = kadm.NewClient(l.client)
	return l
}

func (l *lab) close() { l.client.Close() }

func (l *lab) named(stem string) string { return l.run + "-" + stem }

func (l *lab) newClient(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(l.seeds...)}, options...)...)
	ok("new client", err)
	return client
}

// Topics

func (l *lab) newTopic(stem string) partition { return l.newTopics(stem, 1)[0] }

func (l *lab) newTopics(stem string, partitions int32) []partition {
	topic := l.named(stem)
	created, err := l.admin.CreateTopic(deadline(), partitions, -1, nil, topic)
	ok("create "+topic, err)
	ok("create "+topic, created.Err)
	await("every partition of "+topic+" has a leader", patience, func() bool {
		return len(l.leaders(topic)) == int(partitions)
	})
	var all []partition
	for index := int32(0); index < partitions; index++ {
		all = append(all, partition{topic, index})
	}
	return all
}

// leaders holds the leader of each partition of the topic that has one.
func (l *lab) leaders(topic string) map[int32]int32 {
	metadata, err := l.admin.Metadata(deadline(), topic)
	ok("metadata", err)
	leaders := map[int32]int32{}
	for _, p := range metadata.Topics[topic].Partitions {
		if p.Err == nil && p.Leader >= 0 {
			leaders[p.Partition] = p.Leader
		}
	}
	return leaders
}

// Producing

func (l *lab) producer(options ...kgo.Opt) *kgo.Client {
	return l.newClient(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
}

// transactional is a transactional producer, already initialised.
func (l *lab) transactional(id string, options ...kgo.Opt) *kgo.Client {
	producer := l.producer(append([]kgo.Opt{kgo.TransactionalID(id)}, options...)...)
	_, _, err := producer.ProducerID(deadline())
	ok("init producer id of "+id, err)
	return producer
}

// send waits for the acknowledgement and returns the offset of the record.
func send(producer *kgo.Client, at partition, value string) int64 {
	record := &kgo.Record{Topic: at.topic, Partition: at.index, Value: []byte(value)}
	ok("produce "+value, producer.ProduceSync(deadline(), record).FirstErr())
	return record.Offset
}

func begin(producer *kgo.Client) { ok("begin", producer.BeginTransaction()) }

func commit(producer *kgo.Client) {
	ok("commit", producer.EndTransaction(deadline(), kgo.TryCommit))
}

func abort(producer *kgo.Client) { ok("abort", producer.EndTransaction(deadline(), kgo.TryAbort)) }

// Reading

func (l *lab) committed(at partition) []string { return l.read(at, kgo.ReadCommitted(), 0) }

func (l *lab) uncommitted(at partition) []string { return l.read(at, kgo.ReadUncommitted(), 0) }

// read returns the values from offset to the end that this isolation level may see, by an assigned consumer without group.
func (l *lab) read(at partition, isolation kgo.IsolationLevel, offset int64) []string {
	end := l.end(at, isolation)
	values := []string{}
	if offset >= end {
		return values
	}
	consumer := l.newClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{at.topic: {at.index: kgo.NewOffset().At(offset)}}),
		kgo.FetchIsolationLevel(isolation),
		kgo.KeepControlRecords(), // they tell that the end is reached where it is behind a marker
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for position := offset; position < end; {
		fetches := consumer.PollFetches(ctx)
		ok(fmt.Sprintf("fetch %v to %d", at, end), fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			position = record.Offset + 1
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

// end is the last stable offset for read_committed, else the high watermark.
func (l *lab) end(at partition, isolation kgo.IsolationLevel) int64 {
	list := l.admin.ListEndOffsets
	if isolation == kgo.ReadCommitted() {
		list = l.admin.ListCommittedOffsets
	}
	offsets, err := list(deadline(), at.topic)
	ok("list offsets", err)
	found, exists := offsets.Lookup(at.topic, at.index)
	expect("end offset listed", true, exists)
	ok("list offsets", found.Err)
	return found.Offset
}

// Looking

func (l *lab) describe(id string) kadm.DescribedTransaction {
	described, err := l.admin.DescribeTransactions(deadline(), id)
	ok("describe "+id, err)
	ok("describe "+id, described[id].Err)
	return described[id]
}

func (l *lab) producersOf(at partition) kadm.DescribedProducers {
	described, err := l.admin.DescribeProducers(deadline(), topicsSet(at))
	ok("describe producers", err)
	found := described[at.topic].Partitions[at.index]
	ok("describe producers", found.Err)
	return found.ActiveProducers
}

func topicsSet(partitions ...partition) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	for _, p := range partitions {
		set.Add(p.topic, p.index)
	}
	return set
}

// Waiting and expecting

func deadline() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	context.AfterFunc(ctx, cancel) // callers only pass it on; it is released when the time is over
	return ctx
}

func await(what string, limit time.Duration, condition func() bool) {
	for end := time.Now().Add(limit); !condition(); {
		if time.Now().After(end) {
			panic(failure(fmt.Sprintf("not within %v: %s", limit, what)))
		}
		time.Sleep(10 * time.Millisecond) // pace of asking; what is waited for is the condition
	}
}

func ok(what string, err error) { bench.OK(what, err) }

func expect(what string, expected, found any) { bench.Expect(what, expected, found) }
