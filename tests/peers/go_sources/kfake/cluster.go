// Package kfake stands in for the package of this name in front of its own tests, in test builds alone: each cluster that a test
// asks for is a cluster of brokers in another process, reached over TCP.
//
// It has what those tests use of the original. TXNSIM_PEER_BROKER is the command that starts brokers (tests/peers/broker.py).
package kfake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 90 * time.Second

// Opt is an option of a cluster.
type Opt interface{ apply(*options) }

type options struct {
	brokers    int
	topics     map[string]int32
	properties map[string]string
}

type opt func(*options)

func (o opt) apply(to *options) { o(to) }

// NumBrokers of the cluster.
func NumBrokers(n int) Opt { return opt(func(o *options) { o.brokers = n }) }

// SeedTopics are there when the cluster is.
func SeedTopics(partitions int32, topics ...string) Opt {
	return opt(func(o *options) {
		for _, topic := range topics {
			o.topics[topic] = partitions
		}
	})
}

// BrokerConfigs are properties of every broker, by Kafka's names.
func BrokerConfigs(properties map[string]string) Opt {
	return opt(func(o *options) {
		for name, value := range properties {
			o.properties[name] = value
		}
	})
}

// Cluster is a cluster behind relays, one per broker.
type Cluster struct {
	process *exec.Cmd
	stdin   io.Closer
	relays  []*relay
	client  *kgo.Client
	admin   *kadm.Client
	hooks   hooks
}

// NewCluster starts brokers, and makes the topics.
func NewCluster(opts ...Opt) (*Cluster, error) {
	wanted := options{brokers: 3, topics: map[string]int32{}, properties: map[string]string{}}
	for _, one := range opts {
		one.apply(&wanted)
	}
	c := &Cluster{}
	if err := c.start(wanted); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(wanted options) error {
	relays, err := newRelays(wanted.brokers, &c.hooks)
	if err != nil {
		return err
	}
	c.relays = relays
	command := strings.Fields(os.Getenv("TXNSIM_PEER_BROKER"))
	command = append(command, "--brokers", fmt.Sprint(wanted.brokers), "--listen", fmt.Sprint(relays[0].port()))
	for name, value := range wanted.properties {
		command = append(command, "--property", name+"="+value)
	}
	c.process = exec.Command(command[0], command[1:]...)
	c.process.Stderr = os.Stderr
	stdin, err := c.process.StdinPipe()
	if err != nil {
		return err
	}
	c.stdin = stdin
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.process.Start(); err != nil {
		return err
	}
	var brokers []string
	if err := json.NewDecoder(stdout).Decode(&brokers); err != nil {
		return fmt.Errorf("brokers do not start: %w", err)
	}
	for n, broker := range brokers {
		go relays[n].accept(broker)
	}
	for _, unused := range relays[len(brokers):] { // a real Kafka is a single broker here
		unused.close()
	}
	c.relays = relays[:len(brokers)]
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...)); err != nil {
		return err
	}
	c.admin = kadm.NewClient(c.client)
	return c.seed(wanted.topics)
}

func (c *Cluster) seed(topics map[string]int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for topic, partitions := range topics {
		if _, err := c.admin.CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
			return err
		}
	}
	return nil
}

// ListenAddrs are where clients find the brokers.
func (c *Cluster) ListenAddrs() []string {
	var all []string
	for _, one := range c.relays {
		all = append(all, one.listener.Addr().String())
	}
	return all
}

// Close stops the brokers.
func (c *Cluster) Close() {
	if c.client != nil {
		c.client.Close()
	}
	for _, one := range c.relays {
		one.close()
	}
	if c.stdin != nil {
		_ = c.stdin.Close() // tells the process to end
		_ = c.process.Wait()
	}
}
