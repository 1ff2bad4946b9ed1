// Package examples shows the helper with a real client library, franz-go.
package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"txnsim.test/txnsimtest"
)

const (
	topic    = "payments"
	patience = 30 * time.Second
)

// modes are those of the scenario late-produce-after-abort: with no verification, with it, and under transactions v2.
var modes = map[string]txnsimtest.Options{
	"V-": {
		TransactionVersion: txnsimtest.Level(0),
		Settings:           map[string]any{"transaction.partition.verification.enable": false},
	},
	"V+":  {TransactionVersion: txnsimtest.Level(1)},
	"TV2": {TransactionVersion: txnsimtest.Level(2)},
}

// A Produce request is held on its way, its producer gives up and aborts, and then the request arrives after all
// (KIP-890). What franz-go and an onlooker saw is judged by the checkers that judge the shipped scenario of the same story,
// and must come to the same.
func TestALateProduceComesToWhatTheScenarioSays(t *testing.T) {
	declared := txnsimtest.Start(t, txnsimtest.Options{Brokers: 1}).RunScenario(t, "z01", 2*time.Minute)
	for mode, options := range modes {
		t.Run(mode, func(t *testing.T) {
			options.Topics = map[string]int{topic: 1}
			cluster := txnsimtest.Start(t, options)
			history := playLateProduce(t, cluster)
			verdict := history.Judge(t)
			if expected := declared.Observed(t, mode); verdict.String() != expected {
				t.Errorf("%s, and the scenario says %s: %+v", verdict, expected, verdict.Anomalies)
			}
			hangs := len(cluster.HangingTransactions(t)) > 0
			if hangs != (mode == "V-") {
				t.Errorf("hanging: %v", cluster.HangingTransactions(t))
			}
		})
	}
}

func playLateProduce(t *testing.T, cluster *txnsimtest.Cluster) *txnsimtest.History {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	history := cluster.NewHistory("app")
	producer := client(t, cluster,
		kgo.TransactionalID("app"), kgo.ProduceRequestTimeout(100*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, producer.BeginTransaction())
	firstSent := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("first")})
	must(t, firstSent.FirstErr())
	id, epoch, err := producer.ProducerID(ctx)
	must(t, err)
	history.Add(txnsimtest.Seen{
		"seen": "initialised", "transactional_id": "app", "producer_id": id, "producer_epoch": epoch,
	})
	history.Add(txnsimtest.Seen{"seen": "began", "transaction": "t1", "transactional_id": "app"})
	history.Add(wrote("t1", "first", "ok", firstSent[0].Record.Offset))

	cluster.Faults().Arm(t, txnsimtest.Rule{
		ID: "late-produce", Point: "client.request", API: "Produce", TransactionalID: "app", Action: txnsimtest.Hold(),
	})
	lateError := make(chan error, 1)
	producer.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte("late")}, func(_ *kgo.Record, err error) { lateError <- err })
	cluster.Faults().WaitUntilStruck(t, "late-produce", 1, patience)
	producer.UnsafeAbortBufferedRecords() // franz-go does not give up on a record by itself
	if <-lateError == nil {
		t.Fatal("the record was acknowledged though its request is held")
	}
	history.Add(wrote("t1", "late", "unknown", -1))
	must(t, producer.EndTransaction(ctx, kgo.TryAbort))
	history.Add(txnsimtest.Seen{"seen": "ended", "transaction": "t1", "commit": false})
	cluster.WaitForTransaction(t, "app", patience, "CompleteAbort", "Empty")
	cluster.Faults().Release(t, "late-produce")

	bystander := client(t, cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, value := range []string{"after-1", "after-2"} {
		sent := bystander.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)})
		must(t, sent.FirstErr())
		history.Add(wrote("", value, "ok", sent[0].Record.Offset))
	}
	history.Look(t, topic, 0)
	return history
}

func client(t *testing.T, cluster *txnsimtest.Cluster, options ...kgo.Opt) *kgo.Client {
	newClient, err := kgo.NewClient(append(options, kgo.SeedBrokers(cluster.Brokers()...))...)
	must(t, err)
	t.Cleanup(newClient.Close)
	return newClient
}

func wrote(transaction, value, outcome string, offset int64) txnsimtest.Seen {
	observation := txnsimtest.Seen{
		"seen": "wrote", "topic": topic, "partition": 0, "value": value, "outcome": outcome, "offset": offset,
	}
	if transaction != "" {
		observation["transaction"] = transaction
	}
	return observation
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One cluster for several tests: each meets it fresh, on the same ports.
func TestOneClusterForSeveralTests(t *testing.T) {
	cluster := txnsimtest.Start(t, txnsimtest.Options{Brokers: 1, Topics: map[string]int{topic: 1}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	// An error of Kafka's at the right moment: the client must find its coordinator again and go on.
	t.Run("a commit survives a coordinator that has moved", func(t *testing.T) {
		cluster.Faults().Arm(t, txnsimtest.Rule{
			ID: "moved", Point: "client.request", API: "EndTxn", Limit: 1, Action: txnsimtest.Fail("NOT_COORDINATOR"),
		})
		producer := client(t, cluster, kgo.TransactionalID("app"))
		must(t, producer.BeginTransaction())
		must(t, producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr())
		must(t, producer.EndTransaction(ctx, kgo.TryCommit))
		if fault := cluster.Faults().Get(t, "moved"); fault.Struck != 1 {
			t.Errorf("struck %d times", fault.Struck)
		}
		cluster.WaitForTransaction(t, "app", patience, "CompleteCommit")
		cluster.AssertNoHangingTransactions(t)
	})

	t.Run("a reset forgets producers", func(t *testing.T) {
		cluster.Reset(t)
		producer := client(t, cluster, kgo.TransactionalID("app"))
		must(t, producer.BeginTransaction())
		sent := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")})
		must(t, sent.FirstErr())
		if sent[0].Record.Offset != 0 {
			t.Errorf("offset %d in a fresh cluster", sent[0].Record.Offset)
		}
		cluster.Reset(t)
		err := producer.EndTransaction(ctx, kgo.TryCommit)
		var kafkaError *kerr.Error
		if !errors.As(err, &kafkaError) {
			t.Errorf("the commit of a producer from before the reset: %v", err)
		}
		if len(cluster.Transactions(t)) != 0 {
			t.Errorf("known: %v", cluster.Transactions(t))
		}
	})
}
