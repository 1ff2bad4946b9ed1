package examples

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"txnsim.test/txnsimtest"
)

// The first fault: a commit's marker is lost on its way to the partition. The coordinator waits for its answer for
// request.timeout.ms, 30 s; an advance of the cluster clock lets that pass, and the coordinator sends the marker again.
func TestACommitSurvivesALostMarker(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cluster := txnsimtest.Start(t, txnsimtest.Options{Topics: map[string]int{"orders": 1}})
	cluster.Faults().Arm(t, txnsimtest.Rule{
		ID: "lost", Point: "peer.request", API: "WriteTxnMarkers", Limit: 1, Action: txnsimtest.Drop(),
	})
	producer := client(t, cluster, kgo.TransactionalID("shop"))
	must(t, producer.BeginTransaction())
	must(t, producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one order")}).FirstErr())
	commitStart := time.Now()
	must(t, producer.EndTransaction(ctx, kgo.TryCommit))
	cluster.Faults().WaitUntilStruck(t, "lost", 1, patience)
	cluster.AdvanceClock(t, 31*time.Second)
	cluster.WaitForTransaction(t, "shop", patience, "CompleteCommit")
	cluster.AssertExactlyOnce(t, []string{"one order"}, "orders")
	t.Logf("from the commit to its end: %v", time.Since(commitStart))
	if took := time.Since(commitStart); took > 25*time.Second {
		t.Errorf("it took %v", took)
	}
}
