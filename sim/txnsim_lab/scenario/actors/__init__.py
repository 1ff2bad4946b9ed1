"""The actors of a story. ``_wire`` sends each request by hand, ``_application`` uses a client as
programs do, ``_member`` consumes in a group, ``_bystander`` writes without transactions,
``_reader`` and ``_operator`` look; ``base`` has what they share. Their calls and the answers go
into the history that the judges read.
"""
