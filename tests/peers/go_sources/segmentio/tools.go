//go:build tools

package tools

import _ "github.com/segmentio/kafka-go"
