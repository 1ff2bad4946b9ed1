package bench

import (
	"fmt"
	"strings"
	"time"
)

// checks of the matrix, in its order.
var checks = []Check{
	{"produce", produce},
	{"idempotent", idempotent},
	{"commit", commit},
	{"abort", abort},
	{"read-committed", readCommitted},
	{"fence", fence},
	{"timeout", timeout},
	{"transform", transform},
	{"rebalance", rebalance},
	{"admin", admin},
	{"sasl", sasl},
	{"tls", tls},
}

func produce(b *Bench) {
	for _, compression := range b.Library.Compressions() {
		at := b.NewTopic("produce-"+compression, 1)[0]
		producer := b.Producer(ProducerOptions{Compression: compression})
		var sent []Record
		start := time.Now().UnixMilli()
		for n := range 20 {
			sent = append(sent, Record{
				Topic:       at.Topic,
				Partition:   at.Index,
				Offset:      int64(n),
				Key:         fmt.Sprintf("key-%d", n),
				Value:       strings.Repeat(fmt.Sprintf("%s-%d ", compression, n), 50),
				Headers:     []Header{{"number", fmt.Sprint(n)}, {"empty", ""}, {"number", "again"}},
				TimestampMs: start - 1000 + int64(n),
			})
		}
		for first := 0; first < len(sent); first += 5 {
			offsets, err := producer.Send(sent[first : first+5]...)
			OK("send with "+compression, err)
			for n, offset := range offsets {
				Expect("offset of "+compression, int64(first+n), offset)
			}
		}
		producer.Close()
		found := b.Records(at, ReadCommitted)
		Expect("records of "+compression, len(sent), len(found))
		for n, record := range found {
			Expect("record of "+compression, sent[n], record)
		}
	}
}

func idempotent(b *Bench) {
	partitions := b.WideTopic("idempotent")
	producer := b.Producer(ProducerOptions{Idempotent: true})
	defer producer.Close()
	expected := map[Partition][]string{}
	for batch := range 4 {
		var records []Record
		for n := range 5 {
			for _, to := range partitions {
				value := fmt.Sprintf("%d-%d-%d", to.Index, batch, n)
				expected[to] = append(expected[to], value)
				records = append(records, Record{Topic: to.Topic, Partition: to.Index, Value: value})
			}
		}
		offsets, err := producer.Send(records...)
		OK("send", err)
		for n, offset := range offsets {
			Expect("offset", int64(5*batch+n/len(partitions)), offset)
		}
	}
	for _, from := range partitions {
		b.ExpectValues(from, ReadCommitted, expected[from]...)
	}
}

func commit(b *Bench) {
	partitions := b.WideTopic("commit")
	producer := b.Transactional("commit")
	defer producer.Close()
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "first")
	}
	for _, from := range partitions {
		b.ExpectValues(from, ReadCommitted)
		b.ExpectValues(from, ReadUncommitted, "first")
	}
	Commit(producer)
	for _, from := range partitions {
		b.AwaitCommitted(from, "first")
	}
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "second", "and more")
	}
	Commit(producer)
	for _, from := range partitions {
		b.AwaitCommitted(from, "first", "second", "and more")
	}
}

func abort(b *Bench) {
	partitions := b.WideTopic("abort")
	producer := b.Transactional("abort")
	defer producer.Close()
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "aborted", "aborted too")
	}
	Abort(producer)
	for _, from := range partitions {
		b.AwaitCommitted(from)
		b.ExpectValues(from, ReadUncommitted, "aborted", "aborted too")
	}
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "committed")
	}
	Commit(producer)
	for _, from := range partitions {
		b.AwaitCommitted(from, "committed")
		b.ExpectValues(from, ReadUncommitted, "aborted", "aborted too", "committed")
	}
}

func readCommitted(b *Bench) {
	at := b.NewTopic("read-committed", 1)[0]
	plain := b.Producer(ProducerOptions{})
	defer plain.Close()
	first := b.Transactional("read-committed-1")
	defer first.Close()
	second := b.Transactional("read-committed-2")
	defer second.Close()
	Send(plain, at, "before")
	Begin(first)
	opened := Send(first, at, "of the first")
	Begin(second)
	Send(second, at, "of the second")
	Send(plain, at, "plain")
	Commit(second)
	Expect("last stable offset while the first is open", opened, Must(b.Admin.End(at, ReadCommitted)))
	b.ExpectValues(at, ReadCommitted, "before")
	b.ExpectValues(at, ReadUncommitted, "before", "of the first", "of the second", "plain")
	Commit(first)
	b.AwaitCommitted(at, "before", "of the first", "of the second", "plain")
	Begin(first)
	Send(first, at, "aborted")
	Send(plain, at, "behind it")
	Expect("records while it is open", 4, len(b.Values(at, ReadCommitted)))
	Abort(first)
	b.AwaitCommitted(at, "before", "of the first", "of the second", "plain", "behind it")
}

func fence(b *Bench) {
	at := b.NewTopic("fence", 1)[0]
	first := b.Transactional("fence")
	defer first.Close()
	Begin(first)
	Send(first, at, "of the fenced")
	second := b.Transactional("fence")
	defer second.Close()
	ExpectError("commit of the fenced", first.Commit(), b.Library.Fenced)
	b.AwaitCommitted(at)
	Begin(second)
	Send(second, at, "of the second")
	Commit(second)
	b.AwaitCommitted(at, "of the second")
	b.ExpectValues(at, ReadUncommitted, "of the fenced", "of the second")
}

func timeout(b *Bench) {
	at := b.NewTopic("timeout", 1)[0]
	options := ProducerOptions{TransactionalID: b.Named("timeout"), TransactionTimeout: 3 * time.Second}
	producer := b.Producer(options)
	defer producer.Close()
	Begin(producer)
	Send(producer, at, "too slow")
	b.ExpectValues(at, ReadCommitted)
	b.AwaitEnded(at) // nobody but the cluster has ended it
	b.ExpectValues(at, ReadCommitted)
	ExpectError("commit after the timeout", producer.Commit(), func(err error) bool {
		return b.Library.TimedOut(err, b.TransactionVersion)
	})
	next := b.Transactional("timeout")
	defer next.Close()
	Begin(next)
	Send(next, at, "of the next")
	Commit(next)
	b.AwaitCommitted(at, "of the next")
	b.ExpectValues(at, ReadUncommitted, "too slow", "of the next")
}
