// Command kfake serves franz-go's in-memory Kafka: a third peer for the benchmark.
//
// It writes a JSON ready file with its bootstrap address and runs until SIGINT or SIGTERM.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.Int("brokers", 3, "number of brokers")
	readyFile := flag.String("ready-file", "", "file that gets the bootstrap address once all listeners accept")
	flag.Parse()
	if err := serve(*brokers, *readyFile); err != nil {
		fmt.Fprintf(os.Stderr, "kfake: %v\n", err)
		os.Exit(1)
	}
}

func serve(brokers int, readyFile string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		return err
	}
	defer cluster.Close()
	ready, err := json.Marshal(map[string]any{
		"bootstrap": strings.Join(cluster.ListenAddrs(), ","),
		"pid":       os.Getpid(),
	})
	if err != nil {
		return err
	}
	// In one move: who polls for the file never reads half of it.
	if err := os.WriteFile(readyFile+".new", ready, 0o644); err != nil {
		return err
	}
	if err := os.Rename(readyFile+".new", readyFile); err != nil {
		return err
	}
	<-stop
	return nil
}
