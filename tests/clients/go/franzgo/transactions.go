package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What producers and assigned consumers must be able to rely on.
var transactionChecks = []check{
	{"idempotent-produce", idempotentProduce},
	{"commit-shows-records-to-read-committed", commitShows},
	{"abort-hides-records-from-read-committed", abortHides},
	{"read-committed-stops-at-an-open-transaction", openTransaction},
	{"three-transactions-in-sequence", sequence},
	{"transaction-with-nothing-produced", nothingProduced},
	{"transaction-over-all-brokers", allBrokers},
	{"every-compression", everyCompression},
	{"second-producer-fences-the-first", fencing},
	{"next-producer-goes-on-after-the-last", takeOver},
	{"timed-out-transaction-is-aborted", timeout},
	{"transactions-v2-iff-transaction-version-is-2", protocol},
}

func idempotentProduce(l *lab) {
	at := l.newTopic("idempotent")
	producer := l.producer()
	defer producer.Close()
	for offset := int64(0); offset < 10; offset++ {
		expect("offset", offset, send(producer, at, fmt.Sprintf("value-%d", offset)))
	}
	expect("records", 10, len(l.committed(at)))
	expect("records from 7", []string{"value-7", "value-8", "value-9"}, l.read(at, kgo.ReadCommitted(), 7))
	producers := l.producersOf(at).Sorted()
	expect("producers", 1, len(producers))
	expect("last sequence", int32(9), producers[0].LastSequence)
}

func commitShows(l *lab) {
	at := l.newTopic("commit")
	producer := l.transactional(l.named("commit"))
	defer producer.Close()
	begin(producer)
	send(producer, at, "a")
	send(producer, at, "b")
	commit(producer)
	l.awaitCommitted(at, "a", "b")
	expect("read_uncommitted", []string{"a", "b"}, l.uncommitted(at))
}

func abortHides(l *lab) {
	at := l.newTopic("abort")
	producer := l.transactional(l.named("abort"))
	defer producer.Close()
	begin(producer)
	send(producer, at, "aborted")
	abort(producer)
	begin(producer)
	send(producer, at, "committed")
	commit(producer)
	l.awaitCommitted(at, "committed")
	expect("read_uncommitted", []string{"aborted", "committed"}, l.uncommitted(at))
}

func openTransaction(l *lab) {
	at := l.newTopic("open")
	plain := l.producer()
	defer plain.Close()
	producer := l.transactional(l.named("open"))
	defer producer.Close()
	send(plain, at, "before")
	begin(producer)
	send(producer, at, "open")
	send(plain, at, "after")
	expect("read_committed while open", []string{"before"}, l.committed(at))
	expect("read_uncommitted while open", []string{"before", "open", "after"}, l.uncommitted(at))
	commit(producer)
	l.awaitCommitted(at, "before", "open", "after")
}

func sequence(l *lab) {
	at := l.newTopic("sequence")
	producer := l.transactional(l.named("sequence"))
	defer producer.Close()
	for _, value := range []string{"first", "second", "third"} {
		begin(producer)
		send(producer, at, value)
		commit(producer)
	}
	l.awaitCommitted(at, "first", "second", "third")
}

func nothingProduced(l *lab) {
	at := l.newTopic("nothing")
	producer := l.transactional(l.named("nothing"))
	defer producer.Close()
	begin(producer)
	commit(producer)
	begin(producer)
	abort(producer)
	begin(producer)
	send(producer, at, "something")
	commit(producer)
	l.awaitCommitted(at, "something")
}

func allBrokers(l *lab) {
	metadata, err := l.admin.BrokerMetadata(deadline())
	ok("brokers", err)
	partitions := l.newTopics("wide", int32(2*len(metadata.Brokers)))
	leading := map[int32]bool{}
	for _, leader := range l.leaders(partitions[0].topic) {
		leading[leader] = true
	}
	expect("brokers that lead a partition", len(metadata.Brokers), len(leading))
	producer := l.transactional(l.named("wide"))
	defer producer.Close()
	begin(producer)
	for _, at := range partitions {
		send(producer, at, "aborted")
	}
	abort(producer)
	begin(producer)
	for _, at := range partitions {
		send(producer, at, "committed")
	}
	expect("partitions of the transaction", topicsSet(partitions...), l.describe(l.named("wide")).Topics)
	commit(producer)
	for _, at := range partitions {
		l.awaitCommitted(at, "committed")
		expect("read_uncommitted", []string{"aborted", "committed"}, l.uncommitted(at))
	}
}

func everyCompression(l *lab) {
	at := l.newTopic("compression")
	var sent []string
	for name, codec := range map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	} {
		value := strings.Repeat(name, 100)
		producer := l.transactional(l.named("compression-"+name), kgo.ProducerBatchCompression(codec))
		begin(producer)
		send(producer, at, value)
		commit(producer)
		producer.Close()
		sent = append(sent, value)
	}
	l.awaitCommitted(at, sent...)
}

func fencing(l *lab) {
	at := l.newTopic("fencing")
	first := l.transactional(l.named("fencing"))
	defer first.Close()
	begin(first)
	send(first, at, "of the fenced")
	second := l.transactional(l.named("fencing"))
	defer second.Close()
	expectFenced(first)
	begin(second)
	send(second, at, "of the second")
	commit(second)
	l.awaitCommitted(at, "of the second")
	expect("read_uncommitted", []string{"of the fenced", "of the second"}, l.uncommitted(at))
}

func takeOver(l *lab) {
	at := l.newTopic("take-over")
	for _, value := range []string{"of the last", "of the next"} {
		producer := l.transactional(l.named("take-over"))
		begin(producer)
		send(producer, at, value)
		commit(producer)
		producer.Close()
	}
	l.awaitCommitted(at, "of the last", "of the next")
}

func timeout(l *lab) {
	at := l.newTopic("timeout")
	id := l.named("timeout")
	limit := 3 * time.Second
	producer := l.transactional(id, kgo.TransactionTimeout(limit))
	defer producer.Close()
	begun := time.Now()
	begin(producer)
	send(producer, at, "too slow")
	early := l.describe(id).State
	due := time.Since(begun) >= limit // on a slow machine it may be by now
	expect("is open before the timeout", true, early == "Ongoing" || due)
	await("the coordinator aborts", limit+l.abortInterval+patience, func() bool {
		return l.describe(id).State == "CompleteAbort"
	})
	err := producer.EndTransaction(deadline(), kgo.TryCommit)
	// The coordinator aborts with a raised epoch. In the old flow that fences this producer. Under transactions v2 a
	// commit with the epoch before it is an answer to a transaction that is no longer there.
	if l.transactionVersion >= 2 {
		expectError("commit after the timeout", err, kerr.InvalidTxnState)
	} else {
		expectError("commit after the timeout", err, kerr.ProducerFenced)
	}
	expect("read_committed", []string{}, l.committed(at))
	expect("read_uncommitted", []string{"too slow"}, l.uncommitted(at))
}

// Transactions v2 raise the producer's epoch with every transaction, the old flow does not (KIP-890).
func protocol(l *lab) {
	at := l.newTopic("protocol")
	id := l.named("protocol")
	producer := l.transactional(id)
	defer producer.Close()
	first := l.describe(id).ProducerEpoch
	var epochs []int16
	for round := 0; round < 3; round++ {
		begin(producer)
		send(producer, at, fmt.Sprintf("round-%d", round))
		epochs = append(epochs, l.producersOf(at).Sorted()[0].ProducerEpoch) // the epoch that the records carry
		commit(producer)
	}
	step := int16(0)
	if l.transactionVersion >= 2 {
		step = 1
	}
	expect("epochs of three transactions", []int16{first, first + step, first + 2*step}, epochs)
}

func (l *lab) awaitCommitted(at partition, values ...string) {
	var found []string
	defer func() {
		if reason := recover(); reason != nil {
			panic(failure(fmt.Sprintf("read_committed: expected %v, found %v (%v)", values, found, reason)))
		}
	}()
	await("read_committed sees the records", patience, func() bool {
		found = l.committed(at)
		return fmt.Sprint(found) == fmt.Sprint(values)
	})
}

func expectFenced(producer *kgo.Client) {
	expectError("commit of the fenced", producer.EndTransaction(deadline(), kgo.TryCommit), kerr.ProducerFenced)
}

func expectError(what string, found, expected error) {
	if !errors.Is(found, expected) {
		panic(failure(fmt.Sprintf("%s: expected %v, found %v", what, expected, found)))
	}
}
