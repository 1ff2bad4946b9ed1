package bench

import (
	"fmt"
	"slices"
)

// Topics

// NewTopic makes a topic and waits until every partition has a leader.
func (b *Bench) NewTopic(stem string, partitions int32) []Partition {
	topic := b.Named(stem)
	OK("create "+topic, b.Admin.CreateTopic(topic, partitions))
	Await("every partition of "+topic+" has a leader", func() bool {
		return len(Must(b.Admin.Leaders(topic))) == int(partitions)
	})
	var all []Partition
	for index := range partitions {
		all = append(all, Partition{topic, index})
	}
	return all
}

// WideTopic has two partitions on every broker.
func (b *Bench) WideTopic(stem string) []Partition {
	brokers := Must(b.Admin.Brokers())
	partitions := b.NewTopic(stem, int32(2*brokers))
	leading := map[int32]bool{}
	for _, leader := range Must(b.Admin.Leaders(partitions[0].Topic)) {
		leading[leader] = true
	}
	Expect("brokers that lead a partition", brokers, len(leading))
	return partitions
}

// Producing

// Producer of the plain cluster.
func (b *Bench) Producer(options ProducerOptions) Producer {
	producer, err := b.Library.NewProducer(b.Cluster, options)
	OK("new producer", err)
	return producer
}

// Transactional producer of this run, already initialised.
func (b *Bench) Transactional(stem string) Producer {
	return b.Producer(ProducerOptions{TransactionalID: b.Named(stem)})
}

// Send values to one partition, and return the offset of the first.
func Send(producer Producer, to Partition, values ...string) int64 {
	var records []Record
	for _, value := range values {
		records = append(records, Record{Topic: to.Topic, Partition: to.Index, Value: value})
	}
	offsets, err := producer.Send(records...)
	OK(fmt.Sprintf("send %v", values), err)
	return offsets[0]
}

// Begin, Commit, Abort end the check on an error.
func Begin(producer Producer) { OK("begin", producer.Begin()) }

// Commit must succeed.
func Commit(producer Producer) { OK("commit", producer.Commit()) }

// Abort must succeed.
func Abort(producer Producer) { OK("abort", producer.Abort()) }

// Reading

// Records of a partition.
func (b *Bench) Records(of Partition, isolation Isolation) []Record {
	records, err := b.Library.Read(b.Cluster, of, isolation)
	OK(fmt.Sprintf("read %v", of), err)
	return records
}

// Values of a partition.
func (b *Bench) Values(of Partition, isolation Isolation) []string {
	values := []string{}
	for _, record := range b.Records(of, isolation) {
		values = append(values, record.Value)
	}
	return values
}

// ExpectValues says what a partition must hold now.
func (b *Bench) ExpectValues(of Partition, isolation Isolation, values ...string) {
	what := map[Isolation]string{ReadCommitted: "read_committed", ReadUncommitted: "read_uncommitted"}[isolation]
	if found := b.Values(of, isolation); !slices.Equal(values, found) {
		Fail("%s of %v: expected %v, found %v", what, of, values, found)
	}
}

// AwaitCommitted waits until every transaction of the partition has ended, then says what it must hold.
//
// The answer to a commit comes before its markers are written.
func (b *Bench) AwaitCommitted(of Partition, values ...string) {
	b.AwaitEnded(of)
	b.ExpectValues(of, ReadCommitted, values...)
}

// AwaitEnded waits until no transaction is open on the partition.
func (b *Bench) AwaitEnded(of Partition) {
	Await(fmt.Sprintf("no transaction is open on %v", of), func() bool {
		stable := Must(b.Admin.End(of, ReadCommitted))
		return stable == Must(b.Admin.End(of, ReadUncommitted))
	})
}
