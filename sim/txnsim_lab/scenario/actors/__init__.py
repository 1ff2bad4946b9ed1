"""Who acts in a story: ``_wire`` sends each request by hand, ``_application`` uses a client as
programs do, ``_member`` consumes in a group, ``_bystander`` writes without transactions,
``_reader`` and ``_operator`` look; ``base`` has what they share.

What each of them is answered goes into the history that the judges read.
"""
