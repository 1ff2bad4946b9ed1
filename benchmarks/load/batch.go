package main

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Where the fields of a record batch v2 are, in bytes from its start.
const (
	batchLengthAt    = 8
	batchCrcAt       = 17
	batchAttributes  = 21
	batchLastDelta   = 23
	batchProducerID  = 43
	batchEpochAt     = 51
	batchSequenceAt  = 53
	batchOverhead    = 12 // base offset and length, not counted in length
	attributeTxn     = 1 << 4
	noProducerID     = -1
	noProducerEpoch  = -1
	noSequence       = -1
	bulkRecordBytes  = 1000
	bulkBatchRecords = 64
	txnRecordBytes   = 100
)

// newBatch encodes a batch of count records with values of size bytes each.
func newBatch(count, size int, timestampMs int64, transactional bool) []byte {
	var records []byte
	for i := range count {
		records = appendRecord(records, i, size)
	}
	return encodeBatch(records, count, timestampMs, transactional)
}

// encodeBatch puts a header before count encoded records.
func encodeBatch(records []byte, count int, timestampMs int64, transactional bool) []byte {
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch = -1
	batch.Magic = 2
	batch.LastOffsetDelta = int32(count - 1)
	batch.FirstTimestamp, batch.MaxTimestamp = timestampMs, timestampMs
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = noProducerID, noProducerEpoch, noSequence
	batch.NumRecords = int32(count)
	if transactional {
		batch.Attributes = attributeTxn
	}
	batch.Records = records
	encoded := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(encoded[batchLengthAt:], uint32(len(encoded)-batchOverhead))
	seal(encoded)
	return encoded
}

// appendRecord adds a record without key, whose value is random: nothing on the way can compress it.
func appendRecord(dst []byte, offsetDelta, size int) []byte {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	record := kmsg.Record{OffsetDelta: int32(offsetDelta), Value: value}
	unsized := record.AppendTo(nil) // its first byte is the length 0
	record.Length = int32(len(unsized) - 1)
	return record.AppendTo(dst)
}

// stamp makes a batch that of a producer: its id, epoch and sequence, and the checksum over them.
func stamp(batch []byte, producerID int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(batch[batchProducerID:], uint64(producerID))
	binary.BigEndian.PutUint16(batch[batchEpochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[batchSequenceAt:], uint32(sequence))
	seal(batch)
}

func seal(batch []byte) {
	crc := crc32.Checksum(batch[batchAttributes:], castagnoli)
	binary.BigEndian.PutUint32(batch[batchCrcAt:], crc)
}

// offsetAfter walks the batches of a Fetch answer and gives the offset to fetch next.
// A last batch that was cut off by the size limit does not count.
func offsetAfter(batches []byte, from int64) int64 {
	next := from
	for len(batches) >= batchOverhead {
		size := int(binary.BigEndian.Uint32(batches[batchLengthAt:])) + batchOverhead
		if size > len(batches) {
			break
		}
		base := int64(binary.BigEndian.Uint64(batches))
		next = base + int64(int32(binary.BigEndian.Uint32(batches[batchLastDelta:]))) + 1
		batches = batches[size:]
	}
	return next
}
