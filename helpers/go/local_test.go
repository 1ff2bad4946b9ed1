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
		before := cluster.Bootstrap()
		began := time.Now()
		cluster.ResetTo(t, "with-payments")
		t.Logf("a reset took %v", time.Since(began))
		if cluster.Partition(t, "payments", 0).LeaderReplica() == nil {
			t.Error("payments has no leader")
		}
		err := cluster.Do(context.Background(), http.MethodGet, "/api/v1/topics/more", nil, nil)
		gone, ok := isStatus(err, http.StatusNotFound)
		if !ok || !strings.Contains(gone.Reason, "GET /api/v1/topics") {
			t.Errorf("more is still there, or the refusal says nothing: %v", err)
		}
		cluster.Reset(t)
		cluster.AssertNoHangingTransactions(t)
		if cluster.Bootstrap() != before {
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
		if idle := cluster.neverStruck(false); !strings.Contains(idle, "idle") {
			t.Errorf("said: %q", idle)
		}
		cluster.Faults().DisarmAll(t)
		cluster.Faults().Forget(t)
		cluster.Faults().Verify(t)
	})
	t.Run("what was committed is compared in the words of Python's tests", func(t *testing.T) {
		cluster.Reset(t)
		cluster.AssertExactlyOnce(t, []string{"a", "b"}, [][]byte{[]byte("b"), []byte("a")})
		cluster.AssertExactlyOnce(t, "orders", []string{})
		if found := cluster.Committed(t, "orders"); len(found) != 0 {
			t.Errorf("committed: %q", found)
		}
		wrong := &recorded{TB: t}
		cluster.AssertExactlyOnce(wrong, []string{"a", "b"}, []string{"a", "a"})
		want := "not exactly once, from what was given to what was given:\nmissing: 1 record\n  'b'\nmore than once: 1 record\n  'a'"
		if wrong.said != want {
			t.Errorf("said: %q", wrong.said)
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
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if got := request.URL.Query()["kind"]; !slices.Equal(got, []string{"note", "fault"}) {
			t.Errorf("kinds: %v", got)
		}
		fmt.Fprint(answer, stream)
	}))
	defer server.Close()
	var seen []string
	err := Connect(server.URL).Events(context.Background(), func(event Event) bool {
		seen = append(seen, event.Kind)
		return len(seen) < 2
	}, "note", "fault")
	if err != nil || !slices.Equal(seen, []string{"note", "lost"}) {
		t.Errorf("%v %v", seen, err)
	}
}

func TestAnAdvanceGoesByWholeMilliseconds(t *testing.T) {
	inner := &recorded{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Connect("http://127.0.0.1:1").AdvanceClock(inner, 1500*time.Microsecond)
	}()
	<-done
	if !strings.Contains(inner.said, "1.5ms is no whole number of milliseconds") {
		t.Errorf("said: %q", inner.said)
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
	said, err := hangs.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	hangs.Stderr = hangs.Stdout
	if err := hangs.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	var all []string
	for lines.Scan() {
		all = append(all, lines.Text())
		if strings.Contains(lines.Text(), "READY") {
			_ = hangs.Process.Signal(os.Interrupt)
		}
	}
	_ = hangs.Wait()
	told := strings.Join(all, "\n")
	for _, part := range []string{"was interrupted\ntxnsim: the cluster\n1 of 1 brokers up", "\ntxnsim: faults\nseen: 0 matched"} {
		if !strings.Contains(told, part) {
			t.Errorf("%q is missing in: %q", part, told)
		}
	}
}

func TestACommandThatIsNotThereIsExplained(t *testing.T) {
	inner := &recorded{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Start(inner, Options{Command: "/nonexistent/txnsim"})
	}()
	<-done
	if !strings.Contains(inner.said, "pip install") {
		t.Errorf("said: %q", inner.said)
	}
}

// recorded is a test whose failure is the point.
type recorded struct {
	testing.TB
	said string
}

func (r *recorded) Error(args ...any) { r.said = fmt.Sprint(args...) }

func (r *recorded) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
