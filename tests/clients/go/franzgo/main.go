// Transactions through franz-go, as an application uses them, against any Kafka address.
//
//	franzgo [CHECK...]
//	franzgo check BOOTSTRAP TRANSACTION_VERSION [-abort-interval-ms MS] [-only NAME]
//	franzgo late-produce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS
//	franzgo soak BOOTSTRAP TOPIC PARTITIONS PRODUCERS PER_SECOND
//
// The first form runs checks of the client matrix (package bench), the second one those that are written for franz-go alone.
// Both print one line per check, then "N passed, M failed"; exit status 1 if any failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"txnsim.test/clientcheck/bench"
)

// check is one thing written for franz-go alone. It fails as those of the matrix do.
type check struct {
	name string
	run  func(*lab)
}

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "check":
		os.Exit(runChecks(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "late-produce":
		os.Exit(lateProduce(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "soak":
		os.Exit(soak(os.Args[2:]))
	default:
		os.Exit(bench.Main(library{}, extraChecks(), os.Args[1:]))
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: franzgo [CHECK...]")
	fmt.Fprintln(os.Stderr, "       franzgo check BOOTSTRAP TRANSACTION_VERSION [-abort-interval-ms MS] [-only NAME]")
	fmt.Fprintln(os.Stderr, "       franzgo late-produce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS")
	fmt.Fprintln(os.Stderr, "       franzgo soak BOOTSTRAP TOPIC PARTITIONS PRODUCERS PER_SECOND")
	os.Exit(2)
}

// extraChecks are asked of franz-go beyond the matrix: the group protocol of KIP-848, and those written for it alone.
func extraChecks() []bench.Check {
	all := []bench.Check{
		{Name: "franz-go-kip848-transform", Run: func(b *bench.Bench) {
			bench.TransformWith(b, bench.NextGeneration, "kip848-transform")
		}},
		{Name: "franz-go-kip848-rebalance", Run: func(b *bench.Bench) {
			bench.RebalanceWith(b, bench.NextGeneration, "kip848-rebalance")
		}},
	}
	for _, c := range slices.Concat(transactionChecks, adminChecks) {
		all = append(all, bench.Check{Name: "franz-go-" + c.name, Run: func(b *bench.Bench) {
			l := newLab(b.Cluster.Bootstrap, b.Named("go"), b.TransactionVersion, 0)
			defer l.close()
			c.run(l)
		}})
	}
	return all
}

func runChecks(args []string) int {
	if len(args) < 2 {
		usage()
	}
	flags := flag.NewFlagSet("check", flag.ExitOnError)
	abortIntervalMs := flags.Int("abort-interval-ms", 10_000, "how often the coordinator looks for timed-out transactions")
	only := flags.String("only", "", "run this check alone")
	if err := flags.Parse(args[2:]); err != nil {
		usage()
	}
	level, err := strconv.Atoi(args[1])
	if err != nil {
		usage()
	}
	run := fmt.Sprintf("go-%x", time.Now().UnixMilli())
	l := newLab(bench.Addresses(args[0]), run, level, time.Duration(*abortIntervalMs)*time.Millisecond)
	defer l.close()
	var wanted []bench.Check
	for _, c := range slices.Concat(transactionChecks, adminChecks) {
		if *only == "" || *only == c.name {
			wanted = append(wanted, bench.Check{Name: c.name, Run: func(*bench.Bench) { c.run(l) }})
		}
	}
	return bench.Report(wanted, func(c bench.Check) { c.Run(nil) })
}
