"""Share partitions on the leader of their partition, and share sessions (KIP-932). Pure.

- ``partition``: a share partition: start reading here.
- ``commands``: its commands and replies; states of records, settings.
- ``sessions``: the partitions that each member fetches here, and what to release when a connection
  closes.
- ``fetching``: how a ShareFetch spreads over partitions, and which batches its response has.

How the owner uses it. Times are arguments, settings are those of the group at that moment::

    session = sessions.open(...) or .resume(...)        # then rotate_partitions(...), for each:
    partition.start_loading()                           # ReadShareState to the share coordinator
    partition.load(answer, reset_offset, settings)      # or fail_loading: forget it
    partition.take_fetch_lock(fetch)                    # and can_acquire, else wait
    batches = read from next_fetch_offset()             # out of range: move_log_start
    partition.acquire(Acquire(...), settings, now_ms)   # then release_fetch_lock
    session.conclude(...)                               # the partitions of the response

    write = partition.acknowledge(...) or .release(...) or .expire_locks(...)
    answer = send write.state to the share coordinator
    done = partition.conclude(write.token, answer.error, answer.message, now_ms)
    for letter in done.dead_letters:                    # copied to their topic, or not:
        write = partition.archive_dead_letter(letter.token)

Waiting fetches look again when locks have expired, when ``ConcludedWrite`` says so, and after every
acknowledgement and release. An error of ``FENCING_ERRORS`` ends the share partition: fence and
forget it.
"""
