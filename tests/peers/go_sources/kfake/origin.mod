// Where the tests come from that run in front of this package.
module txnsim.test/origin

go 1.26.0

require github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
