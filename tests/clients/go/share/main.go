// A member of a share group that accepts all it gets, until its input ends.
//
//	share BOOTSTRAP GROUP TOPIC
//
// It prints a line for what it sees: "got PARTITION OFFSET COUNT", "acked PARTITION OFFSET" once a broker has said so, "failed
// PARTITION ERROR", "error TEXT"; each with nanoseconds of the wall clock in front.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var mutex sync.Mutex

func say(format string, values ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Printf("%d %s\n", time.Now().UnixNano(), fmt.Sprintf(format, values...))
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: share BOOTSTRAP GROUP TOPIC")
		os.Exit(2)
	}
	var results sync.Mutex
	failed := map[int32]error{}
	answered := map[int32]bool{}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ClientID("go"),
		kgo.ShareGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, all kgo.ShareAckResults) {
			results.Lock()
			defer results.Unlock()
			for _, each := range all {
				answered[each.Partition] = true
				if each.Err != nil {
					failed[each.Partition] = each.Err
				}
			}
		}),
	)
	if err != nil {
		panic(err)
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		close(over)
	}()
	for {
		select {
		case <-over:
			client.Close()
			return
		default:
		}
		wait, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		fetches := client.PollFetches(wait)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if err != context.DeadlineExceeded {
				say("error %v", err)
			}
		})
		var taken []*kgo.Record
		fetches.EachRecord(func(record *kgo.Record) {
			say("got %d %d %d", record.Partition, record.Offset, record.DeliveryCount())
			taken = append(taken, record)
		})
		if len(taken) == 0 {
			continue
		}
		results.Lock()
		clear(failed)
		clear(answered)
		results.Unlock()
		time.Sleep(100 * time.Millisecond) // its work: kills meet records that are held
		client.MarkAcks(kgo.AckAccept, taken...)
		flush, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		err := client.FlushAcks(flush)
		cancel()
		results.Lock()
		for partition, failure := range failed {
			say("failed %d %v", partition, failure)
		}
		for _, record := range taken {
			if err == nil && answered[record.Partition] && failed[record.Partition] == nil {
				say("acked %d %d", record.Partition, record.Offset)
			}
		}
		results.Unlock()
	}
}
