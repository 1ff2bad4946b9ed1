"""Who acts in a story: ``wire`` sends each request by hand, ``application`` uses a client as
programs do, ``member`` consumes in a group, ``bystander`` writes without transactions, ``reader``
and ``operator`` look; ``base`` has what they share.

What each of them is answered goes into the history that the judges read.
"""
