package bench

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

func transform(b *Bench) { TransformWith(b, Classic, "transform") }

func rebalance(b *Bench) { RebalanceWith(b, Classic, "rebalance") }

// TransformWith is consume–transform–produce by one member: several transactions, one of them aborted and done again.
func TransformWith(b *Bench, protocol Protocol, stem string) {
	const records, each = 18, 5
	input, output := b.NewTopic(stem+"-in", 3), b.NewTopic(stem+"-out", 3)
	b.fill(input, 0, records)
	worker := b.worker(protocol, stem, "1", input)
	defer worker.Close()
	forwarded, transactions, aborted := 0, 0, 0
	for forwarded < records {
		polled := pollSome(worker, each)
		OK("forward", worker.Forward(forwards(output, polled, "1")...))
		transactions++
		if transactions == 2 {
			before := Must(b.Admin.Positions(b.Named(stem), input[0].Topic))
			OK("abort", worker.Abort())
			b.awaitEnded(output)
			Expect("positions after an abort", before, Must(b.Admin.Positions(b.Named(stem), input[0].Topic)))
			aborted += len(polled)
			continue
		}
		OK("commit", worker.Commit())
		forwarded += len(polled)
		b.awaitPositions(stem, input[0].Topic, forwarded)
	}
	if transactions < 4 {
		Fail("only %d transactions", transactions)
	}
	b.expectOnce(output, records)
	all := 0
	for _, from := range output {
		all += len(b.Values(from, ReadUncommitted))
	}
	Expect("records, aborted ones included", records+aborted, all)
}

// RebalanceWith has a second member join in the middle of the first one's transaction.
func RebalanceWith(b *Bench, protocol Protocol, stem string) {
	const portion = 30
	input, output := b.NewTopic(stem+"-in", 6), b.NewTopic(stem+"-out", 3)
	b.fill(input, 0, portion)
	first := b.worker(protocol, stem, "1", input)
	defer first.Close()
	polled := pollSome(first, 10)
	OK("forward", first.Forward(forwards(output, polled, "1")...))

	second := b.worker(protocol, stem, "2", input)
	defer second.Close()
	team := &team{output: output, lost: b.Library.LostMembership}
	crew := sync.WaitGroup{}
	crew.Go(func() { team.work("2", func() { team.run(second, "2") }) })
	Await("the second member has joined", func() bool {
		return team.failed() || Must(b.Admin.Members(b.Named(stem), protocol)) == 2
	})
	crew.Go(func() {
		team.work("1", func() {
			team.finish(first, len(polled), "1")
			team.run(first, "1")
		})
	})
	filled := portion
	team.work("inputs", func() {
		Await("both members forward, and everything is forwarded", func() bool {
			if team.failed() {
				return true
			}
			if forwarded := int(team.forwarded("1") + team.forwarded("2")); forwarded < filled {
				return false
			}
			if team.forwarded("2") > 0 {
				return true
			}
			b.fill(input, filled, filled+portion) // the second member does not own anything yet
			filled += portion
			return false
		})
	})
	team.over.Store(true)
	crew.Wait()
	if failure := team.failure.Load(); failure != nil {
		panic(*failure)
	}
	b.expectOnce(output, filled)
	b.awaitPositions(stem, input[0].Topic, filled)
}

// team is what members that work at the same time know of each other.
type team struct {
	output  []Partition
	lost    func(error) bool
	counts  sync.Map // name → records whose forwarding was committed, *atomic.Int64
	over    atomic.Bool
	failure atomic.Pointer[Failure]
}

func (t *team) failed() bool { return t.failure.Load() != nil }

func (t *team) forwarded(name string) int64 { return t.count(name).Load() }

func (t *team) count(name string) *atomic.Int64 {
	count, _ := t.counts.LoadOrStore(name, &atomic.Int64{})
	return count.(*atomic.Int64)
}

// work keeps the first failure for the goroutine of the check.
func (t *team) work(name string, run func()) {
	if reason := reasonToFail(run); reason != "" {
		failure := Failure(name + ": " + reason)
		t.failure.CompareAndSwap(nil, &failure)
	}
}

func (t *team) run(worker Worker, name string) {
	for !t.over.Load() && !t.failed() {
		polled, err := worker.Poll(5)
		OK("poll", err)
		if len(polled) > 0 {
			OK("forward", worker.Forward(forwards(t.output, polled, name)...))
			t.finish(worker, len(polled), name)
		}
	}
}

// finish commits; if the group has gone on without this member it aborts, and the records come again to whoever owns them.
func (t *team) finish(worker Worker, records int, name string) {
	err := worker.Commit()
	if err == nil {
		t.count(name).Add(int64(records))
		return
	}
	if !t.lost(err) {
		Fail("commit: %v (%T)", err, err)
	}
	OK("abort after a refused commit", worker.Abort())
}

// Parts

func (b *Bench) worker(protocol Protocol, stem, name string, input []Partition) Worker {
	worker, err := b.Library.NewWorker(b.Cluster, WorkerOptions{
		Group:           b.Named(stem),
		TransactionalID: b.Named(stem + "-" + name),
		Input:           input[0].Topic,
		Protocol:        protocol,
	})
	OK("new member "+name, err)
	return worker
}

// fill writes the inputs with numbers from first up to last, spread over all partitions.
func (b *Bench) fill(input []Partition, first, last int) {
	producer := b.Producer(ProducerOptions{Idempotent: true})
	defer producer.Close()
	for number := first; number < last; number++ {
		Send(producer, input[number%len(input)], fmt.Sprintf("input-%d", number))
	}
}

func forwards(output []Partition, inputs []Record, name string) []Record {
	var records []Record
	for _, input := range inputs {
		to := output[int(input.Partition)%len(output)]
		records = append(records, Record{Topic: to.Topic, Partition: to.Index, Key: name, Value: "of " + input.Value})
	}
	return records
}

func pollSome(worker Worker, max int) (polled []Record) {
	Await("there is something to forward", func() bool {
		records, err := worker.Poll(max)
		OK("poll", err)
		polled = records
		return len(records) > 0
	})
	return polled
}

func (b *Bench) awaitEnded(partitions []Partition) {
	for _, of := range partitions {
		b.AwaitEnded(of)
	}
}

func (b *Bench) awaitPositions(stem, topic string, total int) {
	Await(fmt.Sprintf("the group has committed %d records", total), func() bool {
		sum := int64(0)
		for _, position := range Must(b.Admin.Positions(b.Named(stem), topic)) {
			sum += position
		}
		if sum > int64(total) {
			Fail("positions committed: expected %d in all, found %d", total, sum)
		}
		return sum == int64(total)
	})
}

// expectOnce says that each input has led to exactly one output.
func (b *Bench) expectOnce(output []Partition, inputs int) {
	b.awaitEnded(output)
	count := map[string]int{}
	for _, from := range output {
		for _, value := range b.Values(from, ReadCommitted) {
			count[value]++
		}
	}
	for number := range inputs {
		value := fmt.Sprintf("of input-%d", number)
		Expect("outputs "+value, 1, count[value])
		delete(count, value)
	}
	Expect("other outputs", []string(nil), slices.Collect(maps.Keys(count)))
}
