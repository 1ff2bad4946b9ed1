// Package bench holds the checks of the client matrix, written once for every Go client: a check speaks to a Library and
// knows nothing of Kafka's protocol. What differs between clients, their calls and their errors, is in the program of each.
package bench

import "time"

// Library is a client library: how things are made of it and what its errors mean.
type Library interface {
	// Compressions that a producer can be asked for.
	Compressions() []string
	// Mechanisms of SASL that the library has.
	Mechanisms() []string
	// Log in at a cluster and ask it something small; the error is the client's own.
	Log(in Connection) error

	NewAdmin(at Connection) (Admin, error)
	NewProducer(at Connection, options ProducerOptions) (Producer, error)
	NewWorker(at Connection, options WorkerOptions) (Worker, error)
	// Read all that this isolation level may see of a partition, from its start to its end.
	Read(at Connection, of Partition, isolation Isolation) ([]Record, error)

	// Fenced tells that an error says: another producer has this transactional id now.
	Fenced(err error) bool
	// TimedOut tells that a commit was refused as it should be once the cluster has aborted the transaction.
	TimedOut(err error, transactionVersion int) bool
	// LostMembership tells that offsets were refused because the group has gone on without this member.
	LostMembership(err error) bool
	// WrongPassword tells that an error is how the client reports refused credentials.
	WrongPassword(err error) bool
}

// Connection is where a cluster is and how a client gets in.
type Connection struct {
	Bootstrap []string
	SASL      *Login // none: no SASL
	TLS       *Files // none: in clear
}

// Login is a user of SASL.
type Login struct{ Mechanism, User, Password string }

// Files of TLS as paths; without Certificate the client shows none.
type Files struct{ Authority, Certificate, Key string }

// Isolation of a reader.
type Isolation int

// The two of Kafka.
const (
	ReadUncommitted Isolation = iota
	ReadCommitted
)

// Partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

// Header of a record.
type Header struct{ Key, Value string }

// Record as it is sent (without Offset) and as it is read back.
type Record struct {
	Topic       string
	Partition   int32
	Offset      int64
	Key, Value  string
	Headers     []Header
	TimestampMs int64 // 0: now
}

// ProducerOptions: the zero value asks for a plain producer with acks=all.
type ProducerOptions struct {
	Compression        string
	Idempotent         bool
	TransactionalID    string        // given: already initialised when NewProducer returns
	TransactionTimeout time.Duration // 0: 30 s
}

// Producer sends where records say; Send waits for all acknowledgements and returns the offsets in the order of records.
type Producer interface {
	Send(records ...Record) ([]int64, error)
	Begin() error
	Commit() error
	Abort() error
	Close()
}

// WorkerOptions of a consume–transform–produce member.
type WorkerOptions struct {
	Group, TransactionalID, Input string
	Protocol                      Protocol
}

// Protocol of consumer groups.
type Protocol int

// The classic one with the assignor that the library prefers, the classic one with cooperative-sticky (KIP-429), and that of
// KIP-848.
const (
	Classic Protocol = iota
	Cooperative
	NextGeneration
)

// Worker reads a topic as a member of a group and forwards in transactions that carry its offsets.
type Worker interface {
	// Poll for up to max records for a short while; when there are some, a transaction has begun.
	Poll(max int) ([]Record, error)
	Forward(records ...Record) error
	// Commit with the positions behind what was polled.
	Commit() error
	// Abort, also after a refused commit; afterwards the same records are polled again by whoever owns them.
	Abort() error
	Close()
}

// Admin is what checks need to know of a cluster.
type Admin interface {
	CreateTopic(topic string, partitions int32) error
	// Leaders of the partitions that have one.
	Leaders(topic string) (map[int32]int32, error)
	Brokers() (int, error)
	// End is the high watermark, or the last stable offset.
	End(of Partition, isolation Isolation) (int64, error)
	// Positions that a group has committed, without those that it has not.
	Positions(group, topic string) (map[int32]int64, error)
	Members(group string, protocol Protocol) (int, error)
	Close()
}

// TransactionAdmin is an Admin that can look at transactions (KIP-664).
type TransactionAdmin interface {
	ListTransactions(state string) (map[string]string, error)
	DescribeTransaction(id string) (Transaction, error)
	DescribeProducers(of Partition) ([]ProducerState, error)
}

// TransactionAborter is an Admin that can abort what is open on a partition.
type TransactionAborter interface {
	AbortTransaction(of Partition, producer ProducerState) error
}

// ProducerFencer is an Admin with fenceProducers.
type ProducerFencer interface {
	FenceProducers(id string) error
}

// Transaction as its coordinator describes it.
type Transaction struct {
	State      string
	ProducerID int64
	Epoch      int16
	Partitions map[Partition]bool
}

// ProducerState of a partition; OpenSince is -1 where no transaction is open.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	OpenSince        int64
}
