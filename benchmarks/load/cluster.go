package main

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster knows where the brokers are and who leads the partitions of one topic.
type cluster struct {
	control *conn
	brokers map[int32]string // node id -> address
	topic   string
	leaders []int32 // by partition
	retries *retries
}

// openCluster creates topic, unless it exists already and mayExist is set, and finds its leaders.
func openCluster(address, topic string, partitions int32, mayExist bool) (*cluster, error) {
	control, err := dial(address)
	if err != nil {
		return nil, err
	}
	c := &cluster{control: control, topic: topic, retries: newRetries()}
	if !mayExist {
		if err := c.createTopic(partitions); err != nil {
			return nil, err
		}
	}
	if err := c.findLeaders(partitions); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) createTopic(partitions int32) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = c.topic, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.SetVersion(5)
	request.TimeoutMillis = 30_000
	request.Topics = append(request.Topics, topic)
	return retry("CreateTopics", starting, c.retries, func() (int16, error) {
		response := kmsg.NewPtrCreateTopicsResponse()
		response.SetVersion(request.Version)
		if err := c.control.call(request, response); err != nil {
			return 0, err
		}
		if len(response.Topics) != 1 {
			return 0, fmt.Errorf("%d topics in the answer", len(response.Topics))
		}
		code := response.Topics[0].ErrorCode
		if code == codeNotController {
			return code, c.moveToController()
		}
		return code, nil
	})
}

// moveToController is for peers whose brokers do not pass requests on to the controller, as Kafka's do.
func (c *cluster) moveToController() error {
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(12)
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	response := kmsg.NewPtrMetadataResponse()
	response.SetVersion(request.Version)
	if err := c.control.call(request, response); err != nil {
		return err
	}
	for _, broker := range response.Brokers {
		if broker.NodeID == response.ControllerID {
			connection, err := dial(net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))))
			if err != nil {
				return err
			}
			c.control.close()
			c.control = connection
			return nil
		}
	}
	return fmt.Errorf("controller %d is no broker that Metadata lists", response.ControllerID)
}

func (c *cluster) findLeaders(partitions int32) error {
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &c.topic
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(12)
	request.AllowAutoTopicCreation = false
	request.Topics = append(request.Topics, topic)
	return retry("Metadata", starting, c.retries, func() (int16, error) {
		response := kmsg.NewPtrMetadataResponse()
		response.SetVersion(request.Version)
		if err := c.control.call(request, response); err != nil {
			return 0, err
		}
		if len(response.Topics) != 1 {
			return 0, fmt.Errorf("%d topics in the answer", len(response.Topics))
		}
		return c.learn(response, partitions)
	})
}

func (c *cluster) learn(response *kmsg.MetadataResponse, partitions int32) (int16, error) {
	topic := response.Topics[0]
	if topic.ErrorCode != codeNone {
		return topic.ErrorCode, nil
	}
	if len(topic.Partitions) != int(partitions) {
		return 0, fmt.Errorf("%d partitions, expected %d", len(topic.Partitions), partitions)
	}
	c.brokers = map[int32]string{}
	for _, broker := range response.Brokers {
		c.brokers[broker.NodeID] = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
	}
	c.leaders = make([]int32, partitions)
	for _, partition := range topic.Partitions {
		if partition.ErrorCode != codeNone {
			return partition.ErrorCode, nil
		}
		if _, known := c.brokers[partition.Leader]; !known {
			return codeLeaderNotAvailable, nil
		}
		c.leaders[partition.Partition] = partition.Leader
	}
	return codeNone, nil
}

// partitionsOf lists the partitions that a broker leads.
func (c *cluster) partitionsOf(broker int32) []int32 {
	var led []int32
	for partition, leader := range c.leaders {
		if leader == broker {
			led = append(led, int32(partition))
		}
	}
	return led
}

// leading lists the brokers that lead a partition, in the order of their first partition.
func (c *cluster) leading() []int32 {
	var order []int32
	seen := map[int32]bool{}
	for _, leader := range c.leaders {
		if !seen[leader] {
			seen[leader] = true
			order = append(order, leader)
		}
	}
	return order
}

// awaitLeaders writes one record to each partition: Kafka's metadata names leaders a moment before
// they know that they lead.
func awaitLeaders(c *cluster) error {
	batch := newBatch(1, txnRecordBytes, time.Now().UnixMilli(), false)
	for partition, leader := range c.leaders {
		connection, err := dial(c.brokers[leader])
		if err != nil {
			return err
		}
		request := bulkProduce(c.topic, int32(partition), batch)
		err = retry("Produce", starting, c.retries, func() (int16, error) {
			response := kmsg.NewPtrProduceResponse()
			response.SetVersion(request.Version)
			if err := connection.call(request, response); err != nil {
				return 0, err
			}
			return produceCode(response)
		})
		connection.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// findCoordinators asks for the coordinators of transactional ids, several per request.
func (c *cluster) findCoordinators(ids []string) (map[string]int32, error) {
	const perRequest = 500
	found := make(map[string]int32, len(ids))
	for start := 0; start < len(ids); start += perRequest {
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.SetVersion(4)
		request.CoordinatorType = 1
		request.CoordinatorKeys = ids[start:min(start+perRequest, len(ids))]
		err := retry("FindCoordinator", starting, c.retries, func() (int16, error) {
			response := kmsg.NewPtrFindCoordinatorResponse()
			response.SetVersion(request.Version)
			if err := c.control.call(request, response); err != nil {
				return 0, err
			}
			for _, one := range response.Coordinators {
				if one.ErrorCode != codeNone {
					return one.ErrorCode, nil
				}
				found[one.Key] = one.NodeID
				c.brokers[one.NodeID] = net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port)))
			}
			return codeNone, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(found) != len(ids) {
		return nil, fmt.Errorf("coordinators of %d ids found, expected %d", len(found), len(ids))
	}
	return found, nil
}
