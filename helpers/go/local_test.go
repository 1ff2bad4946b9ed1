package txnsimtest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// What needs no Kafka client: the process, the answers of the control port, resets.

func TestOneClusterForSeveralTests(t *testing.T) {
	cluster := Start(t, Options{
		Brokers:  2,
		Topics:   map[string]int{"orders": 1, "plain": 0},
		Settings: map[string]any{"broker.heartbeat.interval.ms": 50},
	})
	t.Run("a topic without a number has the broker's default", func(t *testing.T) {
		if cluster.Partition(t, "plain", 0).LeaderReplica() == nil {
			t.Error("plain has no leader")
		}
	})
	t.Run("a reset takes it back to its start or to a snapshot", func(t *testing.T) {
		cluster.CreateTopic(t, "payments", 1, map[string]string{"cleanup.policy": "compact"})
		cluster.Snapshot(t, "with-payments")
		cluster.CreateTopic(t, "more", 1, nil)
		bootstrap := cluster.Bootstrap()
		resetStart := time.Now()
		cluster.ResetTo(t, "with-payments")
		t.Logf("a reset took %v", time.Since(resetStart))
		if cluster.Partition(t, "payments", 0).LeaderReplica() == nil {
			t.Error("payments has no leader")
		}
		err := cluster.Do(context.Background(), http.MethodGet, "/api/v1/topics/more", nil, nil)
		refusal, ok := isStatus(err, http.StatusNotFound)
		if !ok || !strings.Contains(refusal.Reason, "GET /api/v1/topics") {
			t.Errorf("more is still there, or the refusal says nothing: %v", err)
		}
		cluster.Reset(t)
		cluster.AssertNoHangingTransactions(t)
		if cluster.Bootstrap() != bootstrap {
			t.Errorf("another address: %s", cluster.Bootstrap())
		}
	})
	t.Run("a broker stops and comes back", func(t *testing.T) {
		cluster.Reset(t)
		partition := cluster.Partition(t, "orders", 0)
		cluster.StopBroker(t, partition.Leader)
		if moved := cluster.Partition(t, "orders", 0).Leader; moved == partition.Leader {
			t.Errorf("broker %d still leads", moved)
		}
		cluster.StartBroker(t, partition.Leader)
		cluster.AdvanceClock(t, time.Hour)
	})
	t.Run("a fault that never struck is named", func(t *testing.T) {
		cluster.Reset(t)
		cluster.Faults().Arm(t, Rule{ID: "idle", Point: "client.request", API: "EndTxn", Action: Drop()})
		if refusal := cluster.neverStruck(false); !strings.Contains(refusal, "idle") {
			t.Errorf("said: %q", refusal)
		}
		cluster.Faults().DisarmAll(t)
		cluster.Faults().Forget(t)
		cluster.Faults().Verify(t)
	})
	t.Run("what was committed is compared in the words of Python's tests", func(t *testing.T) {
		cluster.Reset(t)
		cluster.AssertExactlyOnce(t, []string{"a", "b"}, [][]byte{[]byte("b"), []byte("a")})
		cluster.AssertExactlyOnce(t, "orders", []string{})
		if committed := cluster.Committed(t, "orders"); len(committed) != 0 {
			t.Errorf("committed: %q", committed)
		}
		failingTest := &recorded{TB: t}
		cluster.AssertExactlyOnce(failingTest, []string{"a", "b"}, []string{"a", "a"})
		expected := "not exactly once, from what was given to what was given:\nmissing: 1 record\n  'b'\nmore than once: 1 record\n  'a'"
		if failingTest.message != expected {
			t.Errorf("said: %q", failingTest.message)
		}
	})
	t.Run("a report tells what happened", func(t *testing.T) {
		cluster.Reset(t)
		cluster.Faults().Arm(t, Rule{ID: "seen", Point: "client.request", API: "EndTxn", Action: Drop()})
		if report := cluster.Report(); !strings.Contains(report, "seen: 0 matched, 0 struck") {
			t.Errorf("said: %q", report)
		}
		cluster.Faults().DisarmAll(t)
		cluster.Faults().Forget(t)
	})
	t.Run("a refusal says what to do", func(t *testing.T) {
		cluster.Reset(t)
		rule := Rule{ID: "x", Point: "nowhere", Action: Hold()}
		err := cluster.Do(context.Background(), http.MethodPost, "/api/v1/faults", rule, nil)
		if _, ok := isStatus(err, http.StatusUnprocessableEntity); !ok {
			t.Errorf("said: %v", err)
		}
	})
}

func TestEventsAreReadUntilTheCallerHasEnough(t *testing.T) {
	stream := ": connected\n\nid: 1\nevent: note\ndata: {\"i\":1,\"k\":\"note\",\"node\":\"a\",\"d\":{\"text\":\"x\"}}\n\n" +
		"event: lost\ndata: {\"lost\":7,\"next\":9}\n\nevent: note\ndata: {\"i\":9,\"k\":\"note\"}\n\n"
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if kinds := request.URL.Query()["kind"]; !slices.Equal(kinds, []string{"note", "fault"}) {
			t.Errorf("kinds: %v", kinds)
		}
		fmt.Fprint(response, stream)
	}))
	defer server.Close()
	var kinds []string
	err := Connect(server.URL).Events(context.Background(), func(event Event) bool {
		kinds = append(kinds, event.Kind)
		return len(kinds) < 2
	}, "note", "fault")
	if err != nil || !slices.Equal(kinds, []string{"note", "lost"}) {
		t.Errorf("%v %v", kinds, err)
	}
}

func TestAnAdvanceGoesByWholeMilliseconds(t *testing.T) {
	inner := &recorded{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Connect("http://127.0.0.1:1").AdvanceClock(inner, 1500*time.Microsecond)
	}()
	<-ended
	if !strings.Contains(inner.message, "1.5ms is no whole number of milliseconds") {
		t.Errorf("said: %q", inner.message)
	}
}

func TestCtrlCInATestThatHangsTellsWhatHappened(t *testing.T) {
	if os.Getenv("TXNSIM_TEST_HANGS") != "" {
		cluster := Start(t, Options{Brokers: 1})
		cluster.Faults().Arm(t, Rule{ID: "seen", Point: "client.request", API: "EndTxn", Action: Drop()})
		fmt.Println("READY")
		select {}
	}
	hangs := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	hangs.Env = append(os.Environ(), "TXNSIM_TEST_HANGS=1")
	output, err := hangs.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	hangs.Stderr = hangs.Stdout
	if err := hangs.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	var printed []string
	for lines.Scan() {
		printed = append(printed, lines.Text())
		if strings.Contains(lines.Text(), "READY") {
			_ = hangs.Process.Signal(os.Interrupt)
		}
	}
	_ = hangs.Wait()
	report := strings.Join(printed, "\n")
	for _, sentence := range []string{"was interrupted\ntxnsim: the cluster\n1 of 1 brokers up", "\ntxnsim: faults\nseen: 0 matched"} {
		if !strings.Contains(report, sentence) {
			t.Errorf("%q is missing in: %q", sentence, report)
		}
	}
}

func TestACommandThatIsNotThereIsExplained(t *testing.T) {
	inner := &recorded{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Start(inner, Options{Command: "/nonexistent/txnsim"})
	}()
	<-ended
	if !strings.Contains(inner.message, "pip install") {
		t.Errorf("said: %q", inner.message)
	}
}

// recorded is a test whose failure is the point.
type recorded struct {
	testing.TB
	message string
}

func (r *recorded) Error(args ...any) { r.message = fmt.Sprint(args...) }

func (r *recorded) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
