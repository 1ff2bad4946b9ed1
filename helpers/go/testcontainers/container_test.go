package txnsimcontainer

import (
	"context"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"txnsim.test/txnsimtest"
)

func request(t *testing.T, options Options) testcontainers.GenericContainerRequest {
	t.Helper()
	complete, err := options.complete()
	if err != nil {
		t.Fatal(err)
	}
	var request testcontainers.GenericContainerRequest
	for _, customizer := range complete.customizers() {
		if err := customizer.Customize(&request); err != nil {
			t.Fatal(err)
		}
	}
	return request
}

func TestEveryBrokerHasAPortAndSoHasTheControlPort(t *testing.T) {
	if ports := strings.Join(request(t, Options{Brokers: 2}).ExposedPorts, " "); ports != "9092/tcp 9093/tcp 9080/tcp" {
		t.Error(ports)
	}
}

func TestWhatIsAskedForBecomesVariables(t *testing.T) {
	containerRequest := request(t, Options{
		Brokers:            1,
		Topics:             map[string]int{"payments": 0, "orders": 3},
		TransactionVersion: txnsimtest.Level(1),
		AsVersion:          "3.9",
		Settings:           map[string]any{"transaction.max.timeout.ms": 60_000, "auto.create.topics.enable": false},
		ControlToken:       "a-token-of-this-test",
	})
	expected := map[string]string{
		"TXNSIM_BROKERS":                   "1",
		"TXNSIM_PORT":                      "9092",
		"TXNSIM_HTTP_PORT":                 "9080",
		"TXNSIM_TOKEN":                     "a-token-of-this-test",
		"TXNSIM_TOPICS":                    "orders:3,payments",
		"TXNSIM_TRANSACTION_VERSION":       "1",
		"TXNSIM_AS_VERSION":                "3.9",
		"KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE":  "false",
	}
	if !maps.Equal(containerRequest.Env, expected) {
		t.Errorf("%v", containerRequest.Env)
	}
}

func TestSettingsAreSpelledAsInTheImageOfKafka(t *testing.T) {
	for setting, variable := range map[string]string{"a.b": "KAFKA_A_B", "a_b": "KAFKA_A__B", "a-b.c": "KAFKA_A___B_C"} {
		if spelled := variableOf(setting); spelled != variable {
			t.Errorf("%s: %s", setting, spelled)
		}
	}
}

func TestItWaitsForTheScriptThatKnowsThePorts(t *testing.T) {
	containerRequest := request(t, Options{})
	words := strings.Join(append(containerRequest.Entrypoint, containerRequest.Cmd...), "|")
	if words != "sh|-c|while [ ! -f /tmp/txnsim-start.sh ]; do sleep 0.05; done; exec sh /tmp/txnsim-start.sh" {
		t.Error(words)
	}
}

func TestEachContainerHasATokenOfItsOwn(t *testing.T) {
	firstToken, secondToken := request(t, Options{}).Env["TXNSIM_TOKEN"], request(t, Options{}).Env["TXNSIM_TOKEN"]
	if firstToken == secondToken || len(firstToken) < 16 {
		t.Errorf("%q and %q", firstToken, secondToken)
	}
}

func TestAClusterNeedsABroker(t *testing.T) {
	if _, err := Run(context.Background(), "txnsim:latest", Options{Brokers: -1}); err == nil {
		t.Error("it was taken")
	}
}

func TestAContainerServes(t *testing.T) {
	options := Options{Brokers: 2, Topics: map[string]int{"orders": 3}, Settings: map[string]any{"num.partitions": 5}}
	ctx, container := started(t, options)
	bootstrap, err := container.Bootstrap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if advertised := client.Bootstrap(); advertised != bootstrap {
		t.Errorf("brokers tell %s, ports are published at %s", advertised, bootstrap)
	}
	for _, address := range strings.Split(bootstrap, ",") {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		connection.Close()
	}
	if leader := client.Partition(t, "orders", 2).LeaderReplica(); leader == nil {
		t.Error("orders-2 has no leader")
	}
	client.CreateTopic(t, "more", 5, nil)
	// Without the token nothing is done.
	if err := txnsimtest.Connect(client.URL()).WithToken("").Do(ctx, http.MethodGet, "/api/v1/topics", nil, nil); err == nil {
		t.Error("it wants no token")
	}
}

func started(t *testing.T, options Options) (context.Context, *Container) {
	t.Helper()
	image := os.Getenv("TXNSIM_TEST_IMAGE")
	if image == "" {
		t.Skip("TXNSIM_TEST_IMAGE names no image: `python -m tests.image.engine` stands for an engine where there is none")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	container, err := Run(ctx, image, options)
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, container
}

func armInVain(ctx context.Context, t *testing.T, container *Container) {
	t.Helper()
	client, err := container.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client.Faults().Arm(t, txnsimtest.Rule{ID: "idle", Point: "client.request", API: "EndTxn", Action: txnsimtest.Drop()})
}

func TestAFaultThatNeverStruckIsAnErrorAtTheEnd(t *testing.T) {
	ctx, container := started(t, Options{Brokers: 1})
	armInVain(ctx, t, container)
	err := testcontainers.TerminateContainer(container)
	if err == nil || !strings.Contains(err.Error(), "1 of the faults never struck (idle: 0 crossings matched)") {
		t.Errorf("said: %v", err)
	}
	if container.IsRunning() {
		t.Error("it runs on")
	}
}

func TestAStopTellsItAsWellAndOnce(t *testing.T) {
	ctx, container := started(t, Options{Brokers: 1})
	armInVain(ctx, t, container)
	if err := container.Stop(ctx, nil); err == nil || !strings.Contains(err.Error(), "idle: 0 crossings matched") {
		t.Errorf("said: %v", err)
	}
	if err := testcontainers.TerminateContainer(container); err != nil {
		t.Error(err)
	}
}

func TestAFaultMayMissWhereThatIsSaid(t *testing.T) {
	ctx, container := started(t, Options{Brokers: 1, FaultsMayMiss: true})
	armInVain(ctx, t, container)
	if err := testcontainers.TerminateContainer(container); err != nil {
		t.Error(err)
	}
}

func TestAContainerThatHasGoneBeforeItsTestIsTold(t *testing.T) {
	ctx, container := started(t, Options{Brokers: 1})
	if err := container.Container.Stop(ctx, nil); err != nil {
		t.Fatal(err)
	}
	// Testcontainers does not know it where somebody else has stopped it.
	if err := (&Container{Container: stillRunning{container.Container}, brokers: 1, asks: true}).neverStruck(ctx); err == nil ||
		!strings.Contains(err.Error(), "whether every fault has struck can't be asked") {
		t.Errorf("said: %v", err)
	}
}

type stillRunning struct{ testcontainers.Container }

func (stillRunning) IsRunning() bool { return true }
