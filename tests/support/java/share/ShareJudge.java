package kafka.server.share;

import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.ShareGroupAutoOffsetResetStrategy;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.PartitionMetadataProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.*;
import org.apache.kafka.server.share.fetch.*;
import org.apache.kafka.server.share.persister.*;
import org.apache.kafka.server.storage.log.*;
import org.apache.kafka.server.util.timer.*;

/**
 * A SharePartition of the jars, driven by lines on stdin; after each one comes its answer and its state.
 * The lines are those of tests/support/share_walks.py. The clock and the timers are here, and what the share
 * coordinator and the dead letter topic answer comes as lines.
 */
public class ShareJudge {
    static long now = 0;
    static long seq = 0;
    record Due(long at, long seq, TimerTaskEntry entry) {}
    static PriorityQueue<Due> due = new PriorityQueue<>(Comparator.comparingLong(Due::at).thenComparingLong(Due::seq));
    record Pending(WriteShareGroupStateParameters asked, CompletableFuture<WriteShareGroupStateResult> future) {}
    static List<Pending> fresh = new ArrayList<>();
    static Map<Integer, List<Pending>> groups = new HashMap<>();
    record Letter(long first, long last, short count, String cause, CompletableFuture<Void> future) {}
    static List<Letter> letters = new ArrayList<>();
    static List<Letter> newLetters = new ArrayList<>();
    static int limit, locks, lockMs; static boolean dlq, renew;
    static Uuid topicId = Uuid.randomUuid();
    static TopicIdPartition tip = new TopicIdPartition(topicId, new TopicPartition("orders", 0));
    static long loadStart; static List<PersisterStateBatch> loadBatches;
    static SharePartition sp;

    static class Clock implements Time {
        public long milliseconds() { return now; }
        public long hiResClockMs() { return now; }
        public long nanoseconds() { return now * 1000000; }
        public void sleep(long ms) { throw new IllegalStateException(); }
    }
    static class Timers implements org.apache.kafka.server.util.timer.Timer {
        public void add(org.apache.kafka.server.util.timer.TimerTask t) { due.add(new Due(now + t.delayMs, seq++, new TimerTaskEntry(t, now + t.delayMs))); }
        public boolean advanceClock(long t) { return false; }
        public int size() { return due.size(); }
        public void close() {}
    }
    static class Config extends ShareGroupConfigProvider {
        Config() { super(null); }
        public int recordLockDurationMsOrDefault(String g, int d) { return lockMs; }
        public int deliveryCountLimitOrDefault(String g, int d) { return limit; }
        public int partitionMaxRecordLocksOrDefault(String g, int d) { return locks; }
        public boolean isRenewAcknowledgeEnabled(String g) { return renew; }
        public ShareGroupAutoOffsetResetStrategy autoOffsetReset(String g) { return ShareGroupAutoOffsetResetStrategy.EARLIEST; }
        public Optional<String> errorsDLQTopicName(String g) { return dlq ? Optional.of("dead") : Optional.empty(); }
    }
    static class Store extends NoOpStatePersister {
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters p) {
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(topicId, List.of(
                PartitionFactory.newPartitionAllData(0, 7, loadStart, (short) 0, "", loadBatches))))).build());
        }
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters p) {
            Pending one = new Pending(p, new CompletableFuture<>());
            fresh.add(one);
            return one.future();
        }
    }
    static class Dead implements ShareGroupDLQManager {
        public CompletableFuture<Void> enqueue(ShareGroupDLQRecordParameter p) {
            Letter one = new Letter(p.firstOffset(), p.lastOffset(), p.deliveryCount().get(), p.cause().map(Throwable::getMessage).orElse(""), new CompletableFuture<>());
            letters.add(one); newLetters.add(one);
            return one.future();
        }
        public void stop() {}
    }
    static class Meta implements PartitionMetadataProvider {
        public long offsetForEarliestTimestamp(TopicIdPartition t, int e) { return 0; }
        public long offsetForLatestTimestamp(TopicIdPartition t, int e) { return 0; }
        public long offsetForTimestamp(TopicIdPartition t, long x, int e) { return 0; }
        public org.apache.kafka.storage.internals.log.LogOffsetMetadata endOffsetMetadata(TopicIdPartition t, FetchIsolation i) { return null; }
        public int leaderEpoch(TopicIdPartition t) { return 0; }
        public boolean addPartitionListener(TopicIdPartition t, org.apache.kafka.server.partition.PartitionListener l) { return true; }
        public void removePartitionListener(TopicIdPartition t, org.apache.kafka.server.partition.PartitionListener l) {}
    }
    static String state() {
        StringBuilder s = new StringBuilder();
        s.append(sp.startOffset()).append(' ').append(sp.endOffset()).append(' ').append(sp.nextFetchOffset()).append(' ').append(sp.deliveryCompleteCount()).append(' ').append(sp.canAcquireRecords()).append(" |");
        for (InFlightBatch b : sp.cachedState().values()) {
            if (b.offsetState() == null)
                for (long o = b.firstOffset(); o <= b.lastOffset(); o++) s.append(' ').append(o).append(':').append(b.batchState().id()).append(':').append(b.batchDeliveryCount()).append(':').append(b.batchMemberId()).append(':').append(b.batchHasOngoingStateTransition() ? "p" : "");
            else for (var e : b.offsetState().entrySet()) s.append(' ').append(e.getKey()).append(':').append(e.getValue().state().id()).append(':').append(e.getValue().deliveryCount()).append(':').append(e.getValue().memberId()).append(':').append(e.getValue().hasOngoingStateTransition() ? "p" : "");
        }
        return s.toString();
    }
    static String done(int token) {
        StringBuilder s = new StringBuilder();
        groups.put(token, new ArrayList<>(fresh));
        TreeMap<Long, String> all = new TreeMap<>();
        PartitionStateBatchData d = null;
        for (Pending p : fresh) {
            d = (PartitionStateBatchData) p.asked().groupTopicPartitionData().topicsData().get(0).partitions().get(0);
            for (PersisterStateBatch b : d.stateBatches()) for (long o = b.firstOffset(); o <= b.lastOffset(); o++) all.put(o, b.deliveryState() + ":" + b.deliveryCount());
        }
        if (d != null) s.append(d.startOffset()).append(' ').append(d.deliveryCompleteCount()).append(' ').append(all);
        fresh.clear();
        return s.toString();
    }
    static String future(CompletableFuture<Void> f, int token) {
        if (f.isCompletedExceptionally()) {
            try { f.join(); } catch (Throwable t) { Throwable c = t.getCause() == null ? t : t.getCause(); return "!" + Errors.forException(c).name() + " " + c.getMessage(); }
        }
        return done(token);
    }
    static MemoryRecords records(String[] specs) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        for (String spec : specs) {
            String[] f = spec.split(":");
            long base = Long.parseLong(f[0]), last = Long.parseLong(f[1]), pid = Long.parseLong(f[2]);
            boolean tx = f[3].equals("1"), abort = f[4].equals("1");
            if (abort) { buffer.put(MemoryRecords.withEndTransactionMarker(base, 0L, 0, pid, (short) 0, new EndTransactionMarker(ControlRecordType.ABORT, 0)).buffer()); continue; }
            ByteBuffer one = ByteBuffer.allocate(4096);
            MemoryRecordsBuilder b = MemoryRecords.builder(one, (byte) 2, Compression.NONE, TimestampType.CREATE_TIME, base, 0L, pid, (short) (pid < 0 ? -1 : 0), pid < 0 ? -1 : 0, tx, 0);
            b.appendWithOffset(base, 0L, null, new byte[1]);
            if (last > base) b.appendWithOffset(last, 0L, null, new byte[1]);
            buffer.put(b.build().buffer());
        }
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }
    static String run(String[] w) throws Exception {
        int token = Integer.parseInt(w[1]);
        switch (w[0]) {
            case "load": {
                due.clear(); fresh.clear(); groups.clear(); letters.clear(); newLetters.clear();
                limit = Integer.parseInt(w[2]); locks = Integer.parseInt(w[3]); lockMs = Integer.parseInt(w[4]); dlq = w[5].equals("1"); renew = w[6].equals("1");
                loadStart = Long.parseLong(w[7]); loadBatches = new ArrayList<>();
                for (int i = 8; i < w.length; i++) { String[] f = w[i].split(":"); loadBatches.add(new PersisterStateBatch(Long.parseLong(f[0]), Long.parseLong(f[1]), Byte.parseByte(f[2]), Short.parseShort(f[3]))); }
                sp = new SharePartition("group", tip, 3, 2000, 5, 30000, new Timers(), new Clock(), new Store(), new Meta(), k -> {}, new Config(), null, () -> true, new Dead());
                sp.maybeInitialize().join(); newLetters.clear();
                return "";
            }
            case "fetch": {
                List<AbortedTransaction> aborted = new ArrayList<>();
                if (!w[7].equals("-")) for (String a : w[7].split(",")) { String[] f = a.split(":"); aborted.add(new AbortedTransaction().setProducerId(Long.parseLong(f[0])).setFirstOffset(Long.parseLong(f[1]))); }
                FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1000, 0, records(Arrays.copyOfRange(w, 8, w.length)), Optional.empty(), OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
                ShareAcquiredRecords got = sp.acquire(w[2], w[3].equals("1") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED, Integer.parseInt(w[4]), Integer.parseInt(w[5]), Long.parseLong(w[6]), data, FetchIsolation.TXN_COMMITTED);
                StringBuilder s = new StringBuilder().append(got.count());
                for (AcquiredRecords a : got.acquiredRecords()) s.append(' ').append(a.firstOffset()).append('-').append(a.lastOffset()).append(':').append(a.deliveryCount());
                return s.toString();
            }
            case "ack": {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (int i = 3; i < w.length; i++) {
                    String[] f = w[i].split(":");
                    List<Byte> types = new ArrayList<>();
                    for (String t : f[2].split(",")) types.add(Byte.parseByte(t));
                    batches.add(new ShareAcknowledgementBatch(Long.parseLong(f[0]), Long.parseLong(f[1]), types));
                }
                return future(sp.acknowledge(w[2], batches), token);
            }
            case "release": return future(sp.releaseAcquiredRecords(w[2]), token);
            case "time": {
                now = Long.parseLong(w[2]);
                fire();
                return done(token);
            }
            case "lso": sp.updateCacheAndOffsets(Long.parseLong(w[2])); return "";
            case "answer": {
                short code = Short.parseShort(w[3]);
                for (Pending p : groups.remove(Integer.parseInt(w[2])))
                    p.future().complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(topicId, List.of(PartitionFactory.newPartitionErrorData(0, code, "text"))))).build());
                TreeMap<Long, String> all = new TreeMap<>();
                for (Letter l : newLetters) for (long o = l.first(); o <= l.last(); o++) all.put(o, l.count() + ":" + l.cause());
                newLetters.clear();
                return all.toString();
            }
            case "letter": {
                long first = Long.parseLong(w[2]), last = Long.parseLong(w[3]);
                List<Letter> now = new ArrayList<>();
                for (Letter l : letters) if (l.first() >= first && l.last() <= last) now.add(l);
                letters.removeAll(now);
                for (Letter l : now) l.future().complete(null);
                return done(token);
            }
            default: throw new IllegalArgumentException(w[0]);
        }
    }
    static void fire() { while (!due.isEmpty() && due.peek().at() <= now) { Due d = due.poll(); if (!d.entry().cancelled()) d.entry().timerTask.run(); } }
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
        for (String line; (line = in.readLine()) != null;) {
            String result;
            try { result = run(line.trim().split(" ")); }
            catch (NullPointerException e) { result = "!UNKNOWN_SERVER_ERROR"; }
            catch (Throwable t) { result = "!" + Errors.forException(t).name() + " " + t.getMessage(); }
            fire();
            out.println(result + " # " + state());
        }
    }
}
