package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// soak runs transactions until standard input ends, whatever happens to the brokers: tests/soak says what its lines mean.
func soak(args []string) int {
	if len(args) != 5 {
		usage()
	}
	var partitions, producers int
	var perSecond float64
	if _, err := fmt.Sscan(strings.Join(args[2:], " "), &partitions, &producers, &perSecond); err != nil {
		usage()
	}
	s := &soaking{seeds: strings.Split(args[0], ","), topic: args[1], partitions: partitions}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	s.pace = ticker.C
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.stopped.Store(true)
	}()
	var running sync.WaitGroup
	for i := range producers {
		running.Add(1)
		go func() {
			defer running.Done()
			s.produce(fmt.Sprintf("franz-go-%d", i))
		}()
	}
	running.Wait()
	return 0
}

type soaking struct {
	seeds      []string
	topic      string
	partitions int
	pace       <-chan time.Time
	stopped    atomic.Bool
	output     sync.Mutex
}

const soakPatience = 60 * time.Second

func (s *soaking) produce(name string) {
	for number := 0; !s.stopped.Load(); {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(s.seeds...),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.TransactionalID("soak-"+name),
			kgo.TransactionTimeout(soakPatience),
		)
		if err != nil {
			panic(err)
		}
		for err == nil && !s.stopped.Load() {
			<-s.pace
			err = s.transaction(client, name, number)
			number++
		}
		client.CloseAllowingRebalance()
	}
}

// transaction writes two records; an error says that the producer is to be made again.
func (s *soaking) transaction(client *kgo.Client, name string, number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), soakPatience)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		s.told(name, number, 'a')
		return err
	}
	var produced kgo.FirstErrPromise // Flush does not say that a record failed
	for which := range 2 {
		client.Produce(ctx, &kgo.Record{
			Topic:     s.topic,
			Partition: int32((number + which*5) % s.partitions),
			Value:     fmt.Appendf(nil, "%s/%d/%d", name, number, which),
		}, produced.Promise())
	}
	flushed := client.Flush(ctx)
	if flushed == nil {
		flushed = produced.Err()
	}
	if flushed != nil || number%10 == 9 {
		s.told(name, number, 'a')
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
			return err
		}
		return flushed
	}
	err := client.EndTransaction(ctx, kgo.TryCommit)
	if err != nil {
		s.told(name, number, 'u')
		return err
	}
	s.told(name, number, 'c')
	return nil
}

func (s *soaking) told(name string, number int, outcome rune) {
	s.output.Lock()
	defer s.output.Unlock()
	fmt.Printf("%s %d %c 2\n", name, number, outcome)
}
