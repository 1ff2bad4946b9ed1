"""Reads a recorded trace: explanations, differences, other formats.

- ``state``: the state of the cluster after any event.
- ``followed_trace``: the facts for the judge (``txnsim.verdict``) after any event;
  ``_applications``: what applications asked and were answered; ``picture_words``: what a picture of
  the cluster has to say.
- ``_story_steps``: the steps of a story; ``findings``: the event that shows what judges have found;
  ``run_difference``: two runs of a story, aligned.
- ``payload_error``: an event that lacks a field of its payload.
- ``explain``: why a last stable offset does not advance; ``explained_moments`` explains every
  moment.
- ``cause_chains``: the causes of an event. ``diff``: the first difference of two runs.
- ``brief``: an event as a line; ``convert``: formats of other tools; ``redaction`` removes the
  contents of records.
"""
