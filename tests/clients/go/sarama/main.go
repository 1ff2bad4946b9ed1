// Transactions through Sarama, against any Kafka address.
//
//	sarama [CHECK...]
//
// Runs checks of the client matrix (package bench).
package main

import (
	"os"

	"txnsim.test/clientcheck/bench"
)

func main() {
	extra := []bench.Check{
		{Name: "sarama-cooperative-transform", Run: func(b *bench.Bench) {
			bench.TransformWith(b, bench.Cooperative, "cooperative-transform")
		}},
		{Name: "sarama-cooperative-rebalance", Run: func(b *bench.Bench) {
			bench.RebalanceWith(b, bench.Cooperative, "cooperative-rebalance")
		}},
	}
	os.Exit(bench.Main(library{}, extra, os.Args[1:]))
}
