package kfake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupInfo is a group as a broker describes it.
type GroupInfo struct {
	Group   string
	State   string
	Epoch   int32
	Members []GroupMember
	Commits map[string]map[int32]GroupCommit
}

// GroupCommit is a committed position.
type GroupCommit struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// GroupMember of a group.
type GroupMember struct {
	MemberID         string
	InstanceID       *string
	SubscribedTopics []string
	Assignment       map[string][]int32
}

// NumAssigned partitions of a member.
func (m *GroupMember) NumAssigned() int {
	sum := 0
	for _, partitions := range m.Assignment {
		sum += len(partitions)
	}
	return sum
}

// NumAssigned partitions of all members.
func (g *GroupInfo) NumAssigned() int {
	sum := 0
	for n := range g.Members {
		sum += g.Members[n].NumAssigned()
	}
	return sum
}

// GroupInfo of a group, or nil if there is none.
func (c *Cluster) GroupInfo(group string) *GroupInfo {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := c.groupInfo(ctx, group)
	if err != nil {
		return nil
	}
	return found
}

// WaitGroupStable waits until a group is stable with this many members.
func (c *Cluster) WaitGroupStable(ctx context.Context, group string, members int) (*GroupInfo, error) {
	for {
		found, err := c.groupInfo(ctx, group)
		if err == nil && found.State == "Stable" && len(found.Members) == members {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; last seen: %+v %v", ctx.Err(), found, err)
		case <-time.After(20 * time.Millisecond): // pace of asking
		}
	}
}

func (c *Cluster) groupInfo(ctx context.Context, group string) (*GroupInfo, error) {
	info, err := c.described(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	info.Commits = map[string]map[int32]GroupCommit{}
	for topic, partitions := range offsets {
		info.Commits[topic] = map[int32]GroupCommit{}
		for index, at := range partitions {
			info.Commits[topic][index] = GroupCommit{at.At, at.LeaderEpoch, at.Metadata}
		}
	}
	return info, nil
}

// described by the group's own protocol: a classic group is not known to ConsumerGroupDescribe.
func (c *Cluster) described(ctx context.Context, group string) (*GroupInfo, error) {
	next, err := c.admin.DescribeConsumerGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	found := next[group]
	if errors.Is(found.Err, kerr.GroupIDNotFound) {
		return c.describedClassic(ctx, group)
	}
	info := &GroupInfo{Group: group, State: found.State, Epoch: found.Epoch}
	for _, member := range found.Members {
		info.Members = append(info.Members, GroupMember{
			MemberID:         member.MemberID,
			InstanceID:       member.InstanceID,
			SubscribedTopics: member.SubscribedTopics,
			Assignment:       lists(member.Assignment),
		})
	}
	return info.sorted(), found.Err
}

func (c *Cluster) describedClassic(ctx context.Context, group string) (*GroupInfo, error) {
	classic, err := c.admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	found := classic[group]
	if found.State == "Dead" {
		return nil, kerr.GroupIDNotFound
	}
	info := &GroupInfo{Group: group, State: found.State}
	for _, member := range found.Members {
		one := GroupMember{MemberID: member.MemberID, InstanceID: member.InstanceID}
		if assigned, is := member.Assigned.AsConsumer(); is {
			one.Assignment = map[string][]int32{}
			for _, topic := range assigned.Topics {
				one.Assignment[topic.Topic] = topic.Partitions
			}
		}
		info.Members = append(info.Members, one)
	}
	return info.sorted(), found.Err
}

func (g *GroupInfo) sorted() *GroupInfo {
	slices.SortFunc(g.Members, func(a, b GroupMember) int { return strings.Compare(a.MemberID, b.MemberID) })
	return g
}

func lists(set kadm.TopicsSet) map[string][]int32 {
	all := map[string][]int32{}
	for topic, partitions := range set {
		for index := range partitions {
			all[topic] = append(all[topic], index)
		}
	}
	return all
}
