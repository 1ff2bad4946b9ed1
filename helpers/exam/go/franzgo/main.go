// Command franzgo sits the exam of txnsim with franz-go: docs/exam.md.
package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	. "txnsim.test/exam/contract"
)

var (
	clients  = map[string]*kgo.Client{} // producers and consumers by name
	sessions = map[string]*kgo.GroupTransactSession{}
	unwaited = map[string]*kgo.FirstErrPromise{} // the records of a transaction that nothing waits for
	always   = context.Background()              // the library's guide: don't cancel what ends a transaction
)

var errNotCommitted = errors.New("End has aborted the transaction instead of committing it")

func main() {
	Serve("franz-go", "github.com/twmb/franz-go", map[string]func(Command) (Answer, error){
		"init":   initialise,
		"worker": worker,
		"begin": func(c Command) (Answer, error) {
			unwaited[c.Producer] = kgo.AbortingFirstErrPromise(clients[c.Producer])
			if session := sessions[c.Producer]; session != nil {
				return nil, session.Begin()
			}
			return nil, clients[c.Producer].BeginTransaction()
		},
		"send":       send,
		"commit":     func(c Command) (Answer, error) { return nil, end(c.Producer, kgo.TryCommit) },
		"abort":      func(c Command) (Answer, error) { return nil, end(c.Producer, kgo.TryAbort) },
		"consumer":   consumer,
		"poll":       poll,
		"seek":       seek,
		"abort-open": abortOpen,

		"share-subscribe": shareSubscribe,
		"share-poll":      sharePoll,
		"acknowledge":     acknowledge,
		"share-commit":    shareCommit,

		"close":      func(c Command) (Answer, error) { closed(c.Name); return nil, nil },
	}, said)
}

// said: EndTransaction names errors after which to abort. BeginTransaction fails when the producer is in a fatal state. After a
// record that failed the transaction has to be aborted.
func said(do string, err error) Error {
	var of *kerr.Error
	var one Error
	if errors.As(err, &of) {
		one.Name = of.Message
	}
	var ofRecord recordError
	toAbort := of == nil || errors.As(err, &ofRecord) || errors.Is(err, kerr.UnknownServerError) || errors.Is(err, kerr.OperationNotAttempted) ||
		errors.Is(err, kerr.TransactionAbortable)
	switch do {
	case "begin", "abort":
		one.Fatal = true
	case "send":
		one.Abortable = true
	case "commit":
		one.Abortable = toAbort
	case "init", "worker":
		one.Retriable = kerr.IsRetriable(err) || errors.Is(err, context.DeadlineExceeded)
	}
	return one
}

// recordError is of a record that nothing has waited for, told at the commit.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

func options(c Command) []kgo.Opt {
	all := []kgo.Opt{kgo.SeedBrokers(c.Servers()...), kgo.ClientID(c.ClientID)}
	if c.TransactionalID == "" || c.PatienceMs == 0 {
		return all
	}
	return append(all,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(c.TransactionalID),
		kgo.TransactionTimeout(Ms(c.TransactionMs)),
		kgo.RequestTimeoutOverhead(Ms(c.RequestMs)),
		kgo.ProduceRequestTimeout(Ms(c.RequestMs)),
		kgo.RetryTimeout(Ms(c.PatienceMs)),
		kgo.RecordDeliveryTimeout(Ms(c.PatienceMs)),
	)
}

func initialise(c Command) (Answer, error) {
	client, err := kgo.NewClient(options(c)...)
	if err != nil {
		return nil, err
	}
	return nil, identify(c.Producer, client, c)
}

// identify asks for the producer id at once, which the library would do with the first record.
func identify(name string, client *kgo.Client, c Command) error {
	clients[name] = client
	ctx, done := context.WithTimeout(always, Ms(c.PatienceMs))
	defer done()
	_, _, err := client.ProducerID(ctx)
	if err != nil {
		closed(name)
	}
	return err
}

func send(c Command) (Answer, error) {
	record := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Value: []byte(c.Value)}
	if !c.Wait {
		clients[c.Producer].Produce(always, record, unwaited[c.Producer].Promise())
		return nil, nil
	}
	err := clients[c.Producer].ProduceSync(always, record).FirstErr()
	return Answer{"offset": record.Offset}, err
}

// end as the library's guide has it: flush before a commit, drop before an abort.
func end(name string, how kgo.TransactionEndTry) error {
	client := clients[name]
	if how == kgo.TryCommit && unwaited[name].Err() != nil { // it waits for them
		return recordError{unwaited[name].Err()}
	}
	if session := sessions[name]; session != nil {
		committed, err := session.End(always, how)
		if err == nil && how == kgo.TryCommit && !committed {
			return errNotCommitted
		}
		return err
	}
	settle := client.Flush
	if how == kgo.TryAbort {
		settle = client.AbortBufferedRecords
	}
	if err := settle(always); err != nil {
		return err
	}
	return client.EndTransaction(always, how)
}

func closed(name string) {
	if client := clients[name]; client != nil {
		client.CloseAllowingRebalance()
	}
	delete(clients, name)
	delete(sessions, name)
	delete(sharers, name)
}
