"""What a busy cluster tells a page, made in the page itself."""

from __future__ import annotations

from typing import Final

FLOOD: Final = """() => {
  const { events, take } = __page["store.js"];
  let turn = 0;
  const nodes = ["broker/1/txn/7", "broker/1/log/t-0"];
  globalThis.__flood = setInterval(() => {
    const some = [];
    let { i, t } = events[events.length - 1];
    const add = (node, k, tx, d, p) => some.push({ node, i: ++i, t: ++t, n: 0, l: i, p, k, tx, d });
    for (let n = 0; n < 40; n += 1, turn += 1) {
      const pid = 1000 + (turn % 50);
      const tx = `shop-${pid}/${pid}:0`;
      const entry = { pid, epoch: 0, partitions: ["t-0"], timeout_ms: 60000, pending: null };
      if (!turn) add(nodes[1], "node.role", "", { role: "leader", epoch: 0, tp: "t-0" }, []);
      add(nodes[0], "txn.complete", tx, { ...entry, state: "Ongoing" }, []);
      const batch = { tp: "t-0", base: 2 * turn, last: 2 * turn, pid, epoch: 0, seq: turn };
      add(nodes[1], "log.append", tx, { ...batch, txn: true }, [i - 1]);
      const marker = { tp: "t-0", pid, epoch: 0, offset: 2 * turn + 1, committed: true };
      add(nodes[1], "marker.written", tx, { ...marker, coordinator_epoch: 0 }, [i - 1]);
      add(nodes[1], "log.lso", "", { tp: "t-0", to: 2 * turn + 2 }, [i - 1]);
      const done = { ...entry, partitions: [], state: "CompleteCommit" };
      add(nodes[0], "txn.complete", tx, done, [i - 2]);
    }
    take(some);
  }, 40);
}"""
"""1,000 transactions per second of 50 producers, five events each."""
