// Transactions through confluent-kafka-go, which is librdkafka, against any Kafka address.
//
//	confluent [CHECK...]
//
// Runs checks of the client matrix (package bench).
package main

import (
	"os"

	"txnsim.test/clientcheck/bench"
)

func main() {
	groups := func(name string, protocol bench.Protocol) []bench.Check {
		return []bench.Check{
			{Name: "confluent-" + name + "-transform", Run: func(b *bench.Bench) {
				bench.TransformWith(b, protocol, name+"-transform")
			}},
			{Name: "confluent-" + name + "-rebalance", Run: func(b *bench.Bench) {
				bench.RebalanceWith(b, protocol, name+"-rebalance")
			}},
		}
	}
	extra := append(groups("cooperative", bench.Cooperative), groups("kip848", bench.NextGeneration)...)
	os.Exit(bench.Main(library{}, extra, os.Args[1:]))
}
