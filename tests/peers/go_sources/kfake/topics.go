package kfake

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"time"
)

// TopicInfo is what metadata says of a topic.
type TopicInfo struct {
	Topic   string
	TopicID [16]byte
}

// TopicInfo of a topic, or nil if there is none.
func (c *Cluster) TopicInfo(topic string) *TopicInfo {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := c.admin.ListTopics(ctx, topic)
	if err != nil || found[topic].Err != nil {
		return nil
	}
	return &TopicInfo{Topic: topic, TopicID: found[topic].ID}
}

// PartitionInfo is where a partition ends.
type PartitionInfo struct {
	HighWatermark    int64
	LastStableOffset int64
}

// PartitionInfo of a partition, or nil if there is none.
func (c *Cluster) PartitionInfo(topic string, partition int32) *PartitionInfo {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	end, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil
	}
	stable, err := c.admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil
	}
	return &PartitionInfo{
		HighWatermark:    end[topic][partition].Offset,
		LastStableOffset: stable[topic][partition].Offset,
	}
}

// sealBatch writes a batch's length and checksum.
func sealBatch(batch []byte) []byte {
	const lengthAt, countedFrom, checksumAt, checkedFrom = 8, 12, 17, 21
	checksum := crc32.Checksum(batch[checkedFrom:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(batch[checksumAt:], checksum)
	binary.BigEndian.PutUint32(batch[lengthAt:], uint32(len(batch)-countedFrom))
	return batch
}
