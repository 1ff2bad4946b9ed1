package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "txnsim.test/exam/contract"
)

var (
	sharers          = map[string]*sharer{}
	acknowledgements = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew}
)

// sharer is a member of a share group; the library tells what became of acknowledgements by a callback.
type sharer struct {
	sync.Mutex
	polled []*kgo.Record
	failed map[int32]string
}

func shareSubscribe(c Command) (Answer, error) {
	member := &sharer{failed: map[int32]string{}}
	client, err := kgo.NewClient(append(options(c),
		kgo.ShareGroup(c.Group),
		kgo.ConsumeTopics(c.Topic),
		kgo.RequestTimeoutOverhead(Ms(c.RequestMs)),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			member.Lock()
			defer member.Unlock()
			for _, result := range results {
				if result.Err != nil {
					member.failed[result.Partition] = result.Err.Error()
				}
			}
		}),
	)...)
	clients[c.Consumer], sharers[c.Consumer] = client, member
	return nil, err
}

// sharePoll: what the poll before brought has been acknowledged, or the library would accept it now.
func sharePoll(c Command) (Answer, error) {
	ctx, cancel := context.WithTimeout(always, Ms(c.TimeoutMs))
	defer cancel()
	fetches := clients[c.Consumer].PollFetches(ctx)
	member := sharers[c.Consumer]
	member.polled = fetches.Records()
	records := [][]any{}
	for _, record := range member.polled {
		records = append(records, []any{record.Partition, record.Offset, string(record.Value)})
	}
	for _, failure := range fetches.Errors() {
		if len(records) == 0 && !errors.Is(failure.Err, context.DeadlineExceeded) {
			return nil, failure.Err
		}
	}
	return Answer{"records": records}, nil
}

func acknowledge(c Command) (Answer, error) {
	clients[c.Consumer].MarkAcks(acknowledgements[c.How], sharers[c.Consumer].polled...)
	return nil, nil
}

func shareCommit(c Command) (Answer, error) {
	ctx, cancel := context.WithTimeout(always, Ms(c.PatienceMs))
	defer cancel()
	err := clients[c.Consumer].FlushAcks(ctx)
	member := sharers[c.Consumer]
	member.Lock()
	defer member.Unlock()
	failed := member.failed
	member.failed = map[int32]string{}
	return Answer{"failed": failed}, err
}
