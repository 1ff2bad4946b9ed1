//! Consume, transform, produce: a group's positions are part of the transaction.

use std::collections::{BTreeSet, VecDeque};

use crate::driver::{Answer, Kind, Library, Member, Producer, ProducerOptions, Record, Taken};
use crate::lab::{Lab, new_topic, same, shows, until, values};

const INPUTS: i64 = 12;
const PARTITIONS: i32 = 4;

pub fn transform<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let [input, output, group] = ["in", "out", "group"].map(|suffix| lab.name(suffix));
    new_topic(&library, &input, 1)?;
    new_topic(&library, &output, 1)?;
    library.producer(ProducerOptions::plain())?.send(&input, &numbered(0, INPUTS, 1))?;
    let mut member = library.member(&group, &input)?;
    let mut producer = library.producer(ProducerOptions::transactional(lab.name("id")))?;
    let position = || library.positions(&group, &input, 1);
    same(&position()?, &vec![None], "position at first")?;

    let mut done = 0;
    let mut round = 0;
    let mut taken = member.poll()?;
    while done < INPUTS {
        until("records", || {
            if taken.records.is_empty() {
                taken = member.poll()?;
            }
            Ok(!taken.records.is_empty())
        })?;
        let part = taken.part(&taken.records[..taken.records.len().min(4)]);
        producer.begin()?;
        producer.send(&output, &transformed(&part.records, ""))?;
        producer.send_offsets(&input, &part)?;
        round += 1;
        if round == 2 {
            // Done again by the next one.
            producer.abort()?;
            shows(&library, &output, &transformed(&numbered(0, done, 1), ""))?;
            same(&position()?, &vec![Some(done)], "position after an abort")?;
            continue;
        }
        producer.commit()?;
        done += i64::try_from(part.records.len()).unwrap_or_default();
        taken.records.drain(..part.records.len());
        until(&format!("position {done}"), || Ok(position()? == vec![Some(done)]))?;
    }
    shows(&library, &output, &transformed(&numbered(0, INPUTS, 1), ""))?;
    same(&position()?, &vec![Some(INPUTS)], "position at last")
}

pub fn rebalance<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let [input, output, group] = ["in", "out", "group"].map(|suffix| lab.name(suffix));
    new_topic(&library, &input, PARTITIONS)?;
    new_topic(&library, &output, 1)?;
    let mut feeder = library.producer(ProducerOptions::plain())?;
    feeder.send(&input, &numbered(0, INPUTS, PARTITIONS))?;
    let worker = |name: &'static str| -> Answer<Worker<'_, L>> {
        Ok(Worker {
            input: &input,
            output: &output,
            name,
            member: library.member(&group, &input)?,
            producer: library.producer(ProducerOptions::transactional(lab.name(name)))?,
            backlog: VecDeque::new(),
        })
    };
    let mut first = worker("first")?;
    until("records", || first.look().map(|()| !first.backlog.is_empty()))?;
    let taken = first.backlog.pop_front().expect("just seen");
    first.open(&taken)?;
    let mut second = worker("second")?;
    until("partitions for both members", || {
        first.look()?;
        second.look()?;
        let [mine, yours] = [first.member.partitions()?, second.member.partitions()?];
        Ok(!mine.is_empty() && !yours.is_empty() && mine.len() + yours.len() == PARTITIONS as usize)
    })?;
    first.end(&taken)?;
    feeder.send(&input, &numbered(INPUTS, 2 * INPUTS, PARTITIONS))?;
    until("all outputs", || {
        first.turn()?;
        second.turn()?;
        Ok(library.read(&output, true)?.len() >= 2 * INPUTS as usize)
    })?;

    let seen = values(&library.read(&output, true)?);
    let word = |text: &String, at| text.split(' ').nth(at).unwrap_or_default().to_owned();
    let mut outputs: Vec<String> = seen.iter().map(|text| word(text, 0)).collect();
    outputs.sort();
    let wanted = transformed(&numbered(0, 2 * INPUTS, PARTITIONS), "");
    same(&outputs, &values(&wanted).iter().map(|text| word(text, 0)).collect(), "outputs")?;
    let names: BTreeSet<String> = seen.iter().map(|text| word(text, 1)).collect();
    same(&names.len(), &2, "members at work")?;
    // Their marker is another one than the outputs'.
    let ends = vec![Some(2 * INPUTS / i64::from(PARTITIONS)); PARTITIONS as usize];
    until("positions at the ends", || Ok(library.positions(&group, &input, PARTITIONS)? == ends))
}

/// A member of the group with a producer of its own.
struct Worker<'a, L: Library> {
    input: &'a str,
    output: &'a str,
    name: &'static str,
    member: L::Member,
    producer: L::Producer,
    backlog: VecDeque<Taken<L::Member>>,
}

impl<L: Library> Worker<'_, L> {
    /// What there is, is kept together with who the member was when it got it.
    fn look(&mut self) -> Answer<()> {
        let taken = self.member.poll()?;
        if !taken.records.is_empty() {
            self.backlog.push_back(taken);
        }
        Ok(())
    }

    /// One transaction, if there is something to do.
    fn turn(&mut self) -> Answer<()> {
        self.look()?;
        while let Some(taken) = self.backlog.pop_front() {
            self.open(&taken)?;
            self.end(&taken)?;
        }
        Ok(())
    }

    fn open(&mut self, taken: &Taken<L::Member>) -> Answer<()> {
        self.producer.begin()?;
        self.producer.send(self.output, &transformed(&taken.records, self.name)).map(drop)
    }

    /// The commit belongs to the generation that the records were taken in, or is refused and
    /// nothing has happened.
    fn end(&mut self, taken: &Taken<L::Member>) -> Answer<()> {
        match self.producer.send_offsets(self.input, taken) {
            Ok(()) => self.producer.commit(),
            Err(failure) if failure.kind == Kind::Abortable => self.producer.abort(),
            Err(failure) => Err(failure),
        }
    }
}

fn numbered(first: i64, end: i64, partitions: i32) -> Vec<Record> {
    let partition_of = |number| i32::try_from(number % i64::from(partitions)).unwrap_or_default();
    (first..end).map(|number| Record::new(partition_of(number), format!("{number:03}"))).collect()
}

fn transformed(records: &[Record], name: &str) -> Vec<Record> {
    records.iter().map(|one| Record::new(0, format!("out-{} {name}", one.text()))).collect()
}
