package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	bulkPartitions = 16
	megabyte       = 1_000_000
	produceDepth   = 5 // requests in flight per connection, as max.in.flight.requests.per.connection
	fetchPartBytes = 1 << 20
	fetchMaxBytes  = 50 << 20
)

// bulkOptions are those of modes produce and fetch.
type bulkOptions struct {
	address     string
	topic       string // of mode fetch: what mode produce has filled
	connections int
	warmUpMB    int
	measuredMB  int
	warmUp      time.Duration
	measured    time.Duration
	serverPid   int
}

type bulkResult struct {
	Mode        string  `json:"mode"`
	Topic       string  `json:"topic"`
	Connections int     `json:"connections"`
	Megabytes   float64 `json:"megabytes"`
	PerSecond   float64 `json:"megabytes_per_second"`
	usage
}

// eachConnection runs work on connections that are spread over the leaders of the topic.
func eachConnection(c *cluster, count int, work func(connection *conn, partitions []int32) error) error {
	leaders := c.leading()
	failures := make(chan error, count)
	var running sync.WaitGroup
	for i := range count {
		leader := leaders[i%len(leaders)]
		led := c.partitionsOf(leader)
		// Connections to the same leader share its partitions out between them.
		var mine []int32
		for at := i / len(leaders); at < len(led); at += (count + len(leaders) - 1 - i%len(leaders)) / len(leaders) {
			mine = append(mine, led[at])
		}
		connection, err := dial(c.brokers[leader])
		if err != nil {
			return err
		}
		defer connection.close()
		running.Add(1)
		go func() {
			defer running.Done()
			if err := work(connection, mine); err != nil {
				failures <- err
			}
		}()
	}
	running.Wait()
	if len(failures) > 0 {
		return <-failures
	}
	return nil
}

// runProduce writes batches of 1 kB records with acks=-1 and without idempotence.
func runProduce(o bulkOptions) (any, error) {
	topic := uniqueName("bench-bulk")
	c, err := openCluster(o.address, topic, bulkPartitions, false)
	if err != nil {
		return nil, err
	}
	if err := awaitLeaders(c); err != nil {
		return nil, err
	}
	batch := newBatch(bulkBatchRecords, bulkRecordBytes, time.Now().UnixMilli(), false)
	if err := produceMegabytes(c, o.connections, batch, o.warmUpMB); err != nil {
		return nil, err
	}
	w, err := openWindow(o.serverPid)
	if err != nil {
		return nil, err
	}
	if err := produceMegabytes(c, o.connections, batch, o.measuredMB); err != nil {
		return nil, err
	}
	used, err := w.close()
	if err != nil {
		return nil, err
	}
	return bulkResult{
		Mode: "produce", Topic: topic, Connections: o.connections, usage: used,
		Megabytes: float64(o.measuredMB), PerSecond: float64(o.measuredMB) / used.Seconds,
	}, nil
}

func produceMegabytes(c *cluster, connections int, batch []byte, megabytes int) error {
	var left atomic.Int64
	left.Store(int64(megabytes * megabyte / len(batch)))
	return eachConnection(c, connections, func(connection *conn, partitions []int32) error {
		return produceWhile(connection, c.topic, partitions, batch, func() bool { return left.Add(-1) >= 0 })
	})
}

// produceWhile keeps several requests in flight: one goroutine sends, this one reads the answers.
func produceWhile(connection *conn, topic string, partitions []int32, batch []byte, more func() bool) error {
	frames := make([][]byte, len(partitions))
	for i, partition := range partitions {
		frames[i] = connection.encode(bulkProduce(topic, partition, batch))
	}
	slots := make(chan struct{}, produceDepth)
	sent := make(chan error, produceDepth)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(sent)
		for i := 0; more(); i++ {
			select {
			case slots <- struct{}{}:
			case <-stop:
				return
			}
			sent <- connection.sendFrame(frames[i%len(frames)])
		}
	}()
	response := kmsg.NewPtrProduceResponse()
	for err := range sent {
		if err != nil {
			return err
		}
		response.SetVersion(flowOld.versions().produce)
		if err := connection.receive(response); err != nil {
			return err
		}
		code, err := produceCode(response)
		if err != nil {
			return err
		}
		if code != codeNone {
			return fmt.Errorf("Produce: unexpected error code %d", code)
		}
		<-slots
	}
	return nil
}

func bulkProduce(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	producePartition := kmsg.NewProduceRequestTopicPartition()
	producePartition.Partition, producePartition.Records = partition, batch
	produceTopic := kmsg.NewProduceRequestTopic()
	produceTopic.Topic = topic
	produceTopic.Partitions = append(produceTopic.Partitions, producePartition)
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(flowOld.versions().produce)
	request.Acks, request.TimeoutMillis = -1, 30_000
	request.Topics = append(request.Topics, produceTopic)
	return request
}

// runFetch reads a filled topic from its start again and again.
func runFetch(o bulkOptions) (any, error) {
	c, err := openCluster(o.address, o.topic, bulkPartitions, true)
	if err != nil {
		return nil, err
	}
	var bytes atomic.Int64
	var stopped atomic.Bool
	finished := make(chan error, 1)
	go func() {
		finished <- eachConnection(c, o.connections, func(connection *conn, partitions []int32) error {
			return fetchUntil(connection, c.topic, partitions, &bytes, &stopped)
		})
	}()
	if err := sleepUnlessFailed(o.warmUp, finished); err != nil {
		return nil, err
	}
	w, err := openWindow(o.serverPid)
	if err != nil {
		return nil, err
	}
	before := bytes.Load()
	if err := sleepUnlessFailed(o.measured, finished); err != nil {
		return nil, err
	}
	read := float64(bytes.Load()-before) / megabyte
	used, err := w.close()
	if err != nil {
		return nil, err
	}
	stopped.Store(true)
	if err := <-finished; err != nil {
		return nil, err
	}
	if read == 0 {
		return nil, fmt.Errorf("nothing to read in %s", o.topic)
	}
	return bulkResult{
		Mode: "fetch", Topic: o.topic, Connections: o.connections, usage: used,
		Megabytes: read, PerSecond: read / used.Seconds,
	}, nil
}

func fetchUntil(connection *conn, topic string, partitions []int32, bytes *atomic.Int64, stopped *atomic.Bool) error {
	fetchTopic := kmsg.NewFetchRequestTopic()
	fetchTopic.Topic = topic
	for _, partition := range partitions {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.PartitionMaxBytes = partition, fetchPartBytes
		one.CurrentLeaderEpoch = -1
		fetchTopic.Partitions = append(fetchTopic.Partitions, one)
	}
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(12) // the last one that names topics by name; without a session
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, 1, fetchMaxBytes
	request.SessionEpoch = -1
	request.Topics = append(request.Topics, fetchTopic)
	response := kmsg.NewPtrFetchResponse()
	for !stopped.Load() {
		response.SetVersion(request.Version)
		if err := connection.call(request, response); err != nil {
			return err
		}
		read, err := advance(request, response)
		if err != nil {
			return err
		}
		bytes.Add(read)
	}
	return nil
}

// advance moves the offsets behind what came, or back to the start at the end of a partition.
func advance(request *kmsg.FetchRequest, response *kmsg.FetchResponse) (int64, error) {
	if response.ErrorCode != codeNone || len(response.Topics) != 1 {
		return 0, fmt.Errorf("Fetch: error code %d, %d topics", response.ErrorCode, len(response.Topics))
	}
	asked := request.Topics[0].Partitions
	var read int64
	for i := range response.Topics[0].Partitions {
		got := &response.Topics[0].Partitions[i]
		if got.ErrorCode != codeNone {
			return 0, fmt.Errorf("Fetch of partition %d: error code %d", got.Partition, got.ErrorCode)
		}
		read += int64(len(got.RecordBatches))
		for j := range asked {
			if asked[j].Partition == got.Partition {
				asked[j].FetchOffset = offsetAfter(got.RecordBatches, asked[j].FetchOffset)
				if asked[j].FetchOffset >= got.HighWatermark {
					asked[j].FetchOffset = 0
				}
			}
		}
	}
	return read, nil
}
