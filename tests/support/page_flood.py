"""Events of a busy cluster, generated inside the page."""

from __future__ import annotations

from typing import Final

MADE: Final = """() => {
  const { events } = __page["store.js"];
  const nodes = ["broker/1/txn/7", "broker/1/log/t-0"];
  let turn = 0, before = [];
  globalThis.__made = (transactions, isEndless = false) => {
    const some = [];
    let { i, t } = events[events.length - 1];
    const add = (node, k, tx, d, p) => {
      some.push({ node, i: ++i, t: ++t, n: 0, l: i, p, k, tx, d });
      return [i];
    };
    for (let n = 0; n < transactions; n += 1, turn += 1) {
      const pid = 1000 + (turn % 50);
      const tx = `shop-${pid}/${pid}:0`;
      const entry = { pid, epoch: 0, partitions: ["t-0"], timeout_ms: 60000, pending: null };
      if (!turn) add(nodes[1], "node.role", "", { role: "leader", epoch: 0, tp: "t-0" }, []);
      const ongoing = { ...entry, state: "Ongoing" };
      const begun = add(nodes[0], "txn.complete", tx, ongoing, isEndless ? before : []);
      const batch = { tp: "t-0", base: 2 * turn, last: 2 * turn, pid, epoch: 0, seq: turn };
      const appended = add(nodes[1], "log.append", tx, { ...batch, txn: true }, begun);
      const end = { tp: "t-0", pid, epoch: 0, coordinator_epoch: 0 };
      const marker = { ...end, offset: 2 * turn + 1, committed: true };
      const marked = add(nodes[1], "marker.written", tx, marker, appended);
      add(nodes[1], "log.lso", "", { tp: "t-0", to: 2 * turn + 2 }, marked);
      const done = { ...entry, partitions: [], state: "CompleteCommit" };
      before = add(nodes[0], "txn.complete", tx, done, marked);
    }
    return some;
  };
}"""
"""``__made(n)`` makes five events for each of ``n`` transactions of 50 producers. If ``isEndless``,
each transaction's cause is the transaction before it.
"""
FLOOD: Final = f"""(isEndless) => {{
  ({MADE})();
  globalThis.__flood = setInterval(() => __page["store.js"].addEvents(__made(40, isEndless)), 40);
}}"""
"""1,000 transactions per second."""
