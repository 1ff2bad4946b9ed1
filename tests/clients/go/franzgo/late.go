package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"txnsim.test/clientcheck/bench"
)

// givenUpAfter is how long after its Produce request went out the application waits for its record.
const givenUpAfter = 150 * time.Millisecond

// produceWritten is a hook of franz-go that tells when a Produce request is on the wire.
type produceWritten chan struct{}

func (w produceWritten) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == kmsg.Produce.Int16() && err == nil {
		select {
		case w <- struct{}{}:
		default: // an attempt after the first
		}
	}
}

// seen is one line about what the application saw.
type seen struct {
	Client string `json:"client"`
	Event  string `json:"event"`
	Offset *int64 `json:"offset,omitempty"`
	Error  string `json:"error,omitempty"`
}

// lateProduce is the producer of the story in which a Produce request arrives after the abort: one record in a
// transaction, given up on, then an abort. Nothing is sent to that partition afterwards: a later transaction of this
// producer would adopt the late record.
//
// franz-go does not fail a record whose request is on its way, because it can't know its fate; an application that must not
// wait gives up with UnsafeAbortBufferedRecords. Exit status 0 iff the record was not acknowledged and the abort succeeded.
func lateProduce(args []string) int {
	if len(args) != 5 {
		usage()
	}
	index, err := strconv.ParseInt(args[3], 10, 32)
	if err != nil {
		usage()
	}
	timestampMs, err := strconv.ParseInt(args[4], 10, 64)
	if err != nil {
		usage()
	}
	l := newLab(bench.Addresses(args[0]), "", -1, 0)
	defer l.close()
	written := make(produceWritten, 1)
	producer := l.transactional(args[1], kgo.WithHooks(written), kgo.ProduceRequestTimeout(100*time.Millisecond))
	defer producer.Close()
	say(seen{Event: "initialized"})
	begin(producer)
	record := &kgo.Record{
		Topic:     args[2],
		Partition: int32(index),
		Timestamp: time.UnixMilli(timestampMs),
		Value:     []byte("late"),
	}
	acknowledged := produceInVain(producer, record, written)
	if err := producer.EndTransaction(deadline(), kgo.TryAbort); err != nil {
		say(seen{Event: "abort-failed", Error: err.Error()})
		return 1
	}
	say(seen{Event: "aborted"})
	if acknowledged {
		return 1
	}
	return 0
}

func produceInVain(producer *kgo.Client, record *kgo.Record, written produceWritten) (acknowledged bool) {
	done := make(chan error, 1)
	producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) { done <- err })
	var err error
	select {
	case err = <-done:
	case <-written:
		select {
		case err = <-done:
		case <-time.After(givenUpAfter):
			producer.UnsafeAbortBufferedRecords()
			err = <-done
		}
	}
	if err == nil {
		say(seen{Event: "produced", Offset: &record.Offset})
		return true
	}
	say(seen{Event: "produce-failed", Error: err.Error()})
	return false
}

func say(line seen) {
	line.Client = "franz-go"
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}
