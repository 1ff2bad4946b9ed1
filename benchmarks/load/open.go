package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	openDepth          = 64 // requests in flight per connection
	openConnsPerBroker = 4
)

// openOptions are those of mode open.
type openOptions struct {
	address      string
	flow         flow
	transactions int
	serverPid    int
}

type openResult struct {
	Mode          string           `json:"mode"`
	Flow          flow             `json:"flow"`
	Transactions  int              `json:"transactions"`
	InitSeconds   float64          `json:"init_seconds"`
	OpenSeconds   float64          `json:"open_seconds"`
	CommitSeconds float64          `json:"commit_seconds"`
	Retries       map[string]int64 `json:"retries"`
	usage
}

// exchange is one request of one producer in a phase, and what its answer means.
type exchange struct {
	request kmsg.Request
	answer  kmsg.Response
	check   func() (int16, error)
}

// runOpen opens many transactions at the same time, and only then commits them all.
func runOpen(o openOptions) (any, error) {
	name := uniqueName("bench-open")
	c, err := openCluster(o.address, name, txnPartitions, false)
	if err != nil {
		return nil, err
	}
	if err := awaitLeaders(c); err != nil {
		return nil, err
	}
	counted := newRetries()
	producers := make([]*producer, o.transactions)
	ids := make([]string, o.transactions)
	for i := range producers {
		ids[i] = fmt.Sprintf("%s-%d", name, i)
		producers[i] = newProducer(o.flow, ids[i], name, txnPartitions)
	}
	coordinators, err := c.findCoordinators(ids)
	if err != nil {
		return nil, err
	}
	for _, p := range producers {
		p.coordinator = coordinators[p.txnID]
	}
	many := &pipeline{cluster: c, producers: producers, retries: counted}
	toCoordinator := func(p *producer) int32 { return p.coordinator }
	toLeader := func(p *producer) int32 { return c.leaders[p.partition] }

	began := time.Now()
	if err := many.phase("InitProducerId", starting, toCoordinator, initExchange); err != nil {
		return nil, err
	}
	result := openResult{Mode: "open", Flow: o.flow, Transactions: o.transactions}
	result.InitSeconds = time.Since(began).Seconds()
	w, err := openWindow(o.serverPid)
	if err != nil {
		return nil, err
	}
	if o.flow == flowOld {
		if err := many.phase("AddPartitionsToTxn", steady, toCoordinator, addExchange); err != nil {
			return nil, err
		}
	}
	if err := many.phase("Produce", steady, toLeader, produceExchange); err != nil {
		return nil, err
	}
	opened := time.Now()
	result.OpenSeconds = opened.Sub(w.began).Seconds()
	if err := many.phase("EndTxn", steady, toCoordinator, endExchange); err != nil {
		return nil, err
	}
	result.CommitSeconds = time.Since(opened).Seconds()
	if result.usage, err = w.close(); err != nil {
		return nil, err
	}
	result.Retries = counted.snapshot()
	return result, nil
}

func initExchange(p *producer) exchange {
	response := kmsg.NewPtrInitProducerIDResponse()
	request := p.initRequest()
	response.SetVersion(request.Version)
	return exchange{request, response, func() (int16, error) { return p.initialised(response), nil }}
}

func addExchange(p *producer) exchange {
	response, check := p.added()
	return exchange{p.addPartition(), response, check}
}

func produceExchange(p *producer) exchange {
	response, check := p.produced()
	return exchange{p.produce(), response, check}
}

func endExchange(p *producer) exchange {
	response, check := p.ended()
	return exchange{p.endTxn(), response, check}
}

// pipeline sends the requests of many producers over few connections.
type pipeline struct {
	cluster   *cluster
	producers []*producer
	retries   *retries
	conns     map[int32][]*conn
}

// phase sends one request for each producer; those that must be retried go again in the next pass.
func (l *pipeline) phase(
	name string,
	allowed map[int16]bool,
	route func(*producer) int32,
	build func(*producer) exchange,
) error {
	deadline := time.Now().Add(retryLimit)
	pending := l.producers
	for len(pending) > 0 {
		again, err := l.pass(name, allowed, route, build, pending)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if pending = again; len(pending) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %d producers still without success", name, len(pending))
		}
		time.Sleep(retryPause)
	}
	return nil
}

func (l *pipeline) pass(
	name string,
	allowed map[int16]bool,
	route func(*producer) int32,
	build func(*producer) exchange,
	pending []*producer,
) ([]*producer, error) {
	shares, err := l.share(route, pending)
	if err != nil {
		return nil, err
	}
	var mutex sync.Mutex
	var again []*producer
	failures := make(chan error, len(shares))
	var running sync.WaitGroup
	for connection, mine := range shares {
		running.Add(1)
		go func() {
			defer running.Done()
			err := exchangeAll(connection, mine, build, func(p *producer, code int16) error {
				if !allowed[code] {
					return fmt.Errorf("%s: unexpected error code %d", p.txnID, code)
				}
				l.retries.add(name, code)
				mutex.Lock()
				again = append(again, p)
				mutex.Unlock()
				return nil
			})
			if err != nil {
				failures <- err
			}
		}()
	}
	running.Wait()
	if len(failures) > 0 {
		return nil, <-failures
	}
	return again, nil
}

// share deals producers out over the connections to the brokers that they must reach.
func (l *pipeline) share(route func(*producer) int32, pending []*producer) (map[*conn][]*producer, error) {
	if l.conns == nil {
		l.conns = map[int32][]*conn{}
	}
	shares := map[*conn][]*producer{}
	for i, p := range pending {
		broker := route(p)
		for len(l.conns[broker]) < openConnsPerBroker {
			connection, err := dial(l.cluster.brokers[broker])
			if err != nil {
				return nil, err
			}
			l.conns[broker] = append(l.conns[broker], connection)
		}
		connection := l.conns[broker][i%openConnsPerBroker]
		shares[connection] = append(shares[connection], p)
	}
	return shares, nil
}

// exchangeAll keeps up to openDepth requests in flight; failed hears of every error code.
func exchangeAll(
	connection *conn,
	producers []*producer,
	build func(*producer) exchange,
	failed func(*producer, int16) error,
) error {
	type flight struct {
		producer *producer
		exchange exchange
	}
	var inFlight []flight
	receive := func() error {
		first := inFlight[0]
		inFlight = inFlight[1:]
		if err := connection.receive(first.exchange.answer); err != nil {
			return err
		}
		code, err := first.exchange.check()
		if err != nil {
			return err
		}
		if code != codeNone {
			return failed(first.producer, code)
		}
		return nil
	}
	for _, p := range producers {
		if len(inFlight) == openDepth {
			if err := receive(); err != nil {
				return err
			}
		}
		one := build(p)
		if err := connection.send(one.request); err != nil {
			return err
		}
		inFlight = append(inFlight, flight{p, one})
	}
	for len(inFlight) > 0 {
		if err := receive(); err != nil {
			return err
		}
	}
	return nil
}
