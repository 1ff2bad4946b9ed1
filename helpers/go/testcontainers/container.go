// Package txnsimcontainer runs a simulated Kafka cluster in a container, with Testcontainers for Go.
//
//	container, err := txnsimcontainer.Run(ctx, "txnsim:latest", txnsimcontainer.Options{Topics: map[string]int{"orders": 3}})
//	testcontainers.CleanupContainer(t, container)
//
// A container that stops names the faults that were armed and never struck, as an error.
//
// A broker tells its clients where to come back to, and Testcontainers publishes ports that are not known before the container
// runs. So the container first waits for a script, which is copied into it once the ports are known and which starts the brokers
// with these addresses (Testcontainers' own module for Kafka does it in the same way).
package txnsimcontainer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
	"txnsim.test/txnsimtest"
)

const (
	// KafkaPort is that of the first broker inside of the container; the others follow.
	KafkaPort = 9092
	// ControlPort is the control port inside of the container.
	ControlPort = 9080

	starter      = "/tmp/txnsim-start.sh"
	scriptMode   = 0o755
	pollInterval = 100 * time.Millisecond
	startTimeout = 90 * time.Second
	askTimeout   = 10 * time.Second
)

// Options say what to start; the zero value is three brokers at transaction.version 2.
type Options struct {
	// Brokers is how many; 3 unless given. Each takes a port.
	Brokers int
	// Topics are created at start: name and partitions; 0 for as many as is the broker's default.
	Topics map[string]int
	// TransactionVersion is the finalized level of the feature; 2 unless given.
	TransactionVersion *int
	// AsVersion is the Kafka release to behave as, for instance "3.9".
	AsVersion string
	// Settings by Kafka's names, as in server.properties.
	Settings map[string]any
	// ControlToken is what the control port wants: 16 to 256 letters, digits and characters of -._~+/=. A new one unless given.
	ControlToken string
	// FaultsMayMiss says that a fault which never struck is no error when the container stops.
	FaultsMayMiss bool
}

// Container is a cluster that runs.
type Container struct {
	testcontainers.Container
	brokers int
	token   string
	// asks whether every fault has struck, before it stops.
	asks bool
}

// Run starts a cluster and waits until every broker serves. Options of Testcontainers, such as a network, come last. On an
// error the container may be there all the same: hand it to testcontainers.CleanupContainer first of all.
func Run(ctx context.Context, image string, options Options, customizers ...testcontainers.ContainerCustomizer) (*Container, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	container, err := testcontainers.Run(ctx, image, append(options.customizers(), customizers...)...)
	if container == nil {
		return nil, err
	}
	asks := err == nil && !options.FaultsMayMiss
	return &Container{Container: container, brokers: options.Brokers, token: options.ControlToken, asks: asks}, err
}

// Terminate stops and removes the container; testcontainers.CleanupContainer calls it. It is an error, too, if a fault that
// was armed has never struck, or if the control port does not answer any more; Options.FaultsMayMiss asks for neither.
func (c *Container) Terminate(ctx context.Context, options ...testcontainers.TerminateOption) error {
	return errors.Join(c.neverStruck(ctx), c.Container.Terminate(ctx, options...))
}

// Stop stops the container, which can be started again, with the same error: another start knows nothing of these faults.
func (c *Container) Stop(ctx context.Context, timeout *time.Duration) error {
	return errors.Join(c.neverStruck(ctx), c.Container.Stop(ctx, timeout))
}

func (c *Container) neverStruck(ctx context.Context) error {
	if !c.asks || !c.IsRunning() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := c.Client(ctx)
	if err == nil {
		err = client.Do(ctx, http.MethodPost, "/api/v1/faults/verify", nil, nil)
	}
	var refusal *txnsimtest.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("whether every fault has struck can't be asked: %w. If the container is to end before its test, "+
		"set FaultsMayMiss", err)
}

// Bootstrap is where clients connect to (bootstrap.servers).
func (c *Container) Bootstrap(ctx context.Context) (string, error) {
	return addresses(ctx, c.Container, c.brokers)
}

// ControlURL is the control port, for faults, the clock and all else: /openapi.json tells.
func (c *Container) ControlURL(ctx context.Context) (string, error) {
	address, err := addressOf(ctx, c.Container, ControlPort)
	return "http://" + address, err
}

// ControlToken is what the control port wants: Authorization: Bearer TOKEN.
func (c *Container) ControlToken() string { return c.token }

// Client arms faults, advances the clock and looks at transactions.
func (c *Container) Client(ctx context.Context) (*txnsimtest.Client, error) {
	url, err := c.ControlURL(ctx)
	if err != nil {
		return nil, err
	}
	return txnsimtest.Connect(url).WithToken(c.token), nil
}

func (o Options) complete() (Options, error) {
	if o.Brokers == 0 {
		o.Brokers = 3
	}
	if o.Brokers < 0 {
		return o, fmt.Errorf("a cluster needs at least one broker, not %d", o.Brokers)
	}
	if o.ControlToken == "" {
		o.ControlToken = rand.Text()
	}
	return o, nil
}

func (o Options) customizers() []testcontainers.ContainerCustomizer {
	hook := testcontainers.ContainerLifecycleHooks{
		// Before the wait, which is a hook of this moment, too: ours come first.
		PostStarts: []testcontainers.ContainerHook{o.tellPorts},
	}
	port := strconv.Itoa(ControlPort) + "/tcp"
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithEntrypoint("sh"),
		testcontainers.WithCmd("-c", "while [ ! -f "+starter+" ]; do sleep 0.05; done; exec sh "+starter),
		testcontainers.WithExposedPorts(o.ports()...),
		testcontainers.WithEnv(o.environment()),
		testcontainers.WithAdditionalLifecycleHooks(hook),
		testcontainers.WithWaitStrategy(
			wait.ForHTTP("/healthz").WithPort(port).WithPollInterval(pollInterval).WithStartupTimeout(startTimeout)),
	}
}

func (o Options) tellPorts(ctx context.Context, container testcontainers.Container) error {
	advertised, err := addresses(ctx, container, o.Brokers)
	if err != nil {
		return err
	}
	return container.CopyToContainer(ctx, []byte(script(advertised)), starter, scriptMode)
}

func (o Options) ports() []string {
	var exposed []string
	for number := range o.Brokers {
		exposed = append(exposed, strconv.Itoa(KafkaPort+number)+"/tcp")
	}
	return append(exposed, strconv.Itoa(ControlPort)+"/tcp")
}

func (o Options) environment() map[string]string {
	variables := map[string]string{
		"TXNSIM_BROKERS":   strconv.Itoa(o.Brokers),
		"TXNSIM_PORT":      strconv.Itoa(KafkaPort),
		"TXNSIM_HTTP_PORT": strconv.Itoa(ControlPort),
		"TXNSIM_TOKEN":     o.ControlToken,
	}
	var topics []string
	for _, name := range slices.Sorted(maps.Keys(o.Topics)) {
		if partitions := o.Topics[name]; partitions != 0 {
			name += ":" + strconv.Itoa(partitions)
		}
		topics = append(topics, name)
	}
	if len(topics) > 0 {
		variables["TXNSIM_TOPICS"] = strings.Join(topics, ",")
	}
	if o.TransactionVersion != nil {
		variables["TXNSIM_TRANSACTION_VERSION"] = strconv.Itoa(*o.TransactionVersion)
	}
	if o.AsVersion != "" {
		variables["TXNSIM_AS_VERSION"] = o.AsVersion
	}
	for name, value := range o.Settings {
		variables[variableOf(name)] = fmt.Sprint(value)
	}
	return variables
}

func addresses(ctx context.Context, container testcontainers.Container, brokers int) (string, error) {
	var brokerAddresses []string
	var failures []error
	for number := range brokers {
		address, err := addressOf(ctx, container, KafkaPort+number)
		brokerAddresses, failures = append(brokerAddresses, address), append(failures, err)
	}
	return strings.Join(brokerAddresses, ","), errors.Join(failures...)
}

func addressOf(ctx context.Context, container testcontainers.Container, port int) (string, error) {
	host, err := container.Host(ctx)
	if err != nil {
		return "", err
	}
	mapped, err := container.MappedPort(ctx, strconv.Itoa(port)+"/tcp")
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, mapped.Port()), nil
}

func script(advertised string) string {
	return "#!/bin/sh\nexport TXNSIM_ADVERTISED='" + advertised + "'\nexec python -m txnsim.testing.container --ready-coordinators\n"
}

// variableOf is the environment variable that stands for a setting, as in the image apache/kafka.
func variableOf(setting string) string {
	spelled := strings.NewReplacer("_", "__", "-", "___", ".", "_").Replace(setting)
	return "KAFKA_" + strings.ToUpper(spelled)
}
