package bench

// What an operator sees and does, as far as the library has it (KIP-664).
func admin(b *Bench) {
	looking, able := b.Admin.(TransactionAdmin)
	if !able {
		Fail("the library has no way to look at transactions")
	}
	at := b.NewTopic("admin", 1)[0]
	id := b.Named("admin")
	producer := b.Transactional("admin")
	defer producer.Close()
	Begin(producer)
	offset := Send(producer, at, "one", "two")
	open := b.expectOpen(looking, at, id, offset)
	Commit(producer)
	b.AwaitCommitted(at, "one", "two")
	Await("the state is CompleteCommit", func() bool {
		return Must(looking.DescribeTransaction(id)).State == "CompleteCommit"
	})
	Expect("listed as Ongoing", "", Must(looking.ListTransactions("Ongoing"))[id])
	for _, state := range Must(looking.DescribeProducers(at)) {
		if state.ProducerID == open.ProducerID {
			Expect("open since", int64(-1), state.OpenSince)
		}
	}
	if aborting, able := b.Admin.(TransactionAborter); able {
		b.abortAnOpenOne(looking, aborting)
	}
	if fencing, able := b.Admin.(ProducerFencer); able {
		b.fenceProducers(looking, fencing)
	}
}

func (b *Bench) expectOpen(looking TransactionAdmin, at Partition, id string, offset int64) ProducerState {
	Expect("listed as Ongoing", "Ongoing", Must(looking.ListTransactions("Ongoing"))[id])
	Expect("listed as Empty", "", Must(looking.ListTransactions("Empty"))[id])
	transaction := Must(looking.DescribeTransaction(id))
	Expect("state", "Ongoing", transaction.State)
	Expect("partitions", map[Partition]bool{at: true}, transaction.Partitions)
	for _, state := range Must(looking.DescribeProducers(at)) {
		if state.ProducerID == transaction.ProducerID {
			Expect("producer epoch", transaction.Epoch, state.Epoch)
			Expect("open since", offset, state.OpenSince)
			return state
		}
	}
	Fail("%v does not list producer %d", at, transaction.ProducerID)
	return ProducerState{}
}

// A marker written to the leader alone: the partition goes on, the coordinator is not told.
func (b *Bench) abortAnOpenOne(looking TransactionAdmin, aborting TransactionAborter) {
	at := b.NewTopic("admin-abort", 1)[0]
	id := b.Named("admin-abort")
	producer := b.Transactional("admin-abort")
	defer producer.Close()
	plain := b.Producer(ProducerOptions{})
	defer plain.Close()
	Begin(producer)
	offset := Send(producer, at, "open")
	Send(plain, at, "behind it")
	b.ExpectValues(at, ReadCommitted)
	OK("abort", aborting.AbortTransaction(at, b.expectOpen(looking, at, id, offset)))
	b.AwaitCommitted(at, "behind it")
	Expect("the coordinator's state", "Ongoing", Must(looking.DescribeTransaction(id)).State)
	Abort(producer)
}

func (b *Bench) fenceProducers(looking TransactionAdmin, fencing ProducerFencer) {
	at := b.NewTopic("admin-fence", 1)[0]
	id := b.Named("admin-fence")
	producer := b.Transactional("admin-fence")
	defer producer.Close()
	Begin(producer)
	Send(producer, at, "of the fenced")
	OK("fence", fencing.FenceProducers(id))
	b.AwaitCommitted(at)
	Expect("state", "Empty", Must(looking.DescribeTransaction(id)).State)
	ExpectError("commit of the fenced", producer.Commit(), b.Library.Fenced)
}
