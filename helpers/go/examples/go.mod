module txnsim.test/txnsimtest/examples

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.2
	txnsim.test/txnsimtest v0.0.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
)

replace txnsim.test/txnsimtest => ../
