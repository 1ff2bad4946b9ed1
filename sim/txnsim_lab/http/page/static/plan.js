// @ts-check
// A plan for a class, two times 45 minutes: the time, what happens, the lesson. docs/teaching.md is generated from it.

export const CLASS_PLAN = [
  ["0:00", "Can a record of an aborted transaction still arrive? Take a vote, say nothing", ""],
  ["0:05", "Together: the teacher presents, the class predicts by a show of hands", "L0"],
  ["0:15", "In pairs, who have to agree before they answer", "L1"],
  ["0:30", "What most got wrong, shown again, and its picture", ""],
  ["0:35", "In pairs: open, marker owed, hanging", "L4"],
  ["0:45", "A break", ""],
  ["0:50", "In pairs: what verification does not promise", "L2"],
  ["1:00", "In pairs: what success does not promise", "L3"],
  ["1:10", "Alone", "quiz"],
  ["1:20", "The questions that most missed, together", ""],
  ["1:30", "The end. At home: L5 to L9, L10 with your own client, L11", ""]
];
