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
	sharers = map[string]*sharer{}
	hows    = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew}
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
		kgo.ShareAckCallback(func(_ *kgo.Client, all kgo.ShareAckResults) {
			member.Lock()
			defer member.Unlock()
			for _, one := range all {
				if one.Err != nil {
					member.failed[one.Partition] = one.Err.Error()
				}
			}
		}),
	)...)
	clients[c.Consumer], sharers[c.Consumer] = client, member
	return nil, err
}

// sharePoll: what the poll before brought has been acknowledged, or the library would accept it now.
func sharePoll(c Command) (Answer, error) {
	ctx, done := context.WithTimeout(always, Ms(c.TimeoutMs))
	defer done()
	fetches := clients[c.Consumer].PollFetches(ctx)
	member := sharers[c.Consumer]
	member.polled = fetches.Records()
	records := [][]any{}
	for _, one := range member.polled {
		records = append(records, []any{one.Partition, one.Offset, string(one.Value)})
	}
	for _, one := range fetches.Errors() {
		if len(records) == 0 && !errors.Is(one.Err, context.DeadlineExceeded) {
			return nil, one.Err
		}
	}
	return Answer{"records": records}, nil
}

func acknowledge(c Command) (Answer, error) {
	clients[c.Consumer].MarkAcks(hows[c.How], sharers[c.Consumer].polled...)
	return nil, nil
}

func shareCommit(c Command) (Answer, error) {
	ctx, done := context.WithTimeout(always, Ms(c.PatienceMs))
	defer done()
	err := clients[c.Consumer].FlushAcks(ctx)
	member := sharers[c.Consumer]
	member.Lock()
	defer member.Unlock()
	failed := member.failed
	member.failed = map[int32]string{}
	return Answer{"failed": failed}, err
}
