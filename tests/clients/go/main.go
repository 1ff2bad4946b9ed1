// Transactions through franz-go, as an application uses them, against any Kafka address.
//
//	clientcheck check BOOTSTRAP TRANSACTION_VERSION [-abort-interval-ms MS] [-only NAME]
//	clientcheck late-produce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS
//
// check prints one line per check, then "N passed, M failed"; exit status 1 if any failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// check is one thing a client must be able to rely on. It fails by panicking with a failure.
type check struct {
	name string
	run  func(*lab)
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	switch os.Args[1] {
	case "check":
		os.Exit(runChecks(os.Args[2:]))
	case "late-produce":
		os.Exit(lateProduce(os.Args[2:]))
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: clientcheck check BOOTSTRAP TRANSACTION_VERSION [-abort-interval-ms MS] [-only NAME]")
	fmt.Fprintln(os.Stderr, "       clientcheck late-produce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS")
	os.Exit(2)
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
	l := newLab(args[0], level, time.Duration(*abortIntervalMs)*time.Millisecond)
	defer l.close()
	passed, failed := 0, 0
	for _, c := range append(transactionChecks, adminChecks...) {
		if *only != "" && *only != c.name {
			continue
		}
		if reason := reasonToFail(l, c); reason != "" {
			failed++
			fmt.Printf("FAIL %s: %s\n", c.name, reason)
			continue
		}
		passed++
		fmt.Printf("PASS %s\n", c.name)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return 1
	}
	return 0
}

func reasonToFail(l *lab, c check) (reason string) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case failure:
			reason = strings.ReplaceAll(string(found), "\n", " ")
		default:
			panic(found)
		}
	}()
	c.run(l)
	return ""
}
