package main

import (
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What an operator sees and does.
var adminChecks = []check{
	{"admin-describe-features", features},
	{"admin-create-topic", createTopic},
	{"admin-describe-transactions", describeTransactions},
	{"admin-list-transactions", listTransactions},
	{"admin-describe-producers", describeProducers},
	{"admin-abort-transaction", abortTransaction},
	{"admin-fence-producers", fenceProducers},
}

func features(l *lab) {
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(deadline(), l.client)
	ok("ApiVersions", err)
	level := 0 // level 0 may be left out
	for _, feature := range answer.FinalizedFeatures {
		if feature.Name == "transaction.version" {
			level = int(feature.MaxVersionLevel)
		}
	}
	expect("finalized transaction.version", l.transactionVersion, level)
}

func createTopic(l *lab) {
	topic := l.newTopics("created", 3)[0].topic
	await("it is listed", patience, func() bool {
		listed, err := l.admin.ListTopics(deadline())
		ok("list topics", err)
		return listed.Has(topic)
	})
	_, err := l.admin.CreateTopic(deadline(), 3, 1, nil, topic)
	expectError("creating it again", err, kerr.TopicAlreadyExists)
}

func describeTransactions(l *lab) {
	at := l.newTopic("described")
	id := l.named("described")
	unknown, err := l.admin.DescribeTransactions(deadline(), id)
	ok("describe", err)
	expectError("an unknown id", unknown[id].Err, kerr.TransactionalIDNotFound)
	producer := l.transactional(id, kgo.TransactionTimeout(45*time.Second))
	defer producer.Close()
	expect("after InitProducerId", "Empty", l.describe(id).State)
	begin(producer)
	send(producer, at, "open")
	open := l.describe(id)
	expect("state", "Ongoing", open.State)
	expect("partitions", topicsSet(at), open.Topics)
	expect("timeout", int32(45_000), open.TimeoutMillis)
	age := time.Since(time.UnixMilli(open.StartTimestamp))
	expect("started just now", true, age.Abs() < patience)
	commit(producer)
	await("CompleteCommit", patience, func() bool { return l.describe(id).State == "CompleteCommit" })
	expect("partitions afterwards", 0, len(l.describe(id).Topics))
	begin(producer)
	send(producer, at, "again")
	abort(producer)
	await("CompleteAbort", patience, func() bool { return l.describe(id).State == "CompleteAbort" })
}

func listTransactions(l *lab) {
	at := l.newTopic("listed")
	id := l.named("listed")
	producer := l.transactional(id)
	defer producer.Close()
	begin(producer)
	send(producer, at, "open")
	list := func(producerIDs []int64, states []string, pattern string) kadm.ListedTransactions {
		listed, err := l.admin.ListTransactionsByTxPattern(deadline(), producerIDs, states, pattern)
		ok("list transactions", err)
		return listed
	}
	expect("no filter", "Ongoing", list(nil, nil, "")[id].State)
	expect("state Ongoing", "Ongoing", list(nil, []string{"Ongoing"}, "")[id].State)
	expect("state Empty", "", list(nil, []string{"Empty"}, "")[id].State)
	expect("this producer id", 1, len(list([]int64{l.describe(id).ProducerID}, nil, "")))
	expect("another producer id", 0, len(list([]int64{987_654_321}, nil, "")))
	expect("pattern", 1, len(list(nil, nil, strings.ReplaceAll(id, "-", "."))))
	expect("no match", 0, len(list(nil, nil, "nobody-.*")))
	abort(producer)
}

func describeProducers(l *lab) {
	at := l.newTopic("producers")
	id := l.named("producers")
	producer := l.transactional(id)
	defer producer.Close()
	begin(producer)
	offset := send(producer, at, "one")
	send(producer, at, "two")
	transaction := l.describe(id)
	state := l.producersOf(at)[transaction.ProducerID]
	expect("producer epoch", transaction.ProducerEpoch, state.ProducerEpoch)
	expect("last sequence", int32(1), state.LastSequence)
	expect("open since", offset, state.CurrentTxnStartOffset)
	commit(producer)
	await("closed", patience, func() bool {
		return l.producersOf(at)[transaction.ProducerID].CurrentTxnStartOffset < 0
	})
	expect("coordinator epoch known", true, l.producersOf(at)[transaction.ProducerID].CoordinatorEpoch >= 0)
}

// WriteTxnMarkers to the leader alone: the partition goes on, the coordinator is not told (KIP-664).
func abortTransaction(l *lab) {
	at := l.newTopic("admin-abort")
	id := l.named("admin-abort")
	producer := l.transactional(id)
	defer producer.Close()
	plain := l.producer()
	defer plain.Close()
	begin(producer)
	send(producer, at, "open")
	send(plain, at, "behind it")
	expect("read_committed while open", []string{}, l.committed(at))
	open := l.producersOf(at)[l.describe(id).ProducerID]
	written, err := l.admin.WriteTxnMarkers(deadline(), kadm.TxnMarkers{
		ProducerID:       open.ProducerID,
		ProducerEpoch:    open.ProducerEpoch,
		Commit:           false,
		CoordinatorEpoch: max(open.CoordinatorEpoch, 0),
		Topics:           topicsSet(at),
	})
	ok("write the marker", err)
	expect("partitions marked", 1, len(written.SortedPartitions()))
	for _, marked := range written.SortedPartitions() {
		ok("write the marker", marked.Err)
	}
	expect("read_committed afterwards", []string{"behind it"}, l.committed(at))
	expect("the coordinator's state", "Ongoing", l.describe(id).State)
	abort(producer)
}

// InitProducerId without an expected identity, as Kafka's Admin.fenceProducers sends it.
func fenceProducers(l *lab) {
	at := l.newTopic("fenced")
	id := l.named("fenced")
	producer := l.transactional(id)
	defer producer.Close()
	begin(producer)
	send(producer, at, "of the fenced")
	await("the fence is up", patience, func() bool {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionalID = &id
		request.TransactionTimeoutMillis = 30_000
		request.ProducerID = -1
		request.ProducerEpoch = -1
		answer, err := request.RequestWith(deadline(), l.client)
		ok("InitProducerId", err)
		err = kerr.ErrorForCode(answer.ErrorCode)
		if errors.Is(err, kerr.ConcurrentTransactions) { // the open transaction is being aborted first
			return false
		}
		ok("InitProducerId", err)
		return true
	})
	expect("state", "Empty", l.describe(id).State)
	expectFenced(producer)
	expect("read_committed", []string{}, l.committed(at))
}
