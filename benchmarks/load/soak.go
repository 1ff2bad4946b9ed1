package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// soakOptions are those of mode soak.
type soakOptions struct {
	bootstrap  string
	topic      string
	partitions int
	producers  int
	perSecond  float64 // of all producers together
	flow       flow
}

// soakResult is what the last line says.
type soakResult struct {
	Mode      string           `json:"mode"`
	Sessions  int64            `json:"sessions"`
	Committed int64            `json:"committed"`
	Retries   map[string]int64 `json:"retries"`
}

// soaker runs transactions until its standard input ends, whatever happens to the brokers.
//
// Each transaction is one line on standard output: producer, number, outcome, records. The outcome
// is c (the commit was acknowledged), a (it was never asked to commit) or u (a commit was asked for, and no
// answer says what became of it). A record's value is "producer/number/which".
type soaker struct {
	options soakOptions
	lines   chan string
	stopped atomic.Bool
	pace    <-chan time.Time
	counted *retries
	result  soakResult
}

const (
	soakAbortEvery = 10 // each so manieth transaction is aborted
	soakWideEvery  = 4  // each so manieth writes to two partitions
	soakPause      = 50 * time.Millisecond
)

func runSoak(o soakOptions) (any, error) {
	if o.topic == "" || o.perSecond <= 0 {
		return nil, fmt.Errorf("soak needs --topic and --rate")
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / o.perSecond))
	defer ticker.Stop()
	s := &soaker{options: o, lines: make(chan string, 4096), pace: ticker.C, counted: newRetries()}
	written := make(chan struct{})
	go s.write(written)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.stopped.Store(true)
	}()
	var running sync.WaitGroup
	for i := range o.producers {
		running.Add(1)
		go func() {
			defer running.Done()
			s.produce(fmt.Sprintf("raw-%s-%d", o.flow, i))
		}()
	}
	running.Wait()
	close(s.lines)
	<-written
	s.result.Mode, s.result.Retries = "soak", s.counted.snapshot()
	return s.result, nil
}

func (s *soaker) write(done chan<- struct{}) {
	defer close(done)
	out := bufio.NewWriter(os.Stdout)
	for line := range s.lines {
		_, _ = out.WriteString(line)
		if len(s.lines) == 0 {
			_ = out.Flush()
		}
	}
	_ = out.Flush()
}

// produce goes from session to session: whatever a session can't deal with ends it.
func (s *soaker) produce(name string) {
	number := 0
	addresses := strings.Split(s.options.bootstrap, ",")
	for turn := 0; !s.stopped.Load(); turn++ {
		one, err := s.open(name, addresses[turn%len(addresses)])
		if err == nil {
			atomic.AddInt64(&s.result.Sessions, 1)
			for err == nil && !s.stopped.Load() {
				<-s.pace
				err = s.transaction(one, name, number)
				number++
			}
			one.close()
			one.cluster.control.close()
		}
		if err != nil {
			s.counted.add(strings.SplitN(err.Error(), ":", 2)[0], -1)
			time.Sleep(soakPause)
		}
	}
}

func (s *soaker) open(name, address string) (*session, error) {
	c, err := openCluster(address, s.options.topic, int32(s.options.partitions), true)
	if err != nil {
		return nil, err
	}
	one := newSession(c, newProducer(s.options.flow, "soak-"+name, s.options.topic, s.options.partitions), s.counted)
	if err := one.init(); err != nil {
		one.close()
		c.control.close()
		return nil, err
	}
	return one, nil
}

func (s *soaker) transaction(one *session, name string, number int) error {
	records, commit := 1, number%soakAbortEvery != soakAbortEvery-1
	if number%soakWideEvery == 0 {
		records = 2
	}
	for which := range records {
		if err := s.send(one, fmt.Sprintf("%s/%d/%d", name, number, which)); err != nil {
			s.told(name, number, 'a', records) // it was never asked to commit, and will not be
			return err
		}
	}
	coordinator, err := one.to(one.coordinator)
	if err != nil {
		s.told(name, number, 'a', records)
		return err
	}
	one.endRequest.Commit = commit
	ended, check := one.ended()
	err = one.step("EndTxn", steady, coordinator, one.endTxn(), ended, check)
	switch {
	case !commit:
		s.told(name, number, 'a', records)
	case err != nil:
		s.told(name, number, 'u', records)
	default:
		atomic.AddInt64(&s.result.Committed, 1)
		s.told(name, number, 'c', records)
	}
	return err
}

func (s *soaker) send(one *session, value string) error {
	one.nextPartition()
	leader, err := one.to(one.cluster.leaders[one.partition])
	if err != nil {
		return err
	}
	if one.flow == flowOld {
		coordinator, err := one.to(one.coordinator)
		if err != nil {
			return err
		}
		response, check := one.added()
		if err := one.step("AddPartitionsToTxn", steady, coordinator, one.addPartition(), response, check); err != nil {
			return err
		}
	}
	one.batch = valueBatch([]byte(value), time.Now().UnixMilli())
	one.produceRequest.Topics[0].Partitions[0].Records = one.batch
	response, check := one.produced()
	return one.step("Produce", steady, leader, one.produce(), response, check)
}

func (s *soaker) told(name string, number int, outcome rune, records int) {
	s.lines <- fmt.Sprintf("%s %d %c %d\n", name, number, outcome, records)
}

// valueBatch encodes a transactional batch of one record.
func valueBatch(value []byte, timestampMs int64) []byte {
	record := kmsg.Record{Value: value}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	return encodeBatch(record.AppendTo(nil), 1, timestampMs, true)
}
