package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// session runs one producer's transactions one after the other, over connections of its own.
type session struct {
	*producer
	cluster *cluster
	conns   map[int32]*conn // by broker, opened on first use as clients do
	retries *retries
}

func newSession(c *cluster, p *producer, counted *retries) *session {
	return &session{producer: p, cluster: c, conns: map[int32]*conn{}, retries: counted}
}

func (s *session) close() {
	for _, connection := range s.conns {
		connection.close()
	}
}

// init finds the coordinator, asks for a producer id and opens the connections.
func (s *session) init() error {
	found, err := s.cluster.findCoordinators([]string{s.txnID})
	if err != nil {
		return err
	}
	s.coordinator = found[s.txnID]
	connection, err := s.to(s.coordinator)
	if err != nil {
		return err
	}
	request := s.initRequest()
	return retry("InitProducerId", starting, s.retries, func() (int16, error) {
		response := kmsg.NewPtrInitProducerIDResponse()
		response.SetVersion(request.Version)
		if err := connection.call(request, response); err != nil {
			return 0, err
		}
		return s.initialised(response), nil
	})
}

func (s *session) to(broker int32) (*conn, error) {
	if connection, open := s.conns[broker]; open {
		return connection, nil
	}
	connection, err := dial(s.cluster.brokers[broker])
	if err != nil {
		return nil, fmt.Errorf("broker %d: %w", broker, err)
	}
	s.conns[broker] = connection
	return connection, nil
}

// transaction commits one record.
func (s *session) transaction(allowed map[int16]bool) error {
	s.nextPartition()
	coordinator, err := s.to(s.coordinator)
	if err != nil {
		return err
	}
	leader, err := s.to(s.cluster.leaders[s.partition])
	if err != nil {
		return err
	}
	if s.flow == flowOld {
		response, check := s.added()
		if err := s.step("AddPartitionsToTxn", allowed, coordinator, s.addPartition(), response, check); err != nil {
			return err
		}
	}
	produced, check := s.produced()
	if err := s.step("Produce", allowed, leader, s.produce(), produced, check); err != nil {
		return err
	}
	ended, check := s.ended()
	return s.step("EndTxn", allowed, coordinator, s.endTxn(), ended, check)
}

func (s *session) step(
	name string,
	allowed map[int16]bool,
	connection *conn,
	request kmsg.Request,
	response kmsg.Response,
	check func() (int16, error),
) error {
	return retry(name, allowed, s.retries, func() (int16, error) {
		if err := connection.call(request, response); err != nil {
			return 0, err
		}
		return check()
	})
}
