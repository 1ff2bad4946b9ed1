//! Transactions of others (KIP-664), as far as the library has it: fencing producers it has not.

use checks::driver::{Answer, Failure, Kind, Library, Producer as _, ProducerOptions, Record};
use checks::lab::{Lab, new_topic, refused, same, shows, until, values};
use krafka::admin::{
    AbortTransactionOptions, DescribeProducersOptions, DescribeTransactionsOptions,
    ListTransactionsOptions, ProducerState, TopicPartition, TransactionDescription,
};

use crate::failures::{answer, failure_of};
use crate::library::Krafka;

pub fn admin(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<Krafka>()?;
    let (topic, id) = (lab.name("topic"), lab.name("id"));
    new_topic(&library, &topic, 1)?;
    let mut producer = library.producer(ProducerOptions::transactional(&id))?;
    let mut other = library.producer(ProducerOptions::plain())?;
    other.send(&topic, &[Record::new(0, "before")])?;
    producer.begin()?;
    producer.send(&topic, &[Record::new(0, "open")])?;
    other.send(&topic, &[Record::new(0, "behind")])?;

    same(&listed(&library, &id, "Ongoing")?, &1, "listed as ongoing")?;
    same(&listed(&library, &id, "CompleteAbort")?, &0, "listed as aborted")?;
    let described = described(&library, &id)?;
    same(&described.state.as_str(), &"Ongoing", "state")?;
    same(&described.partitions, &vec![TopicPartition::new(&topic, 0)], "partitions")?;
    let active = producers(&library, &topic)?;
    let open: Vec<&ProducerState> =
        active.iter().filter(|state| state.current_transaction_start_offset.is_some()).collect();
    same(&open.len(), &1, "producers with an open transaction")?;
    same(&open[0].current_transaction_start_offset, &Some(1), "its first offset")?;
    same(&open[0].producer_id, &described.producer_id, "its producer id")?;

    let asked = library.admin.abort_transaction(&id, AbortTransactionOptions::default());
    for (_, result) in answer(&library.runtime, "abort_transaction", asked)? {
        result.map_err(failure_of)?;
    }
    shows(&library, &topic, &[Record::new(0, "before"), Record::new(0, "behind")])?;
    until("no open transaction", || {
        let active = producers(&library, &topic)?;
        Ok(active.iter().all(|state| state.current_transaction_start_offset.is_none()))
    })?;
    // Only the partition was told: for its coordinator the transaction goes on, and can be ended.
    producer.abort()?;
    producer.begin()?;
    producer.send(&topic, &[Record::new(0, "next")])?;
    producer.commit()?;
    shows(&library, &topic, &["before", "behind", "next"].map(|text| Record::new(0, text)))?;
    let everything = ["before", "open", "behind", "next"].map(String::from).to_vec();
    same(&values(&library.read(&topic, false)?), &everything, "uncommitted")?;
    let nobody = answer(
        &library.runtime,
        "describe_transactions",
        library.admin.describe_transactions([lab.name("nobody")], Default::default()),
    )?;
    let answered = nobody.into_values().next().map_or(Ok(()), |one| one.map(drop));
    refused("a description of nobody", answered.map_err(failure_of), &[Kind::Other]).map(drop)
}

/// How many transactions of this id and state there are.
fn listed(library: &Krafka, id: &str, state: &str) -> Answer<usize> {
    let options = ListTransactionsOptions::default().states(vec![state.to_owned()]);
    let asked = library.admin.list_transactions(options);
    let mut count = 0;
    for (_, listings) in answer(&library.runtime, "list_transactions", asked)? {
        let mine = |one: &&_| transactional_id_of(one) == id;
        count += listings.map_err(failure_of)?.iter().filter(mine).count();
    }
    Ok(count)
}

fn transactional_id_of(listing: &krafka::admin::TransactionListing) -> &str {
    &listing.transactional_id
}

fn described(library: &Krafka, id: &str) -> Answer<TransactionDescription> {
    let options = DescribeTransactionsOptions::default();
    let asked = library.admin.describe_transactions([id], options);
    match answer(&library.runtime, "describe_transactions", asked)?.remove(id) {
        Some(described) => described.map_err(failure_of),
        None => Err(Failure::check(format!("{id} is not described"))),
    }
}

fn producers(library: &Krafka, topic: &str) -> Answer<Vec<ProducerState>> {
    let partition = TopicPartition::new(topic, 0);
    let options = DescribeProducersOptions::default();
    let asked = library.admin.describe_producers([partition.clone()], options);
    match answer(&library.runtime, "describe_producers", asked)?.remove(&partition) {
        Some(active) => active.map_err(failure_of),
        None => Err(Failure::check(format!("{topic}-0 is not described"))),
    }
}
