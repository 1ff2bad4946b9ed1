// Sarama's GetOffset asks without the isolation level: a reader of committed records that begins at the newest offset loses records.
//
// go run . BOOTSTRAP: a cluster with a topic "t" of one partition.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const topic = "t"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	servers := strings.Split(os.Args[1], ",")
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Producer.Transaction.ID = "app"
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1

	producer := must(sarama.NewSyncProducer(servers, config))
	if err := producer.BeginTxn(); err != nil {
		panic(err)
	}
	record := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("in the transaction")}
	_, at, err := producer.SendMessage(record)
	if err != nil {
		panic(err)
	}
	fmt.Printf("a transaction is open, with a record at offset %d\n", at)

	client := must(sarama.NewClient(servers, config))
	newest := must(client.GetOffset(topic, 0, sarama.OffsetNewest))
	fmt.Printf("GetOffset of a client with ReadCommitted: %d\n", newest)
	admin := must(sarama.NewClusterAdminFromClient(client))
	wanted := map[string]map[int32]int64{topic: {0: sarama.OffsetNewest}}
	listed := must(admin.ListOffsets(wanted, &sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted}))
	stable := listed[topic][0].Offset
	fmt.Printf("ListOffsets with ReadCommitted, the last stable offset: %d\n", stable)

	reader := must(sarama.NewConsumerFromClient(client))
	partition := must(reader.ConsumePartition(topic, 0, sarama.OffsetNewest))
	if err := producer.CommitTxn(); err != nil {
		panic(err)
	}
	fmt.Println("the transaction is committed")
	got := "nothing in 10 s"
	select {
	case message := <-partition.Messages():
		got = string(message.Value)
	case <-time.After(10 * time.Second):
	}
	fmt.Printf("a reader that began at OffsetNewest while it was open gets: %s\n", got)
	if newest != stable && got == "nothing in 10 s" {
		fmt.Println("REPRODUCED")
		return
	}
	fmt.Println("NOT REPRODUCED")
	os.Exit(1)
}
