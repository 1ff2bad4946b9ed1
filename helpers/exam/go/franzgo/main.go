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
		"commit":     func(c Command) (Answer, error) { return nil, endTransaction(c.Producer, kgo.TryCommit) },
		"abort":      func(c Command) (Answer, error) { return nil, endTransaction(c.Producer, kgo.TryAbort) },
		"consumer":   consumer,
		"poll":       poll,
		"seek":       seek,
		"abort-open": abortOpen,

		"share-subscribe": shareSubscribe,
		"share-poll":      sharePoll,
		"acknowledge":     acknowledge,
		"share-commit":    shareCommit,

		"close": func(c Command) (Answer, error) { closeClient(c.Name); return nil, nil },
	}, describeError)
}

// said: EndTransaction names errors after which to abort. BeginTransaction fails when the producer is in a fatal state. After a
// record that failed the transaction has to be aborted.
func describeError(do string, err error) Error {
	var kafkaError *kerr.Error
	var failure Error
	if errors.As(err, &kafkaError) {
		failure.Name = kafkaError.Message
	}
	var ofRecord recordError
	toAbort := kafkaError == nil || errors.As(err, &ofRecord) || errors.Is(err, kerr.UnknownServerError) || errors.Is(err, kerr.OperationNotAttempted) ||
		errors.Is(err, kerr.TransactionAbortable)
	switch do {
	case "begin", "abort":
		failure.Fatal = true
	case "send":
		failure.Abortable = true
	case "commit":
		failure.Abortable = toAbort
	case "init", "worker":
		failure.Retriable = kerr.IsRetriable(err) || errors.Is(err, context.DeadlineExceeded)
	}
	return failure
}

// recordError is of a record that nothing has waited for, told at the commit.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

func options(c Command) []kgo.Opt {
	clientOptions := []kgo.Opt{kgo.SeedBrokers(c.Servers()...), kgo.ClientID(c.ClientID)}
	if c.TransactionalID == "" || c.PatienceMs == 0 {
		return clientOptions
	}
	return append(clientOptions,
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
	ctx, cancel := context.WithTimeout(always, Ms(c.PatienceMs))
	defer cancel()
	_, _, err := client.ProducerID(ctx)
	if err != nil {
		closeClient(name)
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
func endTransaction(name string, outcome kgo.TransactionEndTry) error {
	client := clients[name]
	if outcome == kgo.TryCommit && unwaited[name].Err() != nil { // it waits for them
		return recordError{unwaited[name].Err()}
	}
	if session := sessions[name]; session != nil {
		committed, err := session.End(always, outcome)
		if err == nil && outcome == kgo.TryCommit && !committed {
			return errNotCommitted
		}
		return err
	}
	settle := client.Flush
	if outcome == kgo.TryAbort {
		settle = client.AbortBufferedRecords
	}
	if err := settle(always); err != nil {
		return err
	}
	return client.EndTransaction(always, outcome)
}

func closeClient(name string) {
	if client := clients[name]; client != nil {
		client.CloseAllowingRebalance()
	}
	delete(clients, name)
	delete(sessions, name)
	delete(sharers, name)
}
