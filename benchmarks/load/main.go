// Command load drives a Kafka cluster over raw TCP and prints one JSON object of figures.
//
// It is no client: it keeps no metadata fresh, batches nothing, and knows no more of the protocol than
// each mode needs, so that the servers and not the client are measured. Any error code that a mode does
// not expect ends the run with exit status 1.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const usageText = `usage: load MODE --bootstrap HOST:PORT [options]

  txn           transactions per second of N producers
  open          M transactions open at the same time, then all committed
  produce       MB/s in: 1 kB records in 64 kB batches, acks=-1, no idempotence
  fetch         MB/s out of a topic that produce has filled
  soak          transactions at a rate until standard input ends, a line for each; goes on after any error
  first-commit  milliseconds from --since-ns until a first transaction is committed
`

type options struct {
	bootstrap, readyFile, topic, flow           string
	producers, connections, transactions        int
	warmUpMB, measuredMB, serverPid             int
	warmUpSeconds, measuredSeconds, limitSecond float64
	perSecond                                   float64
	partitions                                  int
	sinceNs                                     int64
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usageText)
		os.Exit(2)
	}
	result, err := run(os.Args[1], parse(os.Args[1], os.Args[2:]))
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func parse(mode string, arguments []string) options {
	var o options
	flags := flag.NewFlagSet(mode, flag.ExitOnError)
	flags.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "address of a broker")
	flags.StringVar(&o.readyFile, "ready-file", "", "first-commit: JSON file with the bootstrap address, once it is there")
	flags.StringVar(&o.flow, "flow", string(flowV2), "transaction protocol: old or v2")
	flags.IntVar(&o.producers, "producers", 1, "txn, soak: producers, each with its own transactional id and connections")
	flags.IntVar(&o.transactions, "transactions", 5000, "open: transactions open at the same time")
	flags.IntVar(&o.connections, "connections", 4, "produce, fetch: connections")
	flags.IntVar(&o.warmUpMB, "warm-up-mb", 100, "produce: megabytes before the measured ones")
	flags.IntVar(&o.measuredMB, "mb", 300, "produce: measured megabytes")
	flags.StringVar(&o.topic, "topic", "", "fetch: the topic that produce has filled; soak: the topic to write to")
	flags.IntVar(&o.partitions, "partitions", txnPartitions, "soak: partitions of the topic")
	flags.Float64Var(&o.perSecond, "rate", 100, "soak: transactions per second of all producers together, at most")
	flags.Float64Var(&o.warmUpSeconds, "warm-up", 2, "txn, fetch: seconds before the measured ones")
	flags.Float64Var(&o.measuredSeconds, "seconds", 5, "txn, fetch: measured seconds")
	flags.IntVar(&o.serverPid, "server-pid", 0, "process whose CPU time is measured over the same window")
	flags.Int64Var(&o.sinceNs, "since-ns", 0, "first-commit: start of the server, nanoseconds since 1970")
	flags.Float64Var(&o.limitSecond, "limit", 60, "first-commit: seconds to wait for the server")
	_ = flags.Parse(arguments) // exits on error
	return o
}

func run(mode string, o options) (any, error) {
	f := flow(o.flow)
	if f != flowOld && f != flowV2 {
		return nil, fmt.Errorf("no flow %q: old or v2", o.flow)
	}
	address := firstAddress(o.bootstrap)
	bulk := bulkOptions{
		address: address, topic: o.topic, connections: o.connections, serverPid: o.serverPid,
		warmUpMB: o.warmUpMB, measuredMB: o.measuredMB,
		warmUp: seconds(o.warmUpSeconds), measured: seconds(o.measuredSeconds),
	}
	switch mode {
	case "txn":
		return runTxn(txnOptions{
			address: address, flow: f, producers: o.producers, serverPid: o.serverPid,
			warmUp: seconds(o.warmUpSeconds), measured: seconds(o.measuredSeconds),
		})
	case "open":
		return runOpen(openOptions{address: address, flow: f, transactions: o.transactions, serverPid: o.serverPid})
	case "produce":
		return runProduce(bulk)
	case "fetch":
		return runFetch(bulk)
	case "soak":
		return runSoak(soakOptions{
			bootstrap: o.bootstrap, topic: o.topic, partitions: o.partitions,
			producers: o.producers, perSecond: o.perSecond, flow: f,
		})
	case "first-commit":
		return runFirstCommit(firstCommitOptions{
			address: address, readyFile: o.readyFile, flow: f,
			since: time.Unix(0, o.sinceNs), limit: seconds(o.limitSecond), serverPid: o.serverPid,
		})
	default:
		return nil, fmt.Errorf("no such mode\n%s", usageText)
	}
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

// uniqueName makes names that no earlier run on the same server has used.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano()) }

// firstAddress takes the first of a comma-separated list of addresses.
func firstAddress(bootstrap string) string {
	first, _, _ := strings.Cut(bootstrap, ",")
	return first
}
