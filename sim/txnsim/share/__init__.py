"""Share partitions on the leader of their partition, and share sessions (KIP-932). Pure.

- ``partition``: a share partition: start reading here.
- ``commands``: what it is asked and what it answers; states of records, settings.
- ``sessions``: what each member fetches here, and what a closed connection gives back.
- ``fetching``: how a ShareFetch spreads over partitions, which batches its answer has.

How its owner uses it. Times are handed in, settings are those of the group at that moment::

    session = sessions.open(...) or .resume(...)        # then rotated(...), for each partition:
    partition.start_loading()                           # ReadShareState to the share coordinator
    partition.load(answer, reset_offset, settings)      # or fail_loading: forget it
    partition.take_fetch_lock(fetch)                    # and can_acquire, else wait
    batches = read from next_fetch_offset()             # out of range: move_log_start
    partition.acquire(Acquire(...), settings, now_ms)   # then release_fetch_lock
    session.conclude(...)                               # which partitions the answer names

    write = partition.acknowledge(...) or .release(...) or .expire_locks(...)
    answer = send write.state to the share coordinator
    done = partition.conclude(write.token, answer.error, answer.message, now_ms)
    for letter in done.dead_letters:                    # copied to their topic, or not:
        write = partition.archive_dead_letter(letter.token)

Waiting fetches look again when locks have run out, where ``Concluded`` says so, and after every
acknowledgement and release. An error of ``FENCING`` ends the share partition: fence and forget it.
"""
